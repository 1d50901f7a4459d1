"""Passes through the layers: rows of one sequence or of several on top of the cache that they share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llm.batch import Piece
from llm.cache import KvType, Step, new_cache
from llm.errors import NonFiniteError
from llm.kernels.operands import F32, I32, KvRows
from llm.kernels.reference import cache_f32
from llm.models import Arch
from llm.slot import Slot


@dataclass(frozen=True)
class Part:
    """A piece in a pass, with `rows` [n_tok, n_level n_embd] for a medium; its last `n_want` want logits."""

    piece: Piece
    rows: F32 | None = None
    n_want: int = 0


class Decoder:
    """The model `arch` and its cache: `slots` of `n_ctx` rows each. Rows never used take no memory."""

    def __init__(self, arch: Arch, n_ctx: int, n_slot: int = 1, kv_type: KvType = "f16") -> None:
        self.arch, self.n_ctx, self.kv_type = arch, n_ctx, kv_type
        self.kv = new_cache(arch.kv_shapes, n_slot * n_ctx, kv_type)
        self.slots = [Slot(i * n_ctx, n_ctx) for i in range(n_slot)]
        self._replays: dict[int, _Replay] = {}

    def run(self, parts: Sequence[Part]) -> F32:
        """One pass: keys and values enter the cache; logits of the rows that want them, [n, n_vocab].

        Nothing is remembered of it: that is for the slots to do. Logits may not be finite: see `check`.
        """
        if all(p.rows is None and p.piece.n_tok == p.n_want == 1 for p in parts):
            return self.next([p.piece for p in parts])
        arch, pieces = self.arch, [p.piece for p in parts]
        wants = np.concatenate([np.arange(p.piece.n_tok) >= p.piece.n_tok - p.n_want for p in parts])
        order = np.argsort(wants, kind="stable")  # those that want logits come last
        x = _levels([arch.embed(p.piece.ids()) if p.rows is None else p.rows for p in parts], arch.n_embd)
        x, *deep = x if bool(np.all(wants[:-1] <= wants[1:])) else x[:, order]
        step = Step(
            np.concatenate([p.ids() for p in pieces])[order],
            np.ascontiguousarray(np.concatenate([p.pos(arch.n_axis) for p in pieces], axis=1)[:, order]),
            np.concatenate([p.at() for p in pieces])[order],
            np.concatenate([np.full(p.n_tok, p.lo, np.int32) for p in pieces])[order],
            np.concatenate([p.hi() for p in pieces])[order],
            max(1, int(wants.sum())),
            self.kv,
            self.n_ctx,
            deep,
        )
        x = arch.forward(x, step)
        return arch.logits(x) if wants.any() else np.empty((0, arch.n_vocab), np.float32)

    def next(self, pieces: Sequence[Piece]) -> F32:
        """A token of each of several sequences, as most passes are: like the last one, with other numbers."""
        n = len(pieces)
        if n not in self._replays:
            self._replays[n] = _Replay(self.arch, self.kv, self.n_ctx, n)
        return self._replays[n](pieces)

    def check(self, logits: F32, pieces: Sequence[Piece]) -> None:
        """Raises NonFiniteError, which names the place, unless logits after `pieces` are numbers."""
        if not all(map(math.isfinite, logits.max(axis=1))):  # the maximum of anything with a NaN is NaN
            at = np.concatenate([p.at() for p in pieces])
            raise NonFiniteError(f"the model's output is not finite: {_first_bad(self.kv, at)}")

    def drop(self, slot: Slot, start: int, stop: int) -> None:
        """Forget what lies in rows start..stop of a slot; see `Slot.drop`."""
        n_before = slot.n_rows
        first, last = slot.drop(start, stop)
        to, source = (
            slice(slot.first + a, slot.first + b) for a, b in ((first, slot.n_rows), (last, n_before))
        )
        for kv in self.kv:
            kv.k[:, to], kv.v[:, to] = kv.k[:, source].copy(), kv.v[:, source].copy()

    def copy(self, source: Slot, n_item: int, to: Slot) -> None:
        """Have `to` hold the first items of `source`."""
        to.items, to.ends = source.items[:n_item], source.ends[:n_item]
        n, a, b = to.n_rows, source.first, to.first
        for kv in self.kv:
            kv.k[:, b : b + n], kv.v[:, b : b + n] = kv.k[:, a : a + n], kv.v[:, a : a + n]


class _Replay:
    """A pass of one token each of `n` sequences, recorded."""

    def __init__(self, arch: Arch, kv: Sequence[KvRows], n_ctx: int, n: int) -> None:
        ids, at, lo, hi = np.zeros((4, n), np.int32)
        self._step = Step(ids, np.zeros((arch.n_axis, n), np.int32), at, lo, hi, n, kv, n_ctx)
        self._play = arch.k.record(lambda: arch.logits(arch.forward(arch.embed(ids), self._step)))

    def __call__(self, pieces: Sequence[Piece]) -> F32:
        """Logits [n, n_vocab]."""
        n_axis = len(self._step.pos)
        ids, at, lo, hi = ([*a] for a in zip(*[(p.ids()[0], p.row, p.lo, p.row + 1) for p in pieces]))
        self._step.move(ids, np.concatenate([p.pos(n_axis) for p in pieces], axis=1), at, lo, hi)
        return self._play()


def _levels(parts: Sequence[F32], n_embd: int) -> F32:
    """Rows of tokens and media, each [n, n_embd or a multiple of it], as a new [n_level, n_tok, n_embd].

    Where some rows have more levels than others, those have zeros.
    """
    n_level = max(p.shape[1] for p in parts) // n_embd
    levels = np.zeros((n_level, sum(map(len, parts)), n_embd), np.float32)
    at = 0
    for p in parts:
        own = p.reshape(len(p), -1, n_embd).transpose(1, 0, 2)  # [n_level, n, n_embd]
        levels[: len(own), at : at + len(p)] = own
        at += len(p)
    return levels


def _first_bad(kv: Sequence[KvRows], at: I32) -> str:
    """Where the rows at `at` first went wrong, in words."""
    for il, rows in enumerate(kv):
        if not all(np.isfinite(cache_f32(a[:, at])).all() for a in (rows.k, rows.v)):
            return (
                f"first in the keys or values of layer {il}; damaged file, or too large for half (-ctk f32)?"
            )
    return "first after the keys and values of the last layer; damaged file?"
