"""Norms, rotation into cache rows and attention, convolutions: the fast kernels against their numpy twins."""

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm.gguf import GgmlType, Tensor
from llm.kernels import Kernels, amx, fast, reference
from llm.kernels.attention_blocks import LANES, ROWS
from llm.kernels.operands import F32, KvRows, Linear, Norm, Rope, Visible

few_examples = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
widths = st.sampled_from([1, 2, 15, 16, 17, 33, 64, 72, 80, 96, 100, 128, 256])
kv_types = st.sampled_from([np.float16, np.float32])


def normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape, dtype=np.float32)


def a_norm(rng: np.random.Generator, n: int) -> Norm:
    bias = normal(rng, n) if rng.integers(2) else None
    return Norm(normal(rng, n), 1e-5, bias, center=bool(rng.integers(2)))


@few_examples
@given(seeds, st.lists(st.integers(1, 9), min_size=1, max_size=2), widths, st.booleans(), st.booleans())
def test_norm(seed: int, rows: list[int], n: int, add: bool, in_place: bool) -> None:
    rng = np.random.default_rng(seed)
    x, norm = normal(rng, *rows, n) * 3 + 1, a_norm(rng, n)
    residual = normal(rng, *rows, n) if add else None
    want = reference.norm(x, norm, residual=residual)
    out = residual if in_place else None
    got = fast.norm(x, norm, residual=residual, out=out)
    assert out is None or got is out
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_norm_of_many_rows_runs_in_parallel() -> None:
    rng = np.random.default_rng(0)
    x, norm = normal(rng, 500, 100), a_norm(rng, 100)
    np.testing.assert_allclose(fast.norm(x, norm), reference.norm(x, norm), rtol=1e-4, atol=1e-5)


def test_norm_keeps_nan() -> None:
    x = np.ones((2, 40), np.float32)
    x[1, 7] = np.nan
    y = fast.norm(x, Norm(np.ones(40, np.float32), 1e-5))
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all()


@few_examples
@given(
    seed=seeds,
    n_tok=st.sampled_from([1, 2, 5, 40]),
    n_head_kv=st.integers(1, 3),
    group=st.integers(1, 3),
    d=widths,
    turned=st.floats(0, 1),
    kind=st.sampled_from(["norm", "neox", None]),
    normed=st.booleans(),
    kv_type=kv_types,
)
def test_qkv_to_rows(seed, n_tok, n_head_kv, group, d, turned, kind, normed, kv_type) -> None:
    rng = np.random.default_rng(seed)
    n_head, n_pair = n_head_kv * group, int(turned * d) // 2
    at = rng.permutation(n_tok + 5)[:n_tok].astype(np.int32)
    others = np.setdiff1d(np.arange(n_tok + 5), at)
    qkv = normal(rng, n_tok, (n_head + 2 * n_head_kv) * d)
    kept = qkv.copy()
    rope = Rope(normal(rng, n_tok, n_pair), normal(rng, n_tok, n_pair), kind) if kind else None
    q_norm, k_norm = (a_norm(rng, d), a_norm(rng, d)) if normed else (None, None)
    result = []
    for k in (reference, fast):
        kv = KvRows(*(np.full((n_head_kv, n_tok + 5, d), 7, kv_type) for _ in range(2)))
        q = k.qkv_to_rows(qkv, n_head, kv, at, rope=rope, q_norm=q_norm, k_norm=k_norm)
        result.append((q, kv.k, kv.v))
    assert (qkv == kept).all()
    (want_q, *want), (got_q, *got) = result
    np.testing.assert_allclose(got_q, want_q, rtol=1e-4, atol=1e-4)
    for g, w in zip(
        got, want
    ):  # one unit in the last place of float16 apart where float32 differs in its last
        np.testing.assert_allclose(g, w, rtol=2e-3 if kv_type == np.float16 else 1e-4, atol=1e-4)
        assert (g[:, others] == 7).all()


