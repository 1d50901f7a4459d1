from pathlib import Path

import numpy as np
import pytest

from llm.errors import ModelError
from llm.gguf import GGUF
from llm.kernels import reference as k
from llm.weights import Weights
from tests.tiny import write_gguf

RNG = np.random.default_rng(0)
TENSORS = {
    "blk.0.q.weight": RNG.standard_normal((4, 6)).astype(np.float32),
    "blk.0.k.weight": RNG.standard_normal((2, 6)).astype(np.float32),
    "blk.0.k.bias": RNG.standard_normal(2).astype(np.float32),
    "blk.0.conv.weight": RNG.standard_normal((4, 2, 3)).astype(np.float32),
    "blk.0.norm.weight": RNG.standard_normal(6).astype(np.float32),
    "cls": RNG.standard_normal(6).astype(np.float32),
}
X = RNG.standard_normal((3, 6)).astype(np.float32)


@pytest.fixture
def w(tmp_path: Path) -> Weights:
    return Weights(GGUF(write_gguf(tmp_path / "w.gguf", "x", {}, TENSORS, {})), k)


def test_rows_of_several_matrices_and_zeros_for_an_absent_bias(w: Weights) -> None:
    q, kk = TENSORS["blk.0.q.weight"], TENSORS["blk.0.k.weight"]
    expected = np.concatenate([X @ q.T, X @ kk.T + TENSORS["blk.0.k.bias"]], axis=1)
    np.testing.assert_allclose(k.linear(X, w["blk.0"].linear("q", "k", shape=(6, 6))), expected, rtol=1e-5)


def test_a_convolution_is_a_matrix(w: Weights) -> None:
    conv = w["blk.0"].linear("conv", shape=(4, 6))
    np.testing.assert_allclose(k.linear(X, conv), X @ TENSORS["blk.0.conv.weight"].reshape(4, 6).T, rtol=1e-5)


def test_membership(w: Weights) -> None:
    assert "q" in w["blk.0"] and "k.bias" in w["blk.0"] and "cls" in w
    assert "q.bias" not in w["blk.0"] and "v" not in w["blk.0"] and "q" not in w


def test_missing_tensor_names_itself_and_its_shape(w: Weights) -> None:
    with pytest.raises(ModelError, match=r"w\.gguf: tensor blk\.0\.v\.weight is missing.*\[2, 6\]"):
        w["blk.0"].linear("v", shape=(2, 6))


@pytest.mark.parametrize(
    ("names", "shape", "found"),
    [
        (("q",), (4, 8), r"\[4, 6\]"),
        (("q", "k"), (8, 6), r"\[4, 6\] \+ \[2, 6\]"),
        (("conv",), (4, 5), r"\[4, 2, 3\]"),
    ],
)
def test_wrong_matrix(w: Weights, names: tuple[str, ...], shape: tuple[int, int], found: str) -> None:
    with pytest.raises(ModelError, match=f"has shape {found}, expected \\[{shape[0]}, {shape[1]}\\]"):
        w["blk.0"].linear(*names, shape=shape)


def test_wrong_norm(w: Weights) -> None:
    with pytest.raises(ModelError, match=r"blk\.0\.norm\.weight has shape \[6\], expected \[5\]"):
        w["blk.0"].norm("norm", 1e-5, n=5)


def test_tensors_left_over(w: Weights) -> None:
    w["blk.0"].linear("q", "k")
    w["blk.0"].norm("norm", 1e-5)
    with pytest.raises(
        ModelError, match=r"2 tensors have no place in architecture x: blk\.0\.conv\.weight, cls"
    ):
        w.check_all_read()
    w.check_all_read(apart_from=("cls", "blk.0.conv"))
    w.array("cls")
    w["blk.0"].linear("conv")
    w.check_all_read()
