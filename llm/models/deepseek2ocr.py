"""DeepSeek-OCR and DeepSeek-OCR 2, text side.

Llama's block, with pairs half a head apart; from the second layer on, networks are experts, picked and
weighed by a softmax as it is, beside one for all rows. (arXiv 2510.18234)
"""

from dataclasses import dataclass

from llm.hparams import key
from llm.models import llama, register


@dataclass(frozen=True)
class Hparams(llama.Hparams):
    expert_normed: bool = key("expert_weights_norm", default=False)


@register("deepseek2-ocr", Hparams)
class Deepseek2Ocr(llama.Llama):
    rope_kind = "neox"
