"""Qwen 3 with experts: 30B-A3B, 235B-A22B.

Qwen 3 whose feed-forward networks are many small ones: a softmax picks some for each row, and what they give
is weighed by their shares of it. (arXiv 2505.09388)
"""

from llm.models import register
from llm.models.llama import Hparams, Llama


@register("qwen3moe", Hparams)
class Qwen3Moe(Llama):
    rope_kind = "neox"
