"""Qwen 3-VL, text side, dense and with experts.

Qwen 3 whose positions have axes, as in Qwen 2-VL, but pairs take turns: time, height, width, time, ... Rows
of a picture are wider than the model: what follows the first n_embd numbers is added after the first layers,
n_embd of them after each ("deepstack"). Rows of text bring nothing there. (arXiv 2511.21631)
"""

from dataclasses import dataclass, replace

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.models import llama, register
from llm.rope import RopeTable, interleaved
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    sections: tuple[int, ...] = key(
        "rope.dimension_sections"
    )  # pairs of time, height, width and a spare axis
    n_deep: int = key("n_deepstack_layers", default=0)


@register("qwen3vlmoe", Hparams)
@register("qwen3vl", Hparams)
class Qwen3VL(llama.Llama):
    hp: Hparams
    n_axis = 4
    rope_kind = "neox"

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        super().__init__(hp, w, k)
        self.n_level = 1 + hp.n_deep

    def rotation(self, w: Weights, factors: str) -> RopeTable:
        return replace(super().rotation(w, factors), axes=interleaved(self.hp.sections, self.hp.n_rot // 2))

    def forward(self, x: F32, step: Step) -> F32:
        rope, visible = self.turns(step), step.visible()
        for il, (blk, kv) in enumerate(zip(self.blk, step.kv)):
            x = self.layer(blk, x, step, kv, rope, visible)
            if il < len(step.deep):
                x = self.k.add(x, step.deep[il][-len(x) :], out=x)
        return x
