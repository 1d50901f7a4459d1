"""Qwen 2-VL, 2.5-VL and 2.5-Omni, text side, and that of PaddleOCR-VL.

Qwen 2 whose positions have axes ("M-RoPE"): text counts all of them up together; rows of a picture share
their time and have a height and width each; and every section of a head's pairs turns by one axis. Text goes
on behind the largest position of the picture. (arXiv 2409.12191, 2502.13923)
"""

from dataclasses import dataclass, replace

from llm.hparams import key
from llm.models import llama, register
from llm.rope import RopeTable, by_section
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    sections: tuple[int, ...] = key(
        "rope.dimension_sections"
    )  # pairs of time, height, width and a spare axis


@register("paddleocr", Hparams)
@register("qwen2vl", Hparams)
class Qwen2VL(llama.Llama):
    hp: Hparams
    n_axis = 4
    rope_kind = "neox"

    def rotation(self, w: Weights, factors: str) -> RopeTable:
        return replace(super().rotation(w, factors), axes=by_section(self.hp.sections, self.hp.n_rot // 2))
