"""Cutting spans into passes: which rows go through the layers together, and what each of them sees."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llm.kernels.operands import I32
from llm.span import Span


@dataclass(frozen=True)
class Piece:
    """Rows start..stop of `span`, entering the cache from `row` on; the span starts at position `base`.

    `lo` is the first cache row of the sequence.
    """

    span: Span
    start: int
    stop: int
    row: int
    base: int
    lo: int = 0

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


class Cuts:
    """Spans on their way into a sequence whose first row is `lo`: from cache row `row`, position `pos` on."""

    def __init__(self, spans: Sequence[Span], row: int, pos: int, lo: int = 0) -> None:
        self._spans = deque(s for s in spans if s.n_tok)
        self._start = 0  # of what is left of the first
        self._row, self._pos, self._lo = row, pos, lo
        self.n_left = sum(s.n_tok for s in spans)

    def take(self, n_max: int) -> list[Piece]:
        """What comes next, at most `n_max` rows; a block whose rows all see each other is never cut.

        A block that is longer than `n_max` comes by itself.
        """
        pieces: list[Piece] = []
        room = n_max
        while self._spans and room > 0:
            span, start = self._spans[0], self._start
            n_tok = min(room, span.n_tok - start) if span.causal else span.n_tok
            if n_tok > room and pieces:
                break
            pieces.append(Piece(span, start, start + n_tok, self._row, self._pos, self._lo))
            self._row, self._start, room = self._row + n_tok, start + n_tok, room - n_tok
            if self._start == span.n_tok:
                self._spans.popleft()
                self._start, self._pos = 0, self._pos + span.n_pos
        self.n_left -= sum(p.n_tok for p in pieces)
        return pieces
