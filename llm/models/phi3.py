"""Phi 3, Phi 3.5, Phi 4 and their minis, and the text side of Phi 4 Multimodal.

Llama with one matrix for q, k, v and one for gate and up. Rotation may leave the last dimensions of a head as
they are, and pairs lie half the rotated part apart. Some see a sliding window. The long-context ones have
LongRoPE's two sets of factors. (arXiv 2404.14219)
"""

from dataclasses import dataclass

from llm.cache import Step
from llm.hparams import key
from llm.kernels.operands import F32
from llm.models import llama, register


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    window: int = key("attention.sliding_window", default=0)


@register("phi3", Hparams)
class Phi3(llama.Llama):
    hp: Hparams
    rope_kind = "neox"

    def forward(self, x: F32, step: Step) -> F32:
        rope, visible = self.turns(step), step.visible(self.hp.window)
        for blk, kv in zip(self.blk, step.kv):
            x = self.layer(blk, x, step, kv, rope, visible)
        return x
