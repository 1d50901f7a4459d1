"""GLM 4.5 with experts: Air and the large one, and the text side of GLM-4.5V and 4.6V.

Llama's block with biases; the norm before the feed-forward network is called by its place behind attention.
From the second layer on, networks are experts, picked by a sigmoid plus a learned bias, beside one for all
rows. Half of a head rotates, in pairs half the rotated part apart, by axes of the position in the vision
models. The last layers, which predict further tokens, are left out.
"""

from dataclasses import dataclass, replace

from llm.hparams import key
from llm.kernels import Kernels
from llm.models import llama, register
from llm.rope import RopeTable, by_section
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    expert_gating: int = key("expert_gating_func", default=2)
    n_further: int = key("nextn_predict_layers", default=0)
    sections: tuple[int, ...] = key("rope.dimension_sections", default=())


@register("glm4moe", Hparams)
class Glm4Moe(llama.Llama):
    hp: Hparams
    rope_kind = "neox"

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        n_layer = hp.n_layer - hp.n_further
        super().__init__(replace(hp, n_layer=n_layer, n_head_kv=hp.n_head_kv[:n_layer]), w, k)
        self.n_axis = 4 if any(hp.sections) else 1
        for il in range(n_layer, hp.n_layer):
            w[f"blk.{il}"].skip()

    def rotation(self, w: Weights, factors: str) -> RopeTable:
        rope, sections = super().rotation(w, factors), self.hp.sections
        return replace(rope, axes=by_section(sections, self.hp.n_rot // 2)) if any(sections) else rope
