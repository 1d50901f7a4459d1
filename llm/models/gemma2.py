"""Gemma 2: 2B, 9B, 27B.

Gemma 3's block without norms of queries and keys; scores are capped softly by a tanh, and so are logits.
Every other layer sees a sliding window, and all rotate with one base. (arXiv 2408.00118)
"""

import math
from dataclasses import dataclass

from llm.hparams import key
from llm.models import gemma3, register


@dataclass(frozen=True)
class Hparams(gemma3.Hparams):
    window: int = key("attention.sliding_window", default=4096)
    pattern: int = key("attention.sliding_window_pattern", default=2)
    rope_base: float = key("rope.freq_base", default=1e4)
    rope_base_local: float = key("rope.freq_base_swa", default=lambda hp: hp.rope_base)
    attn_softcap: float = key("attn_logit_softcapping", default=50.0)
    softcap: float = key("final_logit_softcapping", default=30.0)

    @property
    def scale(self) -> float:
        """query_pre_attn_scalar ** -0.5, which is not in the file: d_head, but for 27B (46 layers)."""
        return 1 / math.sqrt(self.n_embd / self.n_head if self.n_layer == 46 else self.d_head)


@register("gemma2", Hparams)
class Gemma2(gemma3.Gemma3):
    pass
