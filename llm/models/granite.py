"""Granite 3 and 4, dense and with experts, and the text side of Granite Vision; MiniCPM, with other scales.

Llama with four scales: of what enters the first layer, of scores, of what each branch adds, and of logits.
The one of branches goes into the unit that rows are kept in: the input is scaled, once, and norms forget it.
The one of logits goes into the last norm. Rows of Granite 4 Vision's pictures are wider than the model: what
follows the first n_embd numbers is added before the layers that the file names; their scale is that of tokens
already.
"""

from dataclasses import dataclass, replace

import numpy as np

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32
from llm.models import llama, register
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    embedding_scale: float = key("embedding_scale", default=1.0)
    residual_scale: float = key("residual_scale", default=1.0)
    logit_scale: float = key("logit_scale")
    deep: tuple[int, ...] = key("deepstack_mapping", default=())  # level to add before each layer, or -1
    rotates: bool = key("rope.scaling.finetuned", default=True)


@dataclass(frozen=True)
class MiniCpmHparams(Hparams):
    """Scales that older files do without."""

    embedding_scale: float = key("embedding_scale", default=12.0)
    residual_scale: float = key("residual_scale", default=lambda hp: 1.4 / hp.n_layer**0.5)
    logit_scale: float = key("logit_scale", default=lambda hp: 256 / hp.n_embd)


@register("minicpm", MiniCpmHparams)
@register("granitemoe", Hparams)
@register("granite", Hparams)
class Granite(llama.Llama):
    hp: Hparams

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        super().__init__(replace(hp, eps=hp.eps / hp.residual_scale**2), w, k)
        self.n_level = 1 + len({level for level in hp.deep if level >= 0})
        self.output_norm = replace(self.output_norm, weight=self.output_norm.weight / hp.logit_scale)
        scales = hp.embedding_scale, 1.0
        # without levels, rows of pictures are scaled as those of tokens are
        self.token_scale, self.row_scale = scales if self.n_level > 1 else scales[::-1]

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids, scale=self.token_scale)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        k = self.k
        x = k.scale(x, self._factors(x, self.row_scale), out=x)
        rope, visible = self.turns(step) if self.hp.rotates else None, step.visible()
        for il, (blk, kv) in enumerate(zip(self.blk, step.kv)):
            if step.deep and il > 0 and self.hp.deep[il] >= 0:
                deep = step.deep[self.hp.deep[il] - 1]
                x = k.add(x, k.scale(deep, self._factors(deep, 1.0)), out=x)
            x = self.layer(blk, x, step, kv, rope, visible)
        return x

    def _factors(self, x: F32, scale: float) -> F32:
        """One for each row of x, from where it comes to the unit that rows are kept in."""
        return np.full(len(x), scale / self.hp.residual_scale, np.float32)
