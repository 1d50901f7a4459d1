"""ERNIE 4.5, dense: 0.3B. Llama to the letter."""

from llm.models import register
from llm.models.llama import Hparams, Llama


@register("ernie4_5", Hparams)
class Ernie45(Llama):
    pass
