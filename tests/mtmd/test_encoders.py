"""The towers: what converters write in more than one way; only kernels touch activations."""

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
from tests.mmproj import idefics3


def load(path: Path, k: Kernels) -> Projector[Any]:
    (loaded,) = projector.load(GGUF(path), k, "authors").values()
    return loaded


TILE = Tile(np.linspace(-1, 1, 3 * 32 * 32, dtype=np.float32).reshape(3, 32, 32), 4)


@pytest.mark.parametrize("change", ["swapped_ffn", "fused_qkv"])
def test_other_spelling_of_the_same_weights(change: str, tmp_path: Path, reference: Kernels) -> None:
    plain = load(idefics3.make(tmp_path / "plain.gguf"), reference).encode(TILE)
    weights = {t.name: t.to_f32() for t in GGUF(tmp_path / "plain.gguf").tensors.values()}
    swap = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"} if change == "swapped_ffn" else {}
    renamed = {_renamed(name, swap): value for name, value in weights.items() if name.startswith("v.blk")}
    changes = {"tensors": renamed} if swap else {}
    path = idefics3.make(tmp_path / "other.gguf", **{change: True}, **changes)
    np.testing.assert_allclose(load(path, reference).encode(TILE), plain, rtol=1e-5, atol=1e-6)


def _renamed(name: str, names: dict[str, str]) -> str:
    return ".".join(names.get(part, part) for part in name.split("."))


@pytest.mark.parametrize(
    "keys, act",
    [({"clip.use_gelu": True}, "gelu"), ({"clip.use_silu": True}, "silu"), ({}, "gelu_quick")],
)
def test_activation_follows_the_file(
    keys: dict[str, bool], act: str, tmp_path: Path, reference: Kernels
) -> None:
    path = idefics3.make(tmp_path / "mmproj.gguf", without=["clip.use_gelu"], meta=keys)
    gguf = GGUF(path)
    vit = Vit(read(VitHparams, gguf.meta, "clip.vision", str(path)), Weights(gguf, reference)["v"], reference)
    assert vit.blocks.blk[0].act == act
