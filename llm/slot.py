"""A slot: cache rows that belong to one sequence, and what they hold, token by token and medium by medium."""

from collections.abc import Iterator, Sequence

from llm.batch import Cuts, Piece
from llm.errors import ContextError
from llm.kernels.operands import F32
from llm.span import Span, tokens

Item = int | tuple[bytes, int]  # what one or more cache rows hold: a token id, or a medium's (key, n_tok)


class Slot:
    """The `n_ctx` cache rows from `first` on. Row numbers here count from there."""

    def __init__(self, first: int, n_ctx: int) -> None:
        self.first, self.n_ctx = first, n_ctx
        self.items: list[Item] = []
        self.ends: list[tuple[int, int]] = []  # after each item: rows in the cache, next position

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.end[0]

    @property
    def end(self) -> tuple[int, int]:
        """Where the next row goes: in the cache, and its position."""
        return self.ends[-1] if self.ends else (0, 0)

    def truncate(self, n_rows: int) -> None:
        """Forget all rows from `n_rows` on; a medium that this would cut goes as a whole."""
        n = len(self.ends)
        while n and self.ends[n - 1][0] > n_rows:
            n -= 1
        self.keep(n)

    def keep(self, n_item: int) -> None:
        """Forget all but the first items."""
        del self.items[n_item:], self.ends[n_item:]

    def drop(self, start: int, stop: int) -> tuple[int, int]:
        """Forget the items that lie in rows start..stop whole; what follows keeps its positions.

        Gives the rows that are free now, for what follows to move to the first of them.
        """
        rows = [0, *(row for row, _ in self.ends)]
        i = sum(row < start for row in rows)
        j = max(i, sum(row <= stop for row in rows) - 1)
        first, last = rows[min(i, len(rows) - 1)], rows[min(j, len(rows) - 1)]
        self.ends[i:] = [(row - (last - first), pos) for row, pos in self.ends[j:]]
        del self.items[i:j]
        return first, last

    def common(self, spans: Sequence[Span]) -> int:
        """Items at the start of `spans` that are here; never the last of them: its logits are wanted.

        Rows behind a gap in the positions do not count: they were computed in view of what was dropped.
        """
        new = [(item, s) for s in spans for item in _items(s)]
        same = row = pos = 0
        for old, end, (item, span) in zip(self.items, self.ends, new[:-1]):
            n_tok, n_pos = (1, 1) if span.ids is not None else (span.n_tok, span.n_pos)
            row, pos = row + n_tok, pos + n_pos
            if old != item or end != (row, pos):
                break
            same += 1
        return same

    def rows_of(self, n_item: int) -> int:
        """Rows of the first items."""
        return self.ends[n_item - 1][0] if n_item else 0

    def check_room(self, n_rows: int) -> None:
        """Raises ContextError unless so many rows fit."""
        if n_rows > self.n_ctx:
            what = f"the prompt takes {n_rows} rows and the context holds {self.n_ctx}"
            raise ContextError(f"{what}: shorten it, or give more context (-c)", n_rows, self.n_ctx)

    def next_piece(self, span: Span) -> Piece:
        """All of `span`, to enter next."""
        row, pos = self.end
        return Piece(span, 0, span.n_tok, self.first + row, pos, self.first)

    def remember(self, pieces: Sequence[Piece]) -> None:
        """Enter what a pass has put into the cache; a medium counts when its last row is there."""
        for p in pieces:
            row = p.row - self.first
            if p.span.ids is not None:
                self.items += p.span.ids[p.start : p.stop].tolist()
                pos = p.base + p.start - row
                self.ends += [(r, pos + r) for r in range(row + 1, row + p.n_tok + 1)]
            elif p.stop == p.span.n_tok:
                self.items.append((p.span.key, p.span.n_tok))
                self.ends.append((row + p.n_tok, p.base + p.span.n_pos))


class Intake:
    """Spans on their way into a slot, after what it holds; media are encoded when their turn comes."""

    def __init__(self, slot: Slot, spans: Sequence[Span]) -> None:
        row, pos = slot.end
        self._cuts = Cuts(spans, slot.first + row, pos, slot.first)
        self._rows: F32 | None = None  # of the medium at hand, which may reach over several passes

    @property
    def n_left(self) -> int:
        return self._cuts.n_left

    def take(self, n_max: int) -> list[tuple[Piece, F32 | None]]:
        """About `n_max` rows for a pass, as `Cuts.take` gives them; with [n_tok, n_level n_embd] for media.

        Raises what encoding raises.
        """
        return [(p, self._encoded(p) if p.span.rows else None) for p in self._cuts.take(n_max)]

    def _encoded(self, p: Piece) -> F32:
        if not p.start:
            assert p.span.rows
            self._rows = p.span.rows()
            assert len(self._rows) == p.span.n_tok, (self._rows.shape, p.span.n_tok)
        assert self._rows is not None
        return self._rows[p.start : p.stop]


def _items(span: Span) -> Sequence[Item]:
    return span.ids.tolist() if span.ids is not None else [(span.key, span.n_tok)]


def without_items(spans: Sequence[Span], n: int) -> Iterator[Span]:
    """`spans` without their first `n` items."""
    for span in spans:
        n_items = len(_items(span))
        if n < n_items:
            yield tokens(span.ids[n:]) if n and span.ids is not None else span
        n = max(n - n_items, 0)
