"""Text architectures, found by the name that stands in a file's `general.architecture`.

One file per architecture: a frozen `Hparams` and a class with the members of `Arch`, registered by that name.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from llm.cache import Shape, Step
from llm.errors import ModelError
from llm.gguf import GGUF
from llm.hparams import read
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32, Precision
from llm.weights import Weights


class Arch(Protocol):
    """A text model: rows in, rows out; the cache belongs to the context."""

    k: Kernels
    hp: Any  # its hyperparameters, a frozen dataclass
    n_ctx_train: int
    n_embd: int
    n_vocab: int
    n_axis: int  # numbers in a position: 1, more with M-RoPE
    n_level: int  # rows of media are n_level n_embd wide: what enters, and what to add after the first layers

    @property
    def kv_shapes(self) -> Sequence[Shape]:
        """What each layer keeps in the cache."""

    def embed(self, ids: I32) -> F32:
        """Rows of token ids [n_tok] -> [n_tok, n_embd], scaled as the architecture scales them."""

    def forward(self, x: F32, step: Step) -> F32:
        """All layers; x [n_tok, n_embd], overwritten -> its last step.n_want rows, [n_want, n_embd]."""

    def logits(self, x: F32) -> F32:
        """Last norm and head: [n, n_embd] -> [n, n_vocab]."""


H = TypeVar("H")
A = TypeVar("A", bound=Arch)
_registered: dict[str, tuple[type[Any], Callable[[Any, Weights, Kernels], Arch]]] = {}


def register(name: str, hparams: type[H]) -> Callable[[type[A]], type[A]]:
    """Class decorator: files of architecture `name` are read by this class(hparams, weights, kernels)."""

    def add(cls: type[A]) -> type[A]:
        assert name not in _registered, name
        _registered[name] = hparams, cls
        return cls

    return add


def supported() -> list[str]:
    """The names of all architectures."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(_registered)


def build(gguf: GGUF, k: Kernels, precision: Precision = "auto") -> Arch:
    """The model in an open file. ModelError: unknown architecture, or keys or tensors that do not fit it."""
    name, names = gguf.architecture, supported()
    if name == "clip":
        raise ModelError(f"{gguf.path}: this is a projector; pass it with --mmproj, and a text model with -m")
    if name not in names:
        found = f"architecture {name!r} is not supported" if name else "general.architecture is missing"
        raise ModelError(f"{gguf.path}: {found}; supported are {', '.join(names)}")
    hparams, cls = _registered[name]
    w = Weights(gguf, k, precision)
    arch = cls(read(hparams, gguf.meta, name, gguf.path), w, k)
    w.check_all_read()
    return arch
