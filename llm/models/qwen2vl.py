"""Qwen 2-VL, 2.5-VL and 2.5-Omni, text side.

Qwen 2 whose positions have axes ("M-RoPE"): text counts all of them up together; rows of a picture share
their time and have a height and width each; and every section of a head's pairs turns by one axis. Text goes
on behind the largest position of the picture. (arXiv 2409.12191, 2502.13923)
"""

from dataclasses import dataclass, replace

from llm.hparams import key
from llm.kernels import Kernels
from llm.models import llama, register
from llm.rope import by_section
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    sections: tuple[int, ...] = key(
        "rope.dimension_sections"
    )  # pairs of time, height, width and a spare axis


@register("qwen2vl", Hparams)
class Qwen2VL(llama.Llama):
    n_axis = 4
    rope_kind = "neox"

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        super().__init__(hp, w, k)
        self.rope = replace(self.rope, axes=by_section(hp.sections, hp.n_rot // 2))
