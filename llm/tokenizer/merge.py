"""Merging neighbours, best pair first: the step that byte-pair and SentencePiece vocabularies share."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import pairwise


def merge(symbols: list[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """Joins neighbouring `symbols` while `rank` has a number for some pair: lowest first, then leftmost.

    A heap of candidates keeps this at n log n, whatever the text; stale ones are dropped when popped.
    """
    n = len(symbols)
    after = list(range(1, n + 1))
    before = list(range(-1, n - 1))
    pairs = pairwise(symbols)
    heap = [(r, i, i + 1, len(a) + len(b)) for i, (a, b) in enumerate(pairs) if (r := rank(a, b)) is not None]
    heapify(heap)
    while heap:
        _, i, j, size = heappop(heap)
        left, right = symbols[i], symbols[j]
        if not left or not right or len(left) + len(right) != size:
            continue
        joined = symbols[i] = left + right
        symbols[j] = ""
        k = after[i] = after[j]
        if k < n:
            before[k] = i
            if (r := rank(joined, symbols[k])) is not None:
                heappush(heap, (r, i, k, size + len(symbols[k])))
        h = before[i]
        if h >= 0 and (r := rank(symbols[h], joined)) is not None:
            heappush(heap, (r, h, i, size + len(symbols[h])))
    return [symbol for symbol in symbols if symbol]
