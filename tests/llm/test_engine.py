"""The engine: many sequences at once, and each as if it were alone."""

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from llm import models
from llm.cache import Step
from llm.context import Context
from llm.engine import Engine, Job, QueueFullError, Request
from llm.errors import ContextError, NonFiniteError, UsageError
from llm.generate import generate
from llm.gguf import GGUF
from llm.kernels import Kernels, fast, reference
from llm.kernels.interrupt import checkpoint
from llm.kernels.operands import F32, I32
from llm.models import Arch
from llm.sampling import Sampler, Sampling
from llm.span import Span, media, tokens
from tests.tiny_architectures import CASES

N_VOCAB = 50


class Counter:
    """A fake model: the next token is the sum of the sequence's so far. It notes the rows of passes."""

    k: Kernels = reference
    hp = None
    n_ctx_train, n_embd, n_vocab, n_axis, n_level = 1000, 2, N_VOCAB, 1, 1

    def __init__(self) -> None:
        self.kv_shapes = [(1, 1)]
        self.n_rows: list[int] = []

    def embed(self, ids: I32) -> F32:
        return np.stack([ids, 0 * ids], axis=1).astype(np.float32)

    def forward(self, x: F32, step: Step) -> F32:
        self.n_rows.append(len(x))
        checkpoint()
        kv = step.kv[0]
        kv.k[0, step.at, 0] = x[:, 0]
        sums = [kv.k[0, lo:hi, 0].astype(np.float32).sum() for lo, hi in zip(step.lo, step.hi)]
        return np.stack([sums, x[:, 1]], axis=1).astype(np.float32)[-step.n_want :]

    def logits(self, x: F32) -> F32:
        return (
            np.where(np.arange(N_VOCAB) == x[:, :1] % N_VOCAB, np.float32(1), np.float32(0))
            + 0 * x[:, :1]
            + x[:, 1:]
        )


def summed(prompt: Sequence[int], n: int) -> list[int]:
    """What the fake model says."""
    ids = list(prompt)
    for _ in range(n):
        ids.append(sum(ids) % N_VOCAB)
    return ids[len(prompt) :]


def request(prompt: Sequence[int], n: int = 5, push: Callable[[int], bool] = lambda tok: False) -> Request:
    return Request([tokens(prompt)], Sampler(Sampling(temperature=0)), n, push=push)


def picture(encode: Callable[[], F32], n_tok: int = 3, key: bytes = b"p") -> Span:
    return media(n_tok, encode, key)


def colour(value: float) -> Callable[[], F32]:
    return lambda: np.array([[value, 0]] * 3, np.float32)


def finish(engine: Engine) -> None:
    while engine.step():
        pass


def test_each_answer_is_as_if_it_were_alone() -> None:
    engine = Engine(Counter(), n_slot=3, n_ctx=64, n_ubatch=8, kv_type="f32")
    prompts = [[i, 2, *range(i)] for i in range(1, 12)]
    jobs = [engine.submit(request(p, n=3 + i % 4)) for i, p in enumerate(prompts)]
    finish(engine)
    assert [j.ids for j in jobs] == [summed(p, 3 + i % 4) for i, p in enumerate(prompts)]
    assert {j.finish for j in jobs} == {"length"}


@pytest.mark.parametrize("name", ["smollm3", "gemma2", "lfm2"])
@pytest.mark.parametrize("k", [reference, fast], ids=["reference", "fast"])
def test_a_model_answers_many_as_it_answers_one(name: str, k: Kernels, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    path = CASES[name](tmp_path_factory.mktemp("m") / "m.gguf")
    arch = models.build(GGUF(path), k)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(3, 90, n).tolist() for n in (40, 3, 1, 17, 30)]
    engine = Engine(arch, n_slot=3, n_ctx=64, n_ubatch=16, kv_type="f32")
    jobs = [engine.submit(request(p, 6)) for p in prompts]
    finish(engine)
    for job, prompt in zip(jobs, prompts):
        alone, sampler = Context(arch, 64, kv_type="f32"), Sampler(Sampling(temperature=0))
        ids = generate(alone, alone.prefill([tokens(prompt)]), sampler, [], 6)
        assert job.ids == list(ids)


