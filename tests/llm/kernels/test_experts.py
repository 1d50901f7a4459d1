"""Experts, short convolutions and scales of rows, each against its definition."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from llm.errors import ModelError
from llm.gguf import GGUF
from llm.kernels import Kernels, reference
from llm.kernels.operands import F32, KvRows, Norm, Router, Score
from llm.weights import Weights
from tests.tiny import write_gguf

N_EXPERT, N_USED, N_EMBD, N_FF = 5, 2, 32, 48
RNG = np.random.default_rng(0)
GATE, UP = (RNG.standard_normal((N_EXPERT, N_FF, N_EMBD)).astype(np.float32) / 6 for _ in range(2))
DOWN = RNG.standard_normal((N_EXPERT, N_EMBD, N_FF)).astype(np.float32) / 7
INP = RNG.standard_normal((N_EXPERT, N_EMBD)).astype(np.float32) / 6
SCALE = RNG.uniform(1, 2, N_EXPERT).astype(np.float32)
BIAS = RNG.standard_normal(N_EXPERT).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tensors = {"gate.weight": GATE, "up.weight": UP, "down.weight": DOWN, "inp.weight": INP}
    return write_gguf(tmp_path_factory.mktemp("experts") / "e.gguf", "llama", {}, tensors, {})


def by_definition(x: F32, score: Score, bias: F32 | None, normed: bool = True, router_sees: float = 1) -> F32:
    """Row by row, in float64."""
    out = np.zeros_like(x, np.float64)
    for t, row in enumerate(x.astype(np.float64)):
        logits = INP @ row * router_sees
        scores = np.exp(logits) / np.exp(logits).sum() if score == "softmax" else 1 / (1 + np.exp(-logits))
        best = np.argsort(scores if bias is None else scores + bias)[::-1][:N_USED]
        total = scores[best].sum() if normed else 1
        for e in best:
            gate = GATE[e] @ row
            h = gate / (1 + np.exp(-gate)) * (UP[e] @ row)
            out[t] += SCALE[e] * scores[e] / total * (DOWN[e] @ h)
    return out.astype(np.float32)


@pytest.mark.parametrize("n_tok", [1, 3, 40])
@pytest.mark.parametrize(("score", "bias"), [("softmax", None), ("sigmoid", None), ("sigmoid", BIAS)])
def test_experts(path: Path, kernels: Kernels, n_tok: int, score: Score, bias: F32 | None) -> None:
    w = Weights(GGUF(path), kernels)
    gate_up = w.experts("gate", "up", shape=(N_EXPERT, 2 * N_FF, N_EMBD))
    down = w.experts("down", shape=(N_EXPERT, N_EMBD, N_FF))
    router = Router(w.linear("inp"), N_USED, SCALE, score, bias)
    x = np.random.default_rng(n_tok).standard_normal((n_tok, N_EMBD)).astype(np.float32)
    expected = by_definition(x, score, bias)
    np.testing.assert_allclose(kernels.experts(x, router, gate_up, down, "silu"), expected, atol=2e-5)
    free = by_definition(x, score, bias, normed=False)
    as_they_are = replace(router, normed=False)
    np.testing.assert_allclose(kernels.experts(x, as_they_are, gate_up, down, "silu"), free, atol=2e-5)
    twice = replace(router, norm=Norm(np.full(N_EMBD, 2, np.float32), 0.0))
    other = kernels.experts(np.sign(x), twice, gate_up, down, "silu")
    np.testing.assert_allclose(other, by_definition(np.sign(x), score, bias, router_sees=2), atol=2e-5)
    norm = Norm(np.full(N_EMBD, 2, np.float32), 1e-6)
    normed = by_definition(reference.norm(x, norm), score, bias) + x
    result = kernels.experts(x, router, gate_up, down, "silu", norm=norm, residual=x, out=x)
    assert result is x
    np.testing.assert_allclose(x, normed, atol=2e-4)


def test_stacks_of_another_shape(path: Path) -> None:
    w = Weights(GGUF(path), reference)
    with pytest.raises(
        ModelError, match=r"gate\|up.weight has shape \[5, 48, 32\] \+ .*, expected \[5, 64, 32\]"
    ):
        w.experts("gate", "up", shape=(N_EXPERT, 64, N_EMBD))


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("cuts", [[9], [1] * 9, [2, 1, 6]])
def test_short_convolution_in_pieces(kernels: Kernels, cuts: list[int], first: int) -> None:
    rng = np.random.default_rng(1)
    bcx, w = (
        rng.standard_normal((9, 3 * 8)).astype(np.float32),
        rng.standard_normal((8, 3)).astype(np.float32),
    )
    b, c, x = np.split(bcx, 3, axis=1)
    expected = [c[:, j] * np.convolve((b * x)[:, j], w[j, ::-1])[:9] for j in range(8)]
    kv = KvRows(*np.zeros((2, 1, 12, 8), np.float32))
    kv.k[:] = 7  # what a longer sequence has left
    ends = np.cumsum(cuts)
    parts = []
    for end, n in zip(ends, cuts):
        at = np.arange(end - n, end, dtype=np.int32) + np.int32(first)
        parts.append(kernels.short_conv(bcx[end - n : end], w, kv, at, np.full(n, first, np.int32)))
    np.testing.assert_allclose(np.concatenate(parts), np.stack(expected, axis=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
def test_scales(kernels: Kernels, shape: tuple[int, ...]) -> None:
    x, factors = np.ones(shape, np.float32), np.array([1, 2, 3], np.float32)
    y = kernels.scale(x, factors)
    assert y is not x and y.dtype == np.float32 and (y.reshape(3, -1) == [[1], [2], [3]]).all()
    assert kernels.scale(x, factors, out=x) is x
    np.testing.assert_array_equal(x, y)
