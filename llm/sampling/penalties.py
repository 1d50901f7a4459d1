"""Penalties: tokens that were said already, or that would go on with a repetition, are made less likely."""

import math
from functools import lru_cache

import numpy as np

from llm.sampling.candidates import Candidates, Index
from llm.sampling.settings import Sampling
from llm.tokenizer import Tokenizer

LARGEST = float(np.finfo(np.float32).max)
LONGEST_BREAKER = 40  # bytes, as in llama.cpp


def penalties(c: Candidates, s: Sampling) -> Candidates:
    """Recent tokens, by whether and how often they occurred (Keskar et al. 2019, and OpenAI's two)."""
    toks, n_times = np.unique(_last(c, s.repeat_last_n), return_counts=True)
    places, which = c.places(toks)
    x = c.logits[places]
    x = np.where(x > 0, x / s.repeat_penalty, x * s.repeat_penalty)
    x -= n_times[which] * s.frequency_penalty + s.presence_penalty
    return c.changed(places, x.astype(np.float32))


class Dry:
    """DRY, "don't repeat yourself": tokens that would lengthen a repetition lose, the more the longer it is.

    Where the last n tokens also occurred earlier, the token that followed them then would go on with it. A
    breaker (a line break, say) ends what counts as repetition.
    """

    def __init__(self, s: Sampling, tokenizer: Tokenizer) -> None:
        self._s = s
        self._breakers = _breakers(s.dry_breakers, tokenizer)
        # More is the same: there a penalty would leave the range of float32.
        exponent = math.log(LARGEST) / math.log(s.dry_base) if s.dry_base > 1.000001 else 0
        self._longest = s.dry_allowed_length + int(exponent)

    def __call__(self, c: Candidates) -> Candidates:
        toks, lengths = self._repetitions(_last(c, self._s.dry_last_n)[::-1])
        places, which = c.places(toks)
        exponent = lengths[which] - self._s.dry_allowed_length
        penalty = self._s.dry_multiplier * np.power(self._s.dry_base, exponent, dtype=np.float64)
        return c.changed(places, np.maximum(c.logits[places] - penalty, -LARGEST).astype(np.float32))

    def _repetitions(self, newest: Index) -> tuple[Index, Index]:
        """Tokens that would go on with a repetition, its length so far; newest: last tokens, backwards."""
        limit = min(self._since_breaker(newest), self._longest)
        length = np.full(len(newest), -1)  # of the repetition that ends where the token before is
        at = np.arange(1, len(newest))
        for n in range(limit + 1):
            if not at.size:
                break
            length[at] = n
            at = at[at + n < len(newest)]
            at = at[newest[at + n] == newest[n]]
        at = np.flatnonzero(length >= self._s.dry_allowed_length)
        at = at[np.argsort(length[at])]  # so that of equal tokens the longest counts
        longest = dict(zip(newest[at - 1].tolist(), length[at].tolist()))
        found = {tok: n for tok, n in longest.items() if () not in self._breakers.get(tok, ())}
        return np.array(list(found), np.intp), np.array(list(found.values()), np.intp)

    def _since_breaker(self, newest: Index) -> int:
        """How many tokens have come since the last breaker was complete."""
        toks = newest.tolist()
        for i, tok in enumerate(toks):
            tails = self._breakers.get(tok, ())
            ended = [len(t) for t in tails if len(t) <= i and t == tuple(reversed(toks[i - len(t) : i]))]
            if ended:
                return i - max(ended)
        return len(toks)


def _last(c: Candidates, n: int) -> Index:
    """The last n tokens, -1: all."""
    return np.asarray(c.history if n < 0 else c.history[max(len(c.history) - n, 0) :], np.intp)


@lru_cache(maxsize=2)
def _breakers(texts: tuple[str, ...], tokenizer: Tokenizer) -> dict[int, set[tuple[int, ...]]]:
    """token -> the runs of tokens after it that complete a breaker; () where it holds one itself."""
    found: dict[int, set[tuple[int, ...]]] = {}
    pieces = [tokenizer.piece(tok, special=True) for tok in range(tokenizer.n_vocab)]
    for text in filter(None, texts):
        whole = text.encode()[:LONGEST_BREAKER]
        tails = {n: tuple(_tail(whole[n:], tokenizer)) for n in range(1, len(whole))}
        for tok, piece in enumerate(pieces):
            if whole in piece:
                found.setdefault(tok, set()).add(())
            else:
                ends = {tail for n, tail in tails.items() if piece.endswith(whole[:n])}
                if ends:
                    found.setdefault(tok, set()).update(ends)
    return found


def _tail(rest: bytes, tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode_plain(rest.decode("utf-8", "ignore"))
