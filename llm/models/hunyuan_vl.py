"""HunYuan dense, and the text side of HunyuanOCR and HunYuan-VL.

Llama's block whose queries and keys are normed per head after they rotate, in pairs half a head apart. The
norm itself commutes with rotation and comes before; what would scale keys scales queries instead, as only
their products count. In the vision models pairs turn by four axes of the position: place in the sequence,
column, row, and number of the picture; text counts all of them up together.
"""

from dataclasses import dataclass, replace

import numpy as np

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.models import llama, register
from llm.rope import RopeTable, by_section
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    sections: tuple[int, ...] = key("rope.dimension_sections", default=())
    alpha: float = key("rope.scaling.alpha", default=0.0)


class Block(llama.Block):
    """The weights of one layer; norms of heads are split into what comes before rotation and after."""

    def __init__(self, hp: llama.Hparams, n_head_kv: int, w: Weights) -> None:
        super().__init__(hp, n_head_kv, w)
        q, k = (w.norm(name, hp.eps, n=hp.d_head) for name in ("attn_q_norm", "attn_k_norm"))
        self.attn_q_norm = self.attn_k_norm = replace(q, weight=np.ones_like(q.weight))
        self.turned_norm = replace(q, weight=q.weight * k.weight)


@register("hunyuan-dense", Hparams)
@register("hunyuan_vl", Hparams)
class HunyuanVL(llama.Llama):
    hp: Hparams
    rope_kind = "neox"
    block = Block

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        base = hp.rope_base * hp.alpha ** (hp.d_head / (hp.d_head - 2)) if hp.alpha else hp.rope_base
        super().__init__(replace(hp, rope_base=base), w, k)
        self.n_axis = 4 if any(hp.sections) else 1

    def rotation(self, w: Weights, factors: str) -> RopeTable:
        rope, sections = super().rotation(w, factors), self.hp.sections
        return replace(rope, axes=by_section(sections, self.hp.n_rot // 2)) if any(sections) else rope

    def queries(self, q: F32, blk: llama.Block, step: Step) -> F32:
        assert isinstance(blk, Block)
        return self.k.norm(q, blk.turned_norm, out=q)
