"""What is Qwen3-ASR's own."""

from pathlib import Path

import numpy as np
import pytest

from llm.gguf import GGUF
from llm.kernels import Kernels
from mtmd import projector
from mtmd.media import Audio
from tests.mmproj import base, qwen3a


@pytest.mark.parametrize("seconds, n_tok", [(0.5, [7]), (3.3, [43]), (31.0, [104, 104, 104, 91])])
def test_authors_keep_only_rows_of_sound(
    seconds: float, n_tok: list[int], tmp_path: Path, reference: Kernels
) -> None:
    p = projector.load(GGUF(qwen3a.make(tmp_path / "mmproj.gguf")), reference)["audio"]
    assert [t.n_tok for t in p.preprocess(base.clip(seconds))] == n_tok  # a row for 8 frames


def test_clip_of_any_rate_is_resampled(tmp_path: Path, reference: Kernels) -> None:
    p = projector.load(GGUF(qwen3a.make(tmp_path / "mmproj.gguf")), reference)["audio"]
    assert [t.n_tok for t in p.preprocess(Audio(np.zeros(44100, np.float32), 44100))] == [13]
