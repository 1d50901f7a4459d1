"""Mistral Small 3.1 and 3.2, Ministral 3, Devstral 2: text side.

Llama, stretched by YaRN in Ministral, whose queries grow with their position: by a logarithm, in steps of the
context that the model was first trained for, so that attention stays sharp among more rows.
"""

from dataclasses import dataclass

import numpy as np

from llm.cache import Step
from llm.hparams import key
from llm.kernels.operands import F32
from llm.models import llama, register


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    temperature: float = key("attention.temperature_scale", default=0.0)


@register("mistral3", Hparams)
class Mistral3(llama.Llama):
    hp: Hparams

    def queries(self, q: F32, blk: llama.Block, step: Step) -> F32:
        (factors,) = step.derived("temperature", self._temperature)
        return self.k.scale(q, factors, out=q)

    def _temperature(self, step: Step) -> tuple[F32]:
        """By which queries are sharper the further they are beyond the first context, [n_tok]."""
        steps = step.pos[0] // self.hp.n_ctx_orig
        return (np.asarray(1 + self.hp.temperature * np.log1p(steps), np.float32),)
