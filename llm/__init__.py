"""The text engine: GGUF language models on a CPU.

model = llm.load("model.gguf")
ids = model.tokenizer.encode("Once upon a time")
print(model.tokenizer.decode(model.generate(ids, 32)))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm.model import Model, load
    from llm.sampling import Sampling
    from llm.tokenizer import Tokenizer

__all__ = ["Model", "Sampling", "Tokenizer", "load"]

_HOME = {"Model": "model", "Sampling": "sampling", "Tokenizer": "tokenizer", "load": "model"}


def __getattr__(name: str) -> Any:
    """Import numpy and all that with the first use: a program's --help goes without."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return globals().setdefault(name, getattr(import_module(f"llm.{_HOME[name]}"), name))
