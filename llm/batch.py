"""Cutting spans into passes: which rows go through the layers together, and what each of them sees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llm.kernels.operands import I32
from llm.span import Span


@dataclass(frozen=True)
class Piece:
    """Rows start..stop of `span`, entering the cache from `row` on; the span starts at position `base`."""

    span: Span
    start: int
    stop: int
    row: int
    base: int

    @property
    def n_tok(self) -> int:
        return self.stop - self.start

    def ids(self) -> I32:
        """Token ids [n_tok]; 0 for rows of media."""
        ids = self.span.ids
        return np.zeros(self.n_tok, np.int32) if ids is None else ids[self.start : self.stop]

    def pos(self, n_axis: int) -> I32:
        """Positions [n_axis, n_tok]; text has the same one on all axes."""
        if self.span.pos is not None:
            return self.span.pos[:, self.start : self.stop] + np.int32(self.base)
        line = np.arange(self.base + self.start, self.base + self.stop, dtype=np.int32)
        return np.broadcast_to(line, (n_axis, self.n_tok))

    def at(self) -> I32:
        """The cache rows that the rows enter [n_tok]."""
        return np.arange(self.row, self.row + self.n_tok, dtype=np.int32)

    def hi(self) -> I32:
        """The end of the cache rows that each row sees [n_tok]: its own, or in a block the block's end."""
        end = self.row + self.n_tok
        if self.span.causal:
            return np.arange(self.row + 1, end + 1, dtype=np.int32)
        return np.full(self.n_tok, end, np.int32)


def cut(spans: Sequence[Span], n_max: int, row: int, pos: int) -> Iterator[list[Piece]]:
    """Passes of at most `n_max` rows, from cache row `row` and position `pos` on.

    Spans share a pass where they can. A block whose rows all see each other is never cut: a pass grows to
    hold one that is longer than `n_max`.
    """
    pieces: list[Piece] = []
    room = n_max
    for span in spans:
        start = 0
        while start < span.n_tok:
            n_tok = min(room, span.n_tok - start) if span.causal else span.n_tok
            if n_tok <= room or not pieces:
                pieces.append(Piece(span, start, start + n_tok, row, pos))
                start, row, room = start + n_tok, row + n_tok, room - n_tok
            else:
                room = 0
            if room <= 0:
                yield pieces
                pieces, room = [], n_max
        pos += span.n_pos
    if pieces:
        yield pieces
