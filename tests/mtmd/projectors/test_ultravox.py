"""What is Ultravox's own."""

from pathlib import Path

import pytest

from llm.gguf import GGUF
from llm.kernels import Kernels
from mtmd import projector
from tests.mmproj import base, ultravox


@pytest.mark.parametrize("seconds, n_tok", [(0.5, [4]), (3.3, [21]), (31.0, [188, 7])])
def test_authors_keep_only_rows_of_sound(
    seconds: float, n_tok: list[int], tmp_path: Path, reference: Kernels
) -> None:
    p = projector.load(GGUF(ultravox.make(tmp_path / "mmproj.gguf")), reference)["audio"]
    assert [t.n_tok for t in p.preprocess(base.clip(seconds))] == n_tok  # a row for 16 frames
