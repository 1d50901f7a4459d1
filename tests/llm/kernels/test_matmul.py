"""Products with weights of every type against the reference, for which the gguf package unpacks them."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm.gguf import GgmlType, Tensor
from llm.kernels import matmul, reference
from llm.kernels.operands import Norm
from llm.kernels.quants import BLOCK_FORMATS
from llm.kernels.simd import FEATURES
from tests.quantised import ALL_BLOCKS, BLOCKS, FLOATS, tensor

N_TOK = [1, 2, 5, 33]
ACTS = ["silu", "gelu", "gelu_erf", "gelu_quick", "relu"]


def rows(n_tok: int, n_in: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_tok, n_in), dtype=np.float32)


def error(got: np.ndarray, want: np.ndarray) -> float:
    assert got.shape == want.shape and got.dtype == np.float32
    return float(np.abs(got - want).max() / np.abs(want).max())


def tolerance(kind: str) -> float:
    return {"F32": 2e-6, "F16": 4e-3, "BF16": 4e-3}.get(kind, 1e-2)


@pytest.mark.parametrize("n_tok", N_TOK)
@pytest.mark.parametrize("kind", FLOATS + ALL_BLOCKS)
def test_every_type_multiplies_like_the_reference(kind: str, n_tok: int) -> None:
    t, x = tensor(kind, 75, 512), rows(n_tok, 512)
    want = reference.linear(x, reference.load_linear([t]))
    for precision in ("auto", "fast"):
        assert error(matmul.linear(x, matmul.load_linear([t], precision=precision)), want) < tolerance(kind)
    assert error(matmul.linear(x, matmul.load_linear([t], precision="exact")), want) < 2e-6


@pytest.mark.parametrize("kind", ALL_BLOCKS)
def test_weights_are_unpacked_exactly(kind: str) -> None:
    """As a table of embeddings gives them, and in products that lose nothing."""
    t = tensor(kind, 48, 512)
    weights = matmul.embed(matmul.load_embedding(t), np.arange(48, dtype=np.int32))
    np.testing.assert_array_equal(weights, t.to_f32())
    x = np.random.default_rng(2).integers(-127, 128, (2, 512)).astype(np.float32)
    x[:, ::16] = 127  # whole numbers with the largest in each block become codes as they are
    want = reference.linear(x, reference.load_linear([t]))
    assert error(matmul.linear(x, matmul.load_linear([t])), want) < 5e-6


@pytest.mark.parametrize(("kind", "bits"), [("Q1_0", 1), ("Q2_0", 2)])
def test_formats_that_the_gguf_package_does_not_unpack(kind: str, bits: int) -> None:
    t = tensor(kind, 20, 256)
    blocks = t.data.reshape(-1, 18)
    codes = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
    codes = codes * 2 if bits == 1 else codes[:, ::2] + 2 * codes[:, 1::2]
    want = (blocks[:, :2].copy().view(np.float16).astype(np.float32) * (codes - np.float32(1))).reshape(
        20, 256
    )
    np.testing.assert_array_equal(matmul.embed(matmul.load_embedding(t), np.arange(20, dtype=np.int32)), want)
    x = rows(3, 256)
    assert error(matmul.linear(x, matmul.load_linear([t])), x @ want.T) < 1e-2


@pytest.mark.parametrize("kind", [GgmlType(number).name for number in BLOCK_FORMATS])
def test_weights_are_hardly_larger_than_the_file(kind: str) -> None:
    t = tensor(kind, 32, 1024)
    loaded = matmul.load_linear([t])
    assert isinstance(loaded, matmul.PackedLinear)
    assert loaded.kept[0].nbytes <= 1.23 * t.data.nbytes


@settings(max_examples=40, deadline=None)
@given(
    n_tok=st.integers(1, 70),
    n_out=st.integers(1, 100),
    n_block=st.integers(1, 5),
    kind=st.sampled_from(FLOATS + BLOCKS),
    act=st.sampled_from([None, *ACTS]),
    biased=st.booleans(),
    with_residual=st.booleans(),
    norm=st.sampled_from([None, "rms", "layer", "layer with bias"]),
)
def test_norm_bias_activation_and_residual(
    n_tok: int,
    n_out: int,
    n_block: int,
    kind: str,
    act: str | None,
    biased: bool,
    with_residual: bool,
    norm: str | None,
) -> None:
    n_in = 32 * n_block if kind in BLOCKS else 9 * n_block
    t, x, rng = tensor(kind, n_out, n_in), rows(n_tok, n_in), np.random.default_rng(3)
    bias = rng.standard_normal(n_out, dtype=np.float32) if biased else None
    residual = rows(n_tok, n_out, 4) if with_residual else None
    weights = rng.uniform(0.5, 2, n_in).astype(np.float32), rng.standard_normal(n_in, dtype=np.float32)
    before = None
    if norm:
        before = Norm(weights[0], 1e-5, weights[1] if "bias" in norm else None, center="layer" in norm)
    options = {"norm": before, "act": act, "residual": residual}
    want = reference.linear(x, reference.load_linear([t], bias), **options)
    out = None if residual is None else residual.copy()
    options["residual"] = out
    got = matmul.linear(x, matmul.load_linear([t], bias), out=out, **options)
    # No number of x is off by more than this part of the largest, and activations are hardly steeper than 1.
    part = 2e-6 if kind == "F32" else 1.2 / 254
    largest = np.abs(reference.norm(x, before) if before else x).max()
    assert np.abs(got - want).max() < part * largest * np.abs(t.to_f32()).sum(axis=1).max()
    assert out is None or got is out


@pytest.mark.parametrize("n_tok", [1, 40])
@pytest.mark.parametrize("kinds", [("Q4_K", "Q4_K", "Q6_K"), ("Q8_0", "F16", "F32"), ("Q5_0", "F16", "Q8_0")])
def test_parts_of_several_types(kinds: tuple[str, ...], n_tok: int) -> None:
    parts = [tensor(kind, n, 256, i) for i, (kind, n) in enumerate(zip(kinds, (40, 16, 24)))]
    x, bias = rows(n_tok, 256), np.arange(80, dtype=np.float32)
    want = reference.linear(x, reference.load_linear(parts, bias))
    assert error(matmul.linear(x, matmul.load_linear(parts, bias)), want) < 1e-2


@pytest.mark.parametrize("n_tok", [1, 6, 33])
@pytest.mark.parametrize("split", ["two tensors", "one tensor", "one odd tensor"])
@pytest.mark.parametrize("act", ["silu", "gelu"])
def test_gated(act: str, split: str, n_tok: int) -> None:
    n_ff = 40 if split == "one odd tensor" else 48
    one, two = [tensor("Q4_1", 2 * n_ff, 64)], [tensor("Q5_0", n_ff, 64, 1), tensor("Q8_0", n_ff, 64, 2)]
    parts = two if split == "two tensors" else one
    x, norm = rows(n_tok, 64), Norm(np.full(64, 0.5, np.float32), 1e-6)
    bias = np.linspace(-1, 1, 2 * n_ff, dtype=np.float32)
    want = reference.gated(x, reference.load_linear(parts, bias), act, norm=norm)
    assert error(matmul.gated(x, matmul.load_linear(parts, bias), act, norm=norm), want) < 1.5e-2


def test_a_type_without_a_kernel_is_loaded_as_float32() -> None:
    data = np.random.default_rng(5).standard_normal((20, 256))
    t, x = Tensor("w", GgmlType.F64, (20, 256), data.view(np.uint8).reshape(-1)), rows(3, 256)
    assert error(matmul.linear(x, matmul.load_linear([t])), x @ data.astype(np.float32).T) < 2e-6


def test_a_nan_in_x_reaches_the_result() -> None:
    t, x = tensor("Q8_0", 32, 64), rows(40, 64)
    x[3, 40] = np.nan
    for n_tok in (5, 40):
        y = matmul.linear(x[:n_tok], matmul.load_linear([t]))
        assert np.isnan(y[3]).all() and np.isfinite(np.delete(y, 3, axis=0)).all()


@pytest.mark.parametrize("kind", FLOATS + ALL_BLOCKS)
def test_embed(kind: str) -> None:
    t, ids = tensor(kind, 100, 256), np.array([99, 0, 7, 7] * 5, np.int32)
    for few in (ids[:1], ids):
        want = reference.embed(reference.load_embedding(t), few, 1.5)
        assert error(matmul.embed(matmul.load_embedding(t), few, 1.5), want) < 1e-6


FALLBACK = """
import sys
sys.path[:0] = {folders!r}
from test_matmul import *
for kind in ("F16", "BF16", "Q4_1", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "IQ4_XS", "NVFP4", "IQ2_XS", "IQ1_M"):
    for n_tok in (1, 40):
        for how in ("auto", "fast"):
            t, x = tensor(kind, 40, 256), rows(n_tok, 256)
            want = reference.linear(x, reference.load_linear([t]))
            got = matmul.linear(x, matmul.load_linear([t], precision=how))
            assert error(got, want) < tolerance(kind), (kind, n_tok, how)
"""


@pytest.mark.parametrize(
    ("cpu", "features"),
    [
        ("generic", ""),
        pytest.param("haswell", "+avx,+avx2,+fma,+f16c", marks=pytest.mark.slow),
        pytest.param("znver4", "+avx512f,+avx512bw,+avx512vnni", marks=pytest.mark.slow),
    ],
)
def test_processors_with_less(cpu: str, features: str) -> None:
    if "avx512" in features and "avx512vnni" not in FEATURES:
        pytest.skip("this processor has no AVX-512")
    env = os.environ | {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
    code = FALLBACK.format(folders=[os.path.dirname(__file__), os.getcwd()])
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
