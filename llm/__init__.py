"""The text engine: GGUF language models on a CPU.

model = llm.load("model.gguf")
ids = model.tokenizer.encode("Once upon a time")
print(model.tokenizer.decode(model.generate(ids, 32)))
"""

from llm.model import Model, load
from llm.sampling import Sampling
from llm.tokenizer import Tokenizer

__all__ = ["Model", "Sampling", "Tokenizer", "load"]
