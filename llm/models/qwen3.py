"""Qwen 3, dense: 0.6B to 32B, and the text side of LightOnOCR and MiniCPM-V 4.5.

Llama's block whose queries and keys are normed per head before they rotate, in pairs half a head apart. There
are no biases, and a head's width is in the file: it is not n_embd / n_head. (arXiv 2505.09388)
"""

from llm.models import register
from llm.models.llama import Hparams, Llama


@register("qwen3", Hparams)
class Qwen3(Llama):
    rope_kind = "neox"