def some_ranges(rng: np.random.Generator, kind: str, n_tok: int, n_row: int) -> Visible:
    own = np.arange(n_row - n_tok, n_row)
    match kind:
        case "causal":
            lo, hi = 0 * own, own + 1
        case "window":
            lo, hi = np.maximum(0, own - 7), own + 1
        case "all":
            lo, hi = 0 * own, 0 * own + n_row
        case "any":  # some see nothing
            lo, hi = rng.integers(0, n_row, n_tok), rng.integers(0, n_row + 1, n_tok)
    return Visible(np.maximum(lo, 0).astype(np.int32), np.maximum(hi, 0).astype(np.int32))


@few_examples
@given(
    seed=seeds,
    n_tok=st.sampled_from([1, 2, 7, 16, LANES - 1, LANES + 5]),
    more=st.sampled_from([0, 1, 30, ROWS, 300]),
    n_head_kv=st.integers(1, 3),
    group=st.sampled_from([1, 2, 3, 5, 8]),
    d=widths,
    kind=st.sampled_from(["causal", "window", "all", "any"]),
    softcap=st.sampled_from([0.0, 5.0]),
    amplitude=st.sampled_from([1.0, 30.0]),
    kv_type=kv_types,
    matrix_unit=st.booleans(),
)
def test_attention(
    seed, n_tok, more, n_head_kv, group, d, kind, softcap, amplitude, kv_type, matrix_unit
) -> None:
    rng = np.random.default_rng(seed)
    n_row = n_tok + more
    q = normal(rng, n_tok, n_head_kv * group, d) * np.float32(amplitude)
    kv = KvRows(*(normal(rng, n_head_kv, n_row + 2, d).astype(kv_type) for _ in range(2)))
    kv.k[:, n_row:] = kv.v[:, n_row:] = np.nan  # never decoded, never read
    visible = some_ranges(rng, kind, n_tok, n_row)
    want = reference.attention(q, kv, visible, d**-0.5, softcap=softcap)
    with pytest.MonkeyPatch.context() as patch:
        if not matrix_unit:
            patch.setattr(amx, "available", lambda: False)
        got = fast.attention(q, kv, visible, d**-0.5, softcap=softcap)
    assert got.shape == (n_tok, n_head_kv * group * d)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * amplitude * max(np.abs(want).max(), 1e-3))


@pytest.mark.parametrize("n_tok", [1, 100])
def test_attention_of_huge_scores_and_of_nothing(n_tok: int) -> None:
    rng = np.random.default_rng(0)
    q = normal(rng, n_tok, 2, 64) * np.float32(1e4)
    kv = KvRows(normal(rng, 1, 200, 64), normal(rng, 1, 200, 64))
    visible = Visible(np.zeros(n_tok, np.int32), np.full(n_tok, 200, np.int32))
    np.testing.assert_allclose(
        fast.attention(q, kv, visible, 1.0), reference.attention(q, kv, visible, 1.0), atol=0.05
    )
    visible.hi[-1] = 0
    assert (fast.attention(q, kv, visible, 1.0)[-1] == 0).all()


def test_attention_over_a_long_cache_is_split_between_threads() -> None:
    rng = np.random.default_rng(0)
    q = normal(rng, 1, 9, 64)
    kv = KvRows(*(normal(rng, 3, 1100, 64).astype(np.float16) for _ in range(2)))
    visible = Visible(np.array([17], np.int32), np.array([1093], np.int32))
    got, want = (k.attention(q, kv, visible, 0.125) for k in (fast, reference))
    np.testing.assert_allclose(got, want, atol=1e-5)


def some_weights(k: Kernels, rng: np.random.Generator, *shape: int) -> Linear:
    w = normal(rng, *shape)
    tensor = Tensor("w", GgmlType.F32, shape, w.reshape(-1).view(np.uint8))
    return k.load_linear([tensor], np.arange(shape[0], dtype=np.float32), "exact")


def test_convolutions() -> None:
    for kernel, stride, pad in ((3, 1, 1), (3, 2, 1), (5, 2, 0)):
        got, want = [], []
        for k, results in ((fast, got), (reference, want)):
            rng = np.random.default_rng(0)
            results.append(
                k.conv1d(
                    normal(rng, 21, 8), some_weights(k, rng, 10, 8, kernel), kernel, stride, pad, act="relu"
                )
            )
            w = some_weights(k, rng, 10, 8, kernel, kernel)
            results.append(k.conv2d(normal(rng, 9, 12, 8), w, kernel, stride, pad, act="gelu_erf"))
        for g, w in zip(got, want):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, atol=1e-3)