def test_tokens_go_on_while_a_long_prompt_is_read() -> None:
    model = Counter()
    engine = Engine(model, n_slot=2, n_ctx=900, n_ubatch=512)
    first = engine.submit(request([1], 50))
    engine.step()
    second = engine.submit(request([1] * 600, 2))
    while second.finish is None:
        before = len(first.ids)
        engine.step()
        assert len(first.ids) == before + 1
    assert max(model.n_rows) <= 129


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    engine = Engine(Counter(), n_slot=2, n_ctx=900, n_ubatch=64)
    long, short = engine.submit(request([1] * 600, 1)), engine.submit(request([1, 2], 1))
    engine.step()
    assert short.finish and not long.finish


def test_a_prompt_goes_where_most_of_it_is_already_b065() -> None:
    model = Counter()
    engine = Engine(model, n_slot=3, n_ctx=64, kv_type="f32")
    for prompt in ([1, 2, 3, 4], [5, 6, 7, 8], [9, 9]):
        engine.submit(request(prompt, 1))
    finish(engine)
    model.n_rows.clear()
    job = engine.submit(request([5, 6, 7, 8, 1], 2))
    finish(engine)
    assert job.n_cached == 4 and model.n_rows == [1, 1]
    assert job.ids == summed([5, 6, 7, 8, 1], 2)


def test_a_prefix_is_copied_from_a_sequence_at_work() -> None:
    model = Counter()
    engine = Engine(model, n_slot=2, n_ctx=64, kv_type="f32")
    first = engine.submit(request([1, 2, 3, 4, 5], 20))
    engine.step()
    second = engine.submit(request([1, 2, 3, 7], 4))
    finish(engine)
    assert second.n_cached == 3 and second.ids == summed([1, 2, 3, 7], 4)
    assert first.ids == summed([1, 2, 3, 4, 5], 20)


def test_a_picture_is_encoded_once_for_its_key_and_no_other_taken_for_it_b063() -> None:
    engine = Engine(Counter(), n_slot=2, n_ctx=64, kv_type="f32")
    answers = []
    for value in (1, 2, 3, 4):
        spans = [tokens([1]), picture(colour(value), key=b"%d" % value), tokens([1])]
        job = engine.submit(Request(spans, Sampler(Sampling(temperature=0)), 1))
        finish(engine)
        answers += job.ids
    assert answers == [5, 8, 11, 14]

    def again() -> F32:
        raise AssertionError("encoded again")

    spans = [tokens([1]), picture(again, key=b"4"), tokens([1, 1])]
    job = engine.submit(Request(spans, Sampler(Sampling(temperature=0)), 1))
    finish(engine)
    assert job.ids == [15] and job.n_cached == 5


def test_cancelled_before_during_and_after() -> None:
    engine = Engine(Counter(), n_slot=1, n_ctx=64)
    running, waiting, other = (engine.submit(request([i], 30)) for i in (1, 2, 3))
    engine.step()
    running.cancel()
    waiting.cancel()
    finish(engine)
    assert (running.finish, waiting.finish, other.finish) == ("cancelled", "cancelled", "length")
    assert len(running.ids) == 1 and not waiting.ids and other.ids == summed([3], 30)
    other.cancel()
    assert not engine.step() and other.finish == "length"


def test_a_cancel_leaves_the_pass_it_is_in_and_the_others_go_on() -> None:
    """In the middle of an encoder: its layers call kernels, and those look."""
    engine = Engine(Counter(), n_slot=2, n_ctx=64, kv_type="f32")
    n_layer = 0

    def encode() -> F32:
        nonlocal n_layer
        for n_layer in range(100):
            if n_layer == 3:
                job.cancel()
            reference.linear(np.zeros((1, 2), np.float32), weights)
        raise AssertionError("not reached")

    weights = reference.DenseLinear(np.zeros((2, 2), np.float32), None)
    other = engine.submit(request([1, 2, 3], 8))
    job = engine.submit(Request([picture(encode)], Sampler(Sampling(temperature=0)), 1))
    finish(engine)
    assert n_layer == 3 and job.finish == "cancelled"
    assert other.ids == summed([1, 2, 3], 8)


