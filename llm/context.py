"""The context: one sequence in the cache, and the one way in, `prefill` and `decode`.

Rows of several spans share a pass through the layers, `n_ubatch` at a time. The context remembers what its
rows hold, token by token and medium by medium, so that the next prompt computes only what differs.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from llm.batch import Piece, cut
from llm.cache import KvType, Step, new_cache
from llm.errors import ContextError, NonFiniteError
from llm.kernels.operands import F32, KvRows
from llm.models import Arch
from llm.span import Span, tokens

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]  # rows done, rows to do
Want = Literal["last", "all", "none"]
Item = int | tuple[bytes, int]  # what one or more cache rows hold: a token id, or a medium's (key, n_tok)


class Context:
    """A sequence of at most `n_ctx` rows for the model `arch`.

    `n_ctx` 0 means as many as the model was trained for, but at most 32,768: a long answer would otherwise
    fill the memory before it ends. Rows that were never used take no memory.
    """

    def __init__(
        self, arch: Arch, n_ctx: int = 0, n_batch: int = 2048, n_ubatch: int = 512, kv_type: KvType = "f16"
    ) -> None:
        self.arch = arch
        self.n_ctx = n_ctx or min(arch.n_ctx_train, 32768)
        self.n_ubatch = min(n_batch, n_ubatch)
        if self.n_ctx > arch.n_ctx_train:
            log.warning("context of %d rows, but the model was trained for %d", n_ctx, arch.n_ctx_train)
        self._kv = new_cache(arch.kv_shapes, self.n_ctx, kv_type)
        self._replay: _Replay | None = None
        self._items: list[Item] = []
        self._ends: list[tuple[int, int]] = []  # after each item: rows in the cache, next position

    @property
    def n_rows(self) -> int:
        """Rows in the cache."""
        return self._end[0]

    @property
    def _end(self) -> tuple[int, int]:
        """Where the next row goes: in the cache, and its position."""
        return self._ends[-1] if self._ends else (0, 0)

    def clear(self) -> None:
        self.truncate(0)

    def truncate(self, n_rows: int) -> None:
        """Forget all rows from `n_rows` on; a medium that this would cut goes as a whole."""
        n = len(self._ends)
        while n and self._ends[n - 1][0] > n_rows:
            n -= 1
        del self._items[n:], self._ends[n:]

    def reusable(self, spans: Sequence[Span]) -> int:
        """How many rows of the cache `prefill(spans)` would keep."""
        same = self._common(spans)
        return self._ends[same - 1][0] if same else 0

    def prefill(self, spans: Sequence[Span], progress: Progress | None = None) -> F32:
        """Make the cache hold exactly `spans`; gives the logits after their last row, [1, n_vocab].

        What the cache holds already is kept, up to the first token or medium that differs. Raises
        ContextError, before any medium is encoded, when the spans do not fit.
        """
        self._check_room(sum(s.n_tok for s in spans))
        same = self._common(spans)
        self.truncate(self._ends[same - 1][0] if same else 0)
        return self._run(list(_without_items(spans, same)), "last", progress)

    def decode(self, span: Span, want: Want = "last") -> F32:
        """Append `span`; gives the logits after the rows wanted, [n_want, n_vocab]. Raises ContextError."""
        self._check_room(self.n_rows + span.n_tok)
        if span.n_tok == 1 and span.ids is not None and want != "none":
            return self._next(span)
        return self._run([span], want, None)

    def _next(self, span: Span) -> F32:
        """Append one token, as most passes do: each is what the last one was, with other numbers."""
        if self._replay is None:
            self._replay = _Replay(self.arch, self._kv)
        piece = Piece(span, 0, 1, *self._end)
        logits = _finite(self._replay(piece), self._replay.step)
        self._remember([piece])
        return logits

    def _check_room(self, n_prompt: int) -> None:
        if n_prompt > self.n_ctx:
            what = f"the prompt takes {n_prompt} rows and the context holds {self.n_ctx}"
            raise ContextError(f"{what}: shorten it, or give more context (-c)", n_prompt, self.n_ctx)

    def _common(self, spans: Sequence[Span]) -> int:
        """Items at the start of `spans` that the cache holds; never the last: its logits are wanted."""
        new = [item for s in spans for item in _items(s)]
        same = 0
        for old, item in zip(self._items, new[:-1]):
            if old != item:
                break
            same += 1
        return same

    def _run(self, spans: Sequence[Span], want: Want, progress: Progress | None) -> F32:
        """Decode `spans` in passes; a pass that fails leaves the cache as it was before."""
        arch, n_total, done = self.arch, sum(s.n_tok for s in spans), 0
        out = np.empty((n_total if want == "all" else 0, arch.n_vocab), np.float32)
        rows = out  # of the medium at hand, which may reach over several passes
        for pieces in cut(spans, self.n_ubatch, *self._end):
            parts = []
            for p in pieces:
                if p.span.rows and not p.start:
                    rows = self._encoded(p.span)
                ids = p.span.ids
                parts.append(rows[p.start : p.stop] if ids is None else arch.embed(ids[p.start : p.stop]))
            x, *deep = _levels(parts, arch.n_embd)
            n_want = len(x) if want == "all" else 1
            step = Step(
                np.concatenate([p.ids() for p in pieces]),
                np.concatenate([p.pos(arch.n_axis) for p in pieces], axis=1),
                np.concatenate([p.at() for p in pieces]),
                np.zeros(len(x), np.int32),
                np.concatenate([p.hi() for p in pieces]),
                n_want,
                self._kv,
                deep,
            )
            x = arch.forward(x, step)
            done += len(step.hi)
            if want == "all":
                out[done - n_want : done] = _finite(arch.logits(x), step)
            elif want == "last" and done == n_total:
                out = _finite(arch.logits(x), step)
            self._remember(pieces)
            if progress:
                progress(done, n_total)
        return out

    def _encoded(self, span: Span) -> F32:
        assert span.rows
        rows = span.rows()
        expected = span.n_tok, self.arch.n_embd * self.arch.n_level
        assert rows.shape == expected, (rows.shape, expected)
        return rows

    def _remember(self, pieces: Sequence[Piece]) -> None:
        """Enter what a pass has put into the cache; a medium counts when its last row is there."""
        for p in pieces:
            if p.span.ids is not None:
                self._items += p.span.ids[p.start : p.stop].tolist()
                pos = p.base + p.start - p.row
                self._ends += [(row, pos + row) for row in range(p.row + 1, p.row + p.n_tok + 1)]
            elif p.stop == p.span.n_tok:
                self._items.append((p.span.key, p.span.n_tok))
                self._ends.append((p.row + p.n_tok, p.base + p.span.n_pos))


class _Replay:
    """A pass of one token, recorded."""

    def __init__(self, arch: Arch, kv: Sequence[KvRows]) -> None:
        ids, at, lo, hi = np.zeros((4, 1), np.int32)
        self.step = Step(ids, np.zeros((arch.n_axis, 1), np.int32), at, lo, hi, 1, kv)
        self._play = arch.k.record(lambda: arch.logits(arch.forward(arch.embed(ids), self.step)))

    def __call__(self, p: Piece) -> F32:
        """Logits [1, n_vocab]."""
        self.step.move(p.ids(), p.pos(len(self.step.pos)), p.at(), p.hi())
        return self._play()


def _finite(logits: F32, step: Step) -> F32:
    if not math.isfinite(logits.max()):  # the maximum of anything with a NaN is NaN
        raise NonFiniteError(f"the model's output is not finite: {_first_bad(step)}")
    return logits


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


def _items(span: Span) -> Sequence[Item]:
    return span.ids.tolist() if span.ids is not None else [(span.key, span.n_tok)]


def _without_items(spans: Sequence[Span], n: int) -> Iterator[Span]:
    """`spans` without their first `n` items."""
    for span in spans:
        n_items = len(_items(span))
        if n < n_items:
            yield tokens(span.ids[n:]) if n and span.ids is not None else span
        n = max(n - n_items, 0)


def _first_bad(step: Step) -> str:
    """Where the rows of a step first went wrong, in words."""
    for il, kv in enumerate(step.kv):
        if not (np.isfinite(kv.k[:, step.at]).all() and np.isfinite(kv.v[:, step.at]).all()):
            return (
                f"first in the keys or values of layer {il}; damaged file, or too large for half (-ctk f32)?"
            )
    return "first after the keys and values of the last layer; damaged file?"