def test_loops_of_a_kernel_wait_for_one_another() -> None:
    """numba fuses loops between which it sees no dependence: queries met keys that were not there yet."""
    rng = np.random.default_rng(0)
    q = normal(rng, 16, 3, 16)
    kv = KvRows(normal(rng, 3, 16, 16), normal(rng, 3, 16, 16))
    visible = Visible(np.zeros(16, np.int32), np.full(16, 16, np.int32))
    want = reference.attention(q, kv, visible, 0.25)
    for _ in range(500):
        np.testing.assert_allclose(fast.attention(q, kv, visible, 0.25), want, atol=1e-4)


packed_kinds = st.sampled_from(
    [(np.uint16, 16), (np.uint16, 80), (np.uint8, 32), (np.uint8, 96), (np.uint8, 128)]
)


def packed(x: F32, dtype: type) -> np.ndarray:
    return reference.cache_rows(x, np.dtype(dtype))


@few_examples
@given(
    seed=seeds,
    packed_kind=packed_kinds,
    n_tok=st.sampled_from([1, 5]),
    kind=st.sampled_from(["norm", "neox"]),
)
def test_qkv_to_packed_rows(seed, packed_kind, n_tok, kind) -> None:
    """One code of q8_0, or one unit in bfloat16's last place, apart where float32 differs in its last."""
    (dtype, d), rng = packed_kind, np.random.default_rng(seed)
    at = rng.permutation(n_tok + 5)[:n_tok].astype(np.int32)
    others = np.setdiff1d(np.arange(n_tok + 5), at)
    qkv = normal(rng, n_tok, 8 * d) * np.float32(rng.choice([0.01, 1, 100]))
    rope = Rope(normal(rng, n_tok, d // 2), normal(rng, n_tok, d // 2), kind)
    result = []
    for k in (reference, fast):
        kv = KvRows(*(packed(np.full((2, n_tok + 5, d), 7, np.float32), dtype) for _ in range(2)))
        k.qkv_to_rows(qkv, 4, kv, at, rope=rope)
        result.append([reference.cache_f32(a) for a in (kv.k, kv.v)])
    for want, got in zip(*result):
        step = np.abs(want).max(axis=2, keepdims=True) / (120 if dtype == np.uint8 else 200)
        assert (np.abs(got - want) <= step).all() and np.mean(got == want) > 0.95
        np.testing.assert_allclose(got[:, others], 7, rtol=1e-2)


@few_examples
@given(
    seed=seeds,
    packed_kind=packed_kinds,
    n_tok=st.sampled_from([1, 7, LANES + 5]),
    group=st.sampled_from([1, 3, 5]),
    kind=st.sampled_from(["causal", "window", "any"]),
    matrix_unit=st.booleans(),
)
def test_attention_to_packed_rows(seed, packed_kind, n_tok, group, kind, matrix_unit) -> None:
    (dtype, d), rng, n_row = packed_kind, np.random.default_rng(seed), n_tok + 150
    q = normal(rng, n_tok, 2 * group, d)
    exact = [normal(rng, 2, n_row, d) for _ in range(2)]
    kv = KvRows(*(packed(x, dtype) for x in exact))
    visible = some_ranges(rng, kind, n_tok, n_row)
    want = reference.attention(q, kv, visible, d**-0.5)
    with pytest.MonkeyPatch.context() as patch:
        if not matrix_unit:
            patch.setattr(amx, "available", lambda: False)
        got = fast.attention(q, kv, visible, d**-0.5)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * max(np.abs(want).max(), 1e-3))
    np.testing.assert_allclose(got, reference.attention(q, KvRows(*exact), visible, d**-0.5), atol=0.05)


def test_q8_0_rows_are_the_files_blocks() -> None:
    """As the gguf package quantises them."""
    x = normal(np.random.default_rng(0), 3, 5, 64)
    want = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(packed(x, np.uint8), want)
    np.testing.assert_array_equal(
        reference.cache_f32(want), gguf.quants.dequantize(want, gguf.GGMLQuantizationType.Q8_0)
    )
