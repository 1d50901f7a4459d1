"""Finding special tokens in text by their spelling."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

_SPACE = " \t\n\v\f\r"


class Specials:
    """The special tokens of a vocabulary: `split` cuts a text into their ids and what lies between.

    The longest token wins wherever two overlap, and among equals the first occurrence. The scan looks only
    where some token's first two characters stand, so that thousands of tokens cost little more than a few.
    """

    def __init__(self, tokens: Iterable[tuple[str, int]], strips_right: frozenset[int]) -> None:
        self.ids = dict(tokens)
        self.strips_right = strips_right
        self._lengths: dict[str, set[int]] = defaultdict(set)  # by the first two characters, or the only one
        for text in self.ids:
            self._lengths[text[:2]].add(len(text))
        self._firsts = {text[0] for text in self.ids}

    def split(self, text: str) -> list[str | int]:
        """`text` as non-empty strings and token ids, in order."""
        found = self._occurrences(text)
        if not found:
            return [text] if text else []
        taken: list[tuple[int, int, int | None]] = []  # (begin, end, id), sorted, disjoint
        for token in sorted(found, key=lambda t: (-len(t.encode("utf-8", "surrogatepass")), self.ids[t])):
            for begin in found[token]:
                self._take(taken, text, begin, begin + len(token), self.ids[token])
        out: list[str | int] = []
        at = 0
        for begin, end, tok in taken:
            if at < begin:
                out.append(text[at:begin])
            if tok is not None:
                out.append(tok)
            at = end
        if at < len(text):
            out.append(text[at:])
        return out

    def places(self, text: str) -> list[int]:
        """Where in `text` some token begins, overlapping or not."""
        return sorted({at for places in self._occurrences(text).values() for at in places})

    def _occurrences(self, text: str) -> dict[str, list[int]]:
        """Each token that stands anywhere in `text` with all its places, overlapping or not."""
        found: dict[str, list[int]] = defaultdict(list)
        for first in self._firsts:
            at = text.find(first)
            while at >= 0:
                if first in self.ids:
                    found[first].append(at)
                for n in self._lengths.get(text[at : at + 2], ()):
                    candidate = text[at : at + n]
                    if n > 1 and len(candidate) == n and candidate in self.ids:
                        found[candidate].append(at)
                at = text.find(first, at + 1)
        return found

    def _take(
        self, taken: list[tuple[int, int, int | None]], text: str, begin: int, end: int, tok: int
    ) -> None:
        """Adds a token to `taken` unless a longer one has the place."""
        i = bisect_left(taken, (begin,))
        limit = taken[i][0] if i < len(taken) else len(text)
        if end > limit or (i > 0 and taken[i - 1][1] > begin):
            return
        taken.insert(i, (begin, end, tok))
        if tok in self.strips_right:
            stop = end
            while stop < limit and text[stop] in _SPACE:
                stop += 1
            if stop > end:
                taken.insert(i + 1, (end, stop, None))
