"""InternLM 2 and 2.5: the language model of some InternVLs.

Llama to the letter, once the conversion has split its grouped q, k, v matrix and permuted queries and keys.
(arXiv 2403.17297)
"""

from llm.models import register
from llm.models.llama import Hparams, Llama


@register("internlm2", Hparams)
class InternLM2(Llama):
    pass
