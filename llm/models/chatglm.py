"""ChatGLM 3, GLM 4 (of 2024), and the text side of GLM-Edge-V.

Llama with biases of queries, keys and values, one matrix for q, k, v and one for gate and up; half of a head
rotates. (arXiv 2406.12793)
"""

from llm.models import register
from llm.models.llama import Hparams, Llama


@register("chatglm", Hparams)
class ChatGlm(Llama):
    pass
