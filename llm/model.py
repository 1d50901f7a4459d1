"""The front door: a text model out of a file, with its tokenizer and a context."""

import os
from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from llm import kernels, models
from llm.cache import KvType
from llm.context import Context
from llm.errors import ModelError, UsageError
from llm.generate import generate
from llm.gguf import GGUF
from llm.kernels.operands import F32, I32, Precision
from llm.models import Arch
from llm.sampling import Sampler, Sampling
from llm.span import tokens
from llm.tokenizer import Tokenizer


class Model:
    """A loaded model: `tokenizer`, `arch` (the layers), `hparams`, `context` (one sequence)."""

    def __init__(self, gguf: GGUF, tokenizer: Tokenizer, arch: Arch, context: Context) -> None:
        self.gguf, self.tokenizer, self.arch, self.context = gguf, tokenizer, arch, context
        self.hparams = arch.hp

    def logits(self, ids: Sequence[int]) -> F32:
        """Logits after each token of a fresh sequence, [n_tok, n_vocab]."""
        self.context.clear()
        return self.context.decode(tokens(self.checked(ids)), want="all")

    def generate(
        self, ids: Sequence[int], n: int = -1, temperature: float = 0.0, sampling: Sampling | None = None
    ) -> Iterator[int]:
        """Up to `n` token ids after the prompt `ids` (-1: until the model or the context ends).

        An end-of-generation id is the last one given. `sampling` says more than `temperature` can.
        """
        sampler = Sampler(sampling or Sampling(temperature=temperature), self.tokenizer)
        prompt = self.checked(ids)
        logits = self.context.prefill([tokens(prompt)])
        for tok in generate(self.context, logits, sampler, prompt.tolist(), n):
            yield tok
            if tok in self.tokenizer.eog:
                return

    def checked(self, ids: Sequence[int]) -> I32:
        """`ids` as an array. Raises UsageError when there are none, or none of the model's."""
        array = np.asarray(ids, dtype=np.int64)
        if array.ndim != 1 or not array.size:
            raise UsageError(f"token ids of shape {array.shape}: expected a list of at least one")
        if array.min() < 0 or array.max() >= self.arch.n_vocab:
            raise UsageError(
                f"token ids {array.min()} to {array.max()}: the model has 0 to {self.arch.n_vocab - 1}"
            )
        return array.astype(np.int32)


def load(
    path: str | os.PathLike[str],
    n_ctx: int = 0,
    threads: int = 0,
    n_batch: int = 2048,
    n_ubatch: int = 512,
    kv_type: KvType = "f16",
    precision: Precision = "auto",
) -> Model:
    """Load a text model from a GGUF file. ModelError: it cannot be used. UsageError: a bad setting.

    n_ctx      rows of the context; 0: as trained, at most 32,768
    threads    0: as many as there are physical cores
    n_ubatch   rows that go through the layers at once, at most `n_batch`
    kv_type    how keys and values are kept: "f32", "f16", "bf16", "q8_0"
    precision  "exact" computes in float32 whatever the weights' format, "fast" reads prompts in 8 bits
    """
    least = {"n_ctx": 0, "threads": 0, "n_batch": 1, "n_ubatch": 1}
    for name, value in zip(least, (n_ctx, threads, n_batch, n_ubatch)):
        if value < least[name]:
            raise UsageError(f"{name} is {value}, expected {least[name]} or more")
    if kv_type not in get_args(KvType):
        raise UsageError(f"cache type is {kv_type!r}, expected one of {', '.join(get_args(KvType))}")
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise UsageError(f"precision is {precision!r}, expected one of {known}")
    gguf = GGUF(path)
    k = kernels.load()
    k.set_threads(threads)
    arch = models.build(gguf, k, precision)
    tokenizer = Tokenizer.from_gguf(gguf)
    if tokenizer.n_vocab > arch.n_vocab:
        found = f"{tokenizer.n_vocab} tokens in the vocabulary, {arch.n_vocab} rows in token_embd"
        raise ModelError(f"{gguf.path}: {found}")
    return Model(gguf, tokenizer, arch, Context(arch, n_ctx, n_batch, n_ubatch, kv_type))
