"""Threads that prepare what others use: a result must not depend on who is first."""

from collections.abc import Callable

import numpy as np

from llm.kernels import fast
from llm.kernels.operands import F32, KvRows, Visible

SEEN = Visible(np.zeros(24, np.int32), np.arange(1, 25, dtype=np.int32))


def attend(seed: int) -> Callable[[], F32]:
    rng = np.random.default_rng(seed)
    kv = KvRows(*rng.standard_normal((2, 8, 64, 128)).astype(np.float32))
    q = rng.standard_normal((24, 8, 128)).astype(np.float32)
    return lambda: fast.attention(q, kv, SEEN, 0.1)


def test_attention_waits_for_keys_and_values() -> None:
    """Scratch memory holds those of another call, so that taking them too early shows.

    The head that is looked at first is the one whose keys are ready last.
    """
    calls = [attend(seed) for seed in range(5)]
    expected = [call() for call in calls]
    for i in range(500):
        np.testing.assert_array_equal(calls[i % 5](), expected[i % 5])
