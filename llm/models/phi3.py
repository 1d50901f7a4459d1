"""Phi 3, Phi 3.5, Phi 4 and their minis, and the text side of Phi 4 Multimodal.

Llama with one matrix for q, k, v and one for gate and up. Rotation may leave the last dimensions of a head as
they are, and pairs lie half the rotated part apart. The long-context ones have two sets of factors that
frequencies are divided by, one for contexts as long as the model was first trained for and one for longer
("LongRoPE", arXiv 2402.13753); the context's size decides, not the text's, so that cached keys stay valid.
"""

from dataclasses import dataclass

from llm.cache import Step
from llm.hparams import key
from llm.kernels.operands import F32
from llm.models import llama, register
from llm.rope import RopeTable, frequencies
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    window: int = key("attention.sliding_window", default=0)
    magnitude: float = key("rope.scaling.attn_factor", default=1.0)


@register("phi3", Hparams)
class Phi3(llama.Llama):
    hp: Hparams

    def rotation(self, w: Weights) -> RopeTable:
        self.rope_long = self._stretched(w, "rope_factors_long")
        return self._stretched(w, "rope_factors_short")

    def forward(self, x: F32, step: Step) -> F32:
        table = self.rope_long if step.n_ctx > self.hp.n_ctx_orig else self.rope
        rope, visible = table.at(step.pos), step.visible(self.hp.window)
        for blk, kv in zip(self.blk, step.kv):
            x = self.layer(blk, x, step, kv, rope, visible)
        return x

    def _stretched(self, w: Weights, name: str) -> RopeTable:
        """The rotation with the factors of tensor `name`, where the file has it."""
        hp = self.hp
        factors = w.array(f"{name}.weight", (hp.n_rot // 2,)) if name in w else None
        return RopeTable(frequencies(hp.n_rot, hp.rope_base, factors=factors), "neox", hp.magnitude)
