"""The registry of projectors, and files that are none or not as they should be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm.errors import ModelError
from llm.gguf import GGUF
from llm.kernels import Kernels
from mtmd import projector
from mtmd.projector import Projector
from tests.mmproj import base, idefics3, qwen3a


def load(path: Path, k: Kernels) -> Projector[Any]:
    (loaded,) = projector.load(GGUF(path), k).values()
    return loaded


def test_registry_finds_all_and_each_explains_itself() -> None:
    assert projector.registry().keys() >= {"idefics3", "qwen3a", "ultravox"}
    for entry in projector.registry().values():
        module = __import__(entry.cls.__module__, fromlist=["x"])
        assert "Source:" in module.__doc__, module


def test_a_name_is_taken_once() -> None:
    taken = projector.registry()["idefics3"]
    with pytest.raises(AssertionError, match="idefics3"):
        projector.register("idefics3", taken.hparams)(taken.cls)


def test_text_model_as_mmproj_gives_a_hint_b093(tmp_path: Path, reference: Kernels) -> None:
    with pytest.raises(ModelError, match=r"text\.gguf is a text model .* pass it with -m"):
        load(base.text(tmp_path / "text.gguf"), reference)


def test_unknown_type_lists_the_known(tmp_path: Path, reference: Kernels) -> None:
    path = idefics3.make(tmp_path / "mmproj.gguf", meta={"clip.projector_type": "idefics9"})
    with pytest.raises(
        ModelError, match=r"'idefics9' is not supported for image input; supported are .*idefics3"
    ):
        load(path, reference)


def test_missing_key_is_named(tmp_path: Path, reference: Kernels) -> None:
    path = idefics3.make(tmp_path / "mmproj.gguf", without=["clip.vision.patch_size"])
    with pytest.raises(ModelError, match=r"mmproj\.gguf.*clip\.vision\.patch_size is missing"):
        load(path, reference)


def test_missing_tensor_is_named(tmp_path: Path, reference: Kernels) -> None:
    path = qwen3a.make(tmp_path / "mmproj.gguf", without=["a.conv2d.2.weight"])
    with pytest.raises(ModelError, match=r"a\.conv2d\.2\.weight is missing"):
        load(path, reference)


def test_unread_tensor_is_an_error(tmp_path: Path, reference: Kernels) -> None:
    path = idefics3.make(tmp_path / "mmproj.gguf", tensors={"v.blk.0.ls9.weight": np.ones(48, np.float32)})
    with pytest.raises(ModelError, match=r"v\.blk\.0\.ls9\.weight"):
        load(path, reference)


def test_file_with_two_towers_loads_both(samples: Path, reference: Kernels) -> None:
    loaded = projector.load(GGUF(samples / "scenes-mmproj.gguf"), reference)
    assert loaded.keys() == {"image", "audio"}
