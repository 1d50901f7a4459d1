"""Recorded calls: played again they give what the kernels would give then."""

import numpy as np
import pytest

from llm.gguf import GgmlType, Tensor
from llm.kernels import Kernels, fast
from llm.kernels.operands import F32, KvRows, Linear, Norm, Rope, Visible

N, N_HEAD, D = 64, 4, 16


def weights(k: Kernels, rng: np.random.Generator, n_out: int, n_in: int) -> Linear:
    w = rng.standard_normal((n_out, n_in), dtype=np.float32) / np.float32(np.sqrt(n_in))
    return k.load_linear([Tensor("w", GgmlType.F32, (n_out, n_in), w.reshape(-1).view(np.uint8))])


class Layer:
    """One block of a text model with a window, and the arrays that change from step to step."""

    def __init__(self, k: Kernels) -> None:
        rng = np.random.default_rng(0)
        self.k, self.norm = k, Norm(rng.standard_normal(N, dtype=np.float32), 1e-5)
        self.qkv, self.output = weights(k, rng, 3 * N, N), weights(k, rng, N, N)
        self.gate_up, self.down = weights(k, rng, 192, N), weights(k, rng, N, 96)
        self.kv = KvRows(*np.zeros((2, N_HEAD, 300, D), np.float16))
        self.x, self.at = np.zeros((1, N), np.float32), np.zeros(1, np.int32)
        self.visible = Visible(np.zeros(1, np.int32), np.ones(1, np.int32))
        self.rope = Rope(*np.ones((2, 1, D // 2), np.float32), "neox")

    def move(self, row: int) -> None:
        rng = np.random.default_rng(row)
        self.x[:] = rng.standard_normal((1, N))
        self.at[:], self.visible.lo[:], self.visible.hi[:] = row, max(row - 200, 0), row + 1
        self.rope.cos[:], self.rope.sin[:] = np.cos(row), np.sin(row)

    def run(self) -> F32:
        k = self.k
        qkv = k.linear(self.x, self.qkv, norm=self.norm)
        q = k.qkv_to_rows(
            qkv, N_HEAD, self.kv, self.at, rope=self.rope, q_norm=Norm(np.ones(D, np.float32), 1e-5)
        )
        a = k.attention(q, self.kv, self.visible, 0.25)
        x = k.linear(a, self.output, residual=self.x)
        h = k.gated(x, self.gate_up, "silu", norm=self.norm)
        h = k.norm(k.linear(h, self.down), self.norm, residual=x, out=x)
        h = k.mul(k.scale(h, np.full(1, 3, np.float32)), k.softcap(k.add(h, x), 5.0))
        return h


def test_a_recording_gives_what_the_kernels_give() -> None:
    direct, recorded = Layer(fast), Layer(fast)
    play = fast.record(recorded.run)
    assert play != recorded.run and not recorded.kv.k.any()  # nothing was done yet
    seen = []
    for row in range(300):
        direct.move(row)
        recorded.move(row)
        seen.append((play(), direct.run()))
    for got, want in seen:  # results are not written to again
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(recorded.kv.k, direct.kv.k)


def test_threads_wait_for_the_call_before() -> None:
    layer = Layer(fast)
    play = fast.record(layer.run)
    layer.move(0)
    want = play()
    for _ in range(3000):
        np.testing.assert_array_equal(play(), want)


@pytest.mark.parametrize("n_tok", [9, 100])
def test_products_of_many_rows_are_recorded_too(n_tok: int) -> None:
    """Also when the memory that they work in has moved since."""
    rng = np.random.default_rng(0)
    w, x = weights(fast, rng, N, N), np.zeros((n_tok, N), np.float32)
    play = fast.record(lambda: fast.linear(x, w))
    x[:] = rng.standard_normal(x.shape)
    want = fast.linear(x, w)
    fast.linear(np.zeros((4000, N), np.float32), w)
    np.testing.assert_array_equal(play(), want)


def test_what_cannot_be_recorded_is_run_again_instead() -> None:
    table = Tensor("t", GgmlType.F64, (3, 4), np.arange(12.0).view(np.uint8))
    embedding, ids = fast.load_embedding(table), np.zeros(1, np.int32)

    def run() -> F32:
        return fast.embed(embedding, ids)

    assert fast.record(run) == run
    run()  # and nothing is recorded any more
