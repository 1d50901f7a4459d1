"""What a projector is, and which ones there are.

A projector turns one kind of media into embedding rows of a text model: it cuts a medium into tiles, says
how many rows each gives and what text stands around them, and encodes them one by one. Adding one is adding a
file to mtmd/projectors; its class registers itself under the name that files give as their projector type.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Generic, Literal, TypeVar

from llm.errors import ModelError
from llm.gguf import GGUF
from llm.hparams import read
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32, Precision
from llm.weights import Weights
from mtmd.media import Audio, Image, Kind

Compat = Literal["authors", "peer"]  # whose recipe to follow where the model's authors and llama.cpp differ
M = TypeVar("M", Image, Audio)


@dataclass(frozen=True, eq=False)
class Tile:
    """A piece of a medium that is encoded at once, to `n_tok` rows.

    x         float32, as the projector's own `encode` wants it: normalised pixels [3, h, w] or log-mel frames
    row, col  its place in a grid of tiles, from 1; 0 when it shows the whole medium
    """

    x: F32
    n_tok: int
    row: int = 0
    col: int = 0

    @cached_property
    def key(self) -> bytes:
        """Names the rows: tiles alike in content have the same, wherever they stand."""
        return sha256(f"{self.n_tok} {self.x.shape} ".encode() + self.x.tobytes()).digest()


class Projector(ABC, Generic[M]):
    """One projector of a loaded file. `n_embd` is the width of the rows it makes."""

    kind: ClassVar[Kind]
    begin: ClassVar[str] = ""  # text before and after each medium
    end: ClassVar[str] = ""
    causal: ClassVar[bool] = True  # False: the rows of a tile all see each other in the text model
    n_embd: int

    @abstractmethod
    def __init__(self, hp: Any, w: Weights, k: Kernels, compat: Compat) -> None: ...

    @abstractmethod
    def preprocess(self, media: M) -> list[Tile]:
        """The tiles of one medium, in the order of `layout`."""

    @abstractmethod
    def encode(self, tile: Tile) -> F32:
        """[tile.n_tok, n_embd]."""

    def layout(self, tiles: Sequence[Tile]) -> Iterator[str | Tile]:
        """Texts and tiles as they follow one another in the prompt."""
        yield self.begin
        yield from tiles
        yield self.end

    def positions(self, tile: Tile) -> I32 | None:
        """int32 [n_axis, n_tok] relative to the tile's first, or None for 0, 1, 2, ..."""
        return None


@dataclass(frozen=True)
class Entry:
    """A registered projector: its class, and the dataclass of its hyperparameters."""

    cls: type[Projector[Any]]
    hparams: type[Any]


_registered: dict[str, Entry] = {}
P = TypeVar("P", bound=type[Projector[Any]])


def register(name: str, hparams: type[Any]) -> Callable[[P], P]:
    """Class decorator: files whose projector type is `name` are read by this class(hparams, ...)."""

    def add(cls: P) -> P:
        assert name not in _registered, f"two projectors are called {name}"
        _registered[name] = Entry(cls, hparams)
        return cls

    return add


def registry() -> Mapping[str, Entry]:
    """All projectors by name; imports every module of mtmd.projectors."""
    from mtmd import projectors

    for module in pkgutil.iter_modules(projectors.__path__):
        importlib.import_module(f"mtmd.projectors.{module.name}")
    return _registered


_MODALITIES: dict[Kind, str] = {"image": "vision", "audio": "audio"}  # what the keys of a file call them


def load(
    gguf: GGUF, k: Kernels, compat: Compat = "authors", precision: Precision = "auto"
) -> dict[Kind, Projector[Any]]:
    """The projectors of a file, by the kind of media they take.

    Raises ModelError: it is no projector, its type is not known, a key or tensor is missing or left over.
    """
    if gguf.architecture != "clip":
        what = f"{gguf.path} is a text model (architecture {gguf.architecture or 'unknown'}), not a projector"
        raise ModelError(f"{what}: pass it with -m, and the projector with --mmproj")
    w = Weights(gguf, k, "fast" if precision == "auto" else precision)  # rows are no worse: cosine 0.9999
    found: dict[Kind, Projector[Any]] = {}
    for kind, modality in _MODALITIES.items():
        if gguf.meta.get(f"clip.has_{modality}_encoder"):
            entry = _entry(gguf, kind, modality)
            hp = read(entry.hparams, gguf.meta, f"clip.{modality}", gguf.path)
            found[kind] = entry.cls(hp, w, k, compat)
    if not found:
        raise ModelError(f"{gguf.path} has neither a vision nor an audio encoder")
    w.check_all_read()
    return found


def _entry(gguf: GGUF, kind: Kind, modality: str) -> Entry:
    name = gguf.meta.get("clip.projector_type") or gguf.meta.get(f"clip.{modality}.projector_type")
    entry = registry().get(str(name))
    if entry is None or entry.cls.kind != kind:
        known = ", ".join(sorted(n for n, e in registry().items() if e.cls.kind == kind))
        raise ModelError(
            f"{gguf.path}: projector type {name!r} is not supported for {kind} input; supported are {known}"
        )
    return entry
