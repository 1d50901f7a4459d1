"""SmolLM 3.

Llama whose every fourth layer has no rotation: there, rows know nothing of their places ("NoPE",
arXiv 2501.18795).
"""

from llm.cache import Step
from llm.kernels.operands import F32
from llm.models import register
from llm.models.llama import Hparams, Llama


@register("smollm3", Hparams)
class SmolLM3(Llama):
    def forward(self, x: F32, step: Step) -> F32:
        rope, visible = self.turns(step), step.visible()
        for il, (blk, kv) in enumerate(zip(self.blk, step.kv)):
            x = self.layer(blk, x, step, kv, rope if (il + 1) % 4 else None, visible)
        return x
