"""The towers: what converters write in more than one way; only kernels touch activations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm.gguf import GGUF
from llm.hparams import read
from llm.kernels import Kernels
from llm.weights import Weights
from mtmd import projector
from mtmd.encoders.vit import Vit, VitHparams
from mtmd.projector import Projector, Tile
from tests import tiny_mmproj as tiny


class Opaque(np.ndarray[Any, Any]):
    """An array that can be sliced and reshaped, and refuses to be computed with."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"np.{ufunc.__name__} on an activation")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise AssertionError(f"np.{func.__name__} on an activation")


class OpaqueKernels:
    """The kernels `k`, whose results only they can look into."""

    def __init__(self, k: Kernels) -> None:
        self._k = k

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kernel = getattr(self._k, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = kernel(*map(_open, args), **{key: _open(value) for key, value in kwargs.items()})
            return result.view(Opaque) if isinstance(result, np.ndarray) else result

        return call


def _open(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Opaque) else value


def load(path: Path, k: Kernels) -> Projector[Any]:
    (loaded,) = projector.load(GGUF(path), k, "authors").values()
    return loaded


TILES = {
    "idefics3": (
        tiny.idefics3,
        Tile(np.linspace(-1, 1, 3 * 32 * 32, dtype=np.float32).reshape(3, 32, 32), 4),
    ),
    "qwen3a": (tiny.qwen3a, Tile(np.linspace(-1, 1, 6400, dtype=np.float32).reshape(2, 32, 100), 17)),
    "ultravox": (tiny.ultravox, Tile(np.linspace(-1, 1, 2000, dtype=np.float32).reshape(100, 20), 7)),
}


@pytest.mark.parametrize("name", TILES)
def test_only_kernels_touch_activations(name: str, tmp_path: Path, reference: Kernels) -> None:
    make, tile = TILES[name]
    path = make(tmp_path / "mmproj.gguf")
    opaque: Any = OpaqueKernels(reference)
    rows = _open(load(path, opaque).encode(tile))
    np.testing.assert_array_equal(rows, load(path, reference).encode(tile))


@pytest.mark.parametrize("change", ["swapped_ffn", "fused_qkv"])
def test_other_spelling_of_the_same_weights(change: str, tmp_path: Path, reference: Kernels) -> None:
    tile = TILES["idefics3"][1]
    plain = load(tiny.idefics3(tmp_path / "plain.gguf"), reference).encode(tile)
    weights = {t.name: t.to_f32() for t in GGUF(tmp_path / "plain.gguf").tensors.values()}
    swap = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"} if change == "swapped_ffn" else {}
    renamed = {_renamed(name, swap): value for name, value in weights.items() if name.startswith("v.blk")}
    changes = {"tensors": renamed} if swap else {}
    path = tiny.idefics3(tmp_path / "other.gguf", **{change: True}, **changes)
    np.testing.assert_allclose(load(path, reference).encode(tile), plain, rtol=1e-5, atol=1e-6)


def _renamed(name: str, names: dict[str, str]) -> str:
    return ".".join(names.get(part, part) for part in name.split("."))


@pytest.mark.parametrize(
    "keys, act",
    [({"clip.use_gelu": True}, "gelu"), ({"clip.use_silu": True}, "silu"), ({}, "gelu_quick")],
)
def test_activation_follows_the_file(
    keys: dict[str, bool], act: str, tmp_path: Path, reference: Kernels
) -> None:
    path = tiny.idefics3(tmp_path / "mmproj.gguf", without=["clip.use_gelu"], meta=keys)
    gguf = GGUF(path)
    vit = Vit(read(VitHparams, gguf.meta, "clip.vision", str(path)), Weights(gguf, reference)["v"], reference)
    assert vit.blocks.blk[0].act == act
