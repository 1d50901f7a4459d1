"""Models and encoders do nothing with activations but move them about and call kernels."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm import models
from llm.cache import Step, new_cache
from llm.gguf import GGUF
from llm.kernels import Kernels, reference
from llm.kernels.operands import F32
from mtmd import projector
from tests.llm.opaque import Opaque, OpaqueKernels, bare
from tests.mmproj import CASES as MMPROJ
from tests.mmproj import base
from tests.tiny_architectures import CASES

X = Opaque(np.ones((2, 6), np.float32))
Y = np.ones((2, 6), np.float32)

FORBIDDEN: list[Callable[[], Any]] = [
    lambda: X + Y,
    lambda: Y + X,
    lambda: X * 2.0,
    lambda: 2.0 * X,
    lambda: X @ Y.T,
    lambda: -X,
    lambda: operator.iadd(X, Y),
    lambda: operator.setitem(X, 0, 1.0),
    lambda: np.concatenate([X, Y]),
    lambda: np.exp(X),
    lambda: np.add(Y, Y, out=X),
    lambda: np.asarray(X),
    lambda: X[Y > 0],
    lambda: X[[0, 1]],
    lambda: list(X),
    lambda: X.T,
    lambda: X.sum(),
    lambda: X.astype(np.float64),
]


@pytest.mark.parametrize("act", FORBIDDEN)
def test_arithmetic_is_refused(act: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, AttributeError, AssertionError)):
        act()


def test_reshaping_slicing_and_kernels_are_allowed() -> None:
    k = OpaqueKernels(reference)
    y = k.add(X.reshape(3, 4)[1:, None, 2], X.reshape(3, 4)[1:, None, 3])
    assert isinstance(y, Opaque) and y.shape == (2, 1) and len(y) == 2
    np.testing.assert_array_equal(bare(y), 2)
    out = Opaque(np.zeros((2, 6), np.float32))
    k.add(X, X, out=out)
    np.testing.assert_array_equal(bare(out), 2)


def logits(path: Path, k: Kernels) -> F32:
    """Of five tokens decoded at once and one more."""
    arch = models.build(GGUF(path), k)
    kv = new_cache(arch.kv_shapes, 8, "f16")
    for row, n in ((0, 5), (5, 1)):
        own = np.arange(row, row + n, dtype=np.int32)
        step = Step(own, np.broadcast_to(own, (arch.n_axis, n)), own, 0 * own, own + np.int32(1), 1, kv, 8)
        x = arch.forward(arch.embed(own + np.int32(3)), step)
    result: F32 = bare(arch.logits(x[-1:]))
    return result


@pytest.mark.parametrize("model", ["tiny_llama", "tiny_gemma3"])
def test_a_text_model_leaves_arithmetic_to_kernels(model: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(model)
    np.testing.assert_array_equal(logits(path, OpaqueKernels(reference)), logits(path, reference))


@pytest.mark.parametrize("name", CASES)
def test_every_architecture_leaves_arithmetic_to_kernels(name: str, tmp_path: Path) -> None:
    path = CASES[name](tmp_path / "m.gguf")
    np.testing.assert_array_equal(logits(path, OpaqueKernels(reference)), logits(path, reference))


@pytest.mark.parametrize("name", MMPROJ)
def test_a_projector_leaves_arithmetic_to_kernels(name: str, tmp_path: Path) -> None:
    gguf = GGUF(MMPROJ[name].make(tmp_path / "mmproj.gguf"))
    plain = projector.load(gguf, reference)
    for kind, p in projector.load(gguf, OpaqueKernels(reference)).items():
        tile = p.preprocess(base.medium({"image": "40x30", "audio": "1.0"}[kind]))[0]
        np.testing.assert_array_equal(bare(p.encode(tile)), plain[kind].encode(tile))
