"""Spans: what a context decodes, a run of token ids or the embedding rows of one medium."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from llm.kernels.operands import F32, I32


@dataclass(frozen=True)
class Span:
    """`n_tok` rows for the decoder, from `ids` or from `rows`.

    ids     int32 [n_tok], or None for a medium
    rows    gives float32 [n_tok, n_level n_embd] when called: only if they are not in the cache yet
    pos     int32 [n_axis, n_tok] relative to the span's start, or None for 0, 1, 2, ...
    n_pos   positions that the span takes up: the next span starts there
    causal  False: rows of the span all see each other, so they are decoded in one piece
    key     names a medium's content; the same key means the same rows
    """

    n_tok: int
    ids: I32 | None
    rows: Callable[[], F32] | None
    pos: I32 | None
    n_pos: int
    causal: bool = True
    key: bytes = b""


def tokens(ids: Sequence[int] | I32) -> Span:
    """A run of text."""
    array = np.asarray(ids, dtype=np.int32)
    return Span(len(array), array, None, None, len(array))


def media(
    n_tok: int,
    rows: Callable[[], F32],
    key: bytes,
    *,
    causal: bool = True,
    pos: I32 | None = None,
    n_pos: int | None = None,
) -> Span:
    """The rows of one medium, whose content is named by `key`.

    Unless `n_pos` is given, it takes up the positions up to the largest in `pos`.
    """
    assert n_tok > 0 and key, (n_tok, key)
    assert pos is None or pos.shape[1] == n_tok, pos.shape
    if n_pos is None:
        n_pos = n_tok if pos is None else int(pos.max()) + 1
    return Span(n_tok, None, rows, pos, n_pos, causal, key)
