"""Tokenizers, from the metadata of GGUF files."""

from llm.tokenizer.stream import Stream
from llm.tokenizer.tokenizer import Tokenizer

__all__ = ["Stream", "Tokenizer"]
