"""What is Idefics3's own."""

from pathlib import Path

import numpy as np
import pytest

from llm.gguf import GGUF
from llm.kernels import Kernels
from mtmd import projector
from mtmd.media import Image
from tests.mmproj import base, idefics3


@pytest.mark.parametrize("size", [(3, 700), (700, 3), (64, 128), (386, 386), (1084, 820)])
def test_tiles_stand_row_by_row_and_the_overview_behind(
    size: tuple[int, int], tmp_path: Path, reference: Kernels
) -> None:
    p = projector.load(GGUF(idefics3.make(tmp_path / "mmproj.gguf")), reference)["image"]
    places = [(t.row, t.col) for t in p.preprocess(Image(base.picture(*size)))]
    n_row, n_col = max(places)
    assert places == [(r, c) for r in range(1, n_row + 1) for c in range(1, n_col + 1)] + [(0, 0)]


def test_mixed_formats_load_b095(tmp_path: Path, kernels: Kernels) -> None:
    types = {"v.blk.0.*": "Q8_0", "v.blk.1.*": "Q5_1", "v.patch_embd*": "F16", "mm.*": "BF16"}
    gguf = GGUF(idefics3.make(tmp_path / "mmproj.gguf", types, n_embd=64, n_head=4))
    assert {t.type_name for t in gguf.tensors.values()} == {"F32", "F16", "BF16", "Q8_0", "Q5_1"}
    p = projector.load(gguf, kernels)["image"]
    tiles = p.preprocess(base.medium("40x150"))
    assert np.isfinite([p.encode(t) for t in tiles]).all()
