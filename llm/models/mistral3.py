"""Mistral Small 3.1 and 3.2, Ministral 3, Devstral 2: text side.

Llama, stretched by YaRN in Ministral, whose queries grow with their position: by a logarithm, in steps of the
context that the model was first trained for, so that attention stays sharp among more rows.
"""

from dataclasses import dataclass

import numpy as np

from llm.cache import Step
from llm.hparams import key
from llm.kernels.operands import F32, I32, KvRows, Rope, Visible
from llm.models import llama, register


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    temperature: float = key("attention.temperature_scale", default=0.0)


@register("mistral3", Hparams)
class Mistral3(llama.Llama):
    hp: Hparams

    def layer(
        self, blk: llama.Block, x: F32, step: Step, kv: KvRows, rope: Rope | None, visible: Visible
    ) -> F32:
        k, n_head = self.k, self.hp.n_head
        qkv = k.linear(x, blk.attn_qkv, norm=blk.attn_norm)  # [n_tok, (n_head + 2 n_head_kv) d_head]
        q = k.qkv_to_rows(qkv, n_head, kv, step.row, rope=rope)  # [n_tok, n_head, d_head]
        q = k.scale(q, self._growth(step.pos), out=q)
        if blk is self.blk[-1]:
            x, q, visible = step.wanted(x, q, visible)
        a = k.attention(q, kv, visible, self.hp.scale)  # [n_tok, n_head d_head]
        x = k.linear(a, blk.attn_output, residual=x, out=x)  # [n_tok, n_embd]
        return blk.ffn(k, x)

    def _growth(self, pos: I32) -> F32:
        """Factors of queries at `pos` [1, n_tok] -> [n_tok]; 1 within the first context."""
        factors = 1 + self.hp.temperature * np.log1p(pos[0] // self.hp.n_ctx_orig)
        return np.asarray(factors, np.float32)
