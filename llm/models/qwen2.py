"""Qwen 2 and 2.5, text side: also the language model of InternVL 2.5 and dots.ocr.

Llama's block with biases on queries, keys and values; rotation pairs lie half a head apart. The small ones
have no output matrix of their own. (arXiv 2412.15115)
"""

from llm.models import register
from llm.models.llama import Hparams, Llama


@register("qwen2", Hparams)
class Qwen2(Llama):
    rope_kind = "neox"