def test_what_fails_in_one_sequence_ends_that_one_b082() -> None:
    engine = Engine(Counter(), n_slot=4, n_ctx=64, kv_type="f32")

    def broken() -> F32:
        raise ValueError("no picture")

    def bad() -> F32:
        return np.full((3, 2), np.nan, np.float32)

    class DeadEnd(Sampler):
        def sample(self, logits: F32, history: Sequence[int]) -> int:
            raise UsageError("no token is left")

    def deaf(tok: int) -> bool:
        raise RuntimeError("nobody listens")

    good = engine.submit(request([1, 2], 12))
    greedy = Sampler(Sampling(temperature=0))
    failing = [
        engine.submit(Request([tokens([1]), picture(broken)], greedy, 3)),
        engine.submit(Request([tokens([1]), picture(bad), tokens([2])], greedy, 3)),
        engine.submit(Request([tokens([1])], DeadEnd(Sampling()), 3)),
        engine.submit(request([1], 3, deaf)),
    ]
    after = engine.submit(request([3, 4], 3))
    finish(engine)
    assert [type(j.error) for j in failing] == [ValueError, NonFiniteError, UsageError, RuntimeError]
    assert {j.finish for j in failing} == {"error"}
    assert good.ids == summed([1, 2], 12) and after.ids == summed([3, 4], 3)


def test_a_full_context_ends_the_answer_b087() -> None:
    engine = Engine(Counter(), n_slot=2, n_ctx=8)
    job, other = engine.submit(request([1, 2], -1)), engine.submit(request([1], 3))
    finish(engine)
    assert job.finish == "length" and len(job.ids) == 7 and other.ids == summed([1], 3)


def test_a_prompt_too_long_is_refused_before_it_waits_b083() -> None:
    engine = Engine(Counter(), n_slot=2, n_ctx=8)
    with pytest.raises(ContextError, match="takes 9 rows and the context holds 8"):
        engine.submit(request([1] * 9))
    assert not engine.step()


def test_the_queue_is_bounded() -> None:
    engine = Engine(Counter(), n_slot=1, n_ctx=8, n_waiting=2)
    for _ in range(2):
        engine.submit(request([1], 1))
    with pytest.raises(QueueFullError, match="2 requests wait already"):
        engine.submit(request([1], 1))
    finish(engine)
    engine.submit(request([1], 1))


def test_who_listens_can_end_it() -> None:
    engine = Engine(Counter(), n_slot=1, n_ctx=64)
    heard: list[int] = []

    def push(tok: int) -> bool:
        heard.append(tok)
        return len(heard) == 3

    job = engine.submit(request([1, 2], 9, push))
    finish(engine)
    assert job.finish == "stop" and heard == job.ids == summed([1, 2], 3)


def test_a_fault_of_the_program_ends_what_is_in_the_pass_and_the_engine_lives() -> None:
    class Faulty(Counter):
        def logits(self, x: F32) -> F32:
            if x[0, 0] == 13:
                raise ZeroDivisionError
            return super().logits(x)

    engine = Engine(Faulty(), n_slot=2, n_ctx=64)
    job = engine.submit(request([13], 3))
    with pytest.raises(ZeroDivisionError):
        engine.step()
    assert job.finish == "error" and isinstance(job.error, ZeroDivisionError)
    other = engine.submit(request([1], 3))
    finish(engine)
    assert other.ids == summed([1], 3)


def test_nothing_asked_for_is_nothing_said() -> None:
    engine = Engine(Counter(), n_slot=1, n_ctx=64)
    job = engine.submit(request([1], 0))
    finish(engine)
    assert job.finish == "length" and job.ids == []


def test_a_thread_waits_for_work() -> None:
    engine = Engine(Counter(), n_slot=2, n_ctx=64)
    assert not engine.wait(0)
    jobs: list[Job] = []
    thread = threading.Thread(target=lambda: (time.sleep(0.02), jobs.append(engine.submit(request([1], 2)))))
    thread.start()
    assert engine.wait(10)
    finish(engine)
    thread.join()
    assert jobs[0].finish == "length"


def test_the_fake_is_a_model() -> None:
    arch: Arch = Counter()
    assert Context(arch, kv_type="f32").prefill([tokens([1, 2])]).argmax() == 3
