"""The tokens that may come next, and ways to find the likeliest of many without sorting them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llm.kernels.operands import F32

Index = NDArray[np.intp]
N_GROUPS = 8  # groups of the vocabulary for each token looked for, see _kth


@dataclass(frozen=True)
class Candidates:
    """logits [n] of the tokens ids [n] that may follow `history`; ids None: the whole vocabulary in order."""

    logits: F32
    ids: Index | None
    history: Sequence[int]

    def __len__(self) -> int:
        return len(self.logits)

    def token(self, at: int) -> int:
        return at if self.ids is None else int(self.ids[at])

    def take(self, at: Index) -> "Candidates":
        """Those at the places `at`, in that order."""
        return Candidates(self.logits[at], at if self.ids is None else self.ids[at], self.history)

    def places(self, toks: Index) -> tuple[Index, Index]:
        """(place of the token, its index in `toks`) of those of the distinct `toks` that are candidates."""
        if self.ids is None:
            return toks, np.arange(len(toks))
        _, places, which = np.intersect1d(self.ids, toks, assume_unique=True, return_indices=True)
        return places, which

    def likeliest(self) -> "Candidates":
        """The likeliest alone, of equals the first."""
        return self.take(np.array([self.logits.argmax()]))

    def changed(self, places: Index, logits: F32) -> "Candidates":
        """The same with other logits at some places."""
        new = self.logits.copy()
        new[places] = logits
        return replace(self, logits=new)

    def p(self) -> F32:
        """Their probabilities among each other, [n]."""
        p: F32 = np.exp(self.logits - self.logits.max())
        p /= p.sum(dtype=np.float64)
        return p


Step = Callable[[Candidates], Candidates]


def largest(keys: F32, k: int) -> Index:
    """Indices of the k largest keys (all, if they are fewer), in descending order."""
    if k >= len(keys):
        return np.argsort(-keys)
    found = np.flatnonzero(keys >= _kth(keys, k))
    return found[np.argsort(-keys[found], kind="stable")[:k]]


def leading(keys: F32, p: F32, target: float) -> Index:
    """Indices of the largest keys in descending order, the fewest whose p sum to `target` (or all)."""
    found = largest(keys, 256)
    total = np.cumsum(p[found], dtype=np.float64)
    if total[-1] < target and len(found) < len(keys):
        found = largest(keys, len(keys))
        total = np.cumsum(p[found], dtype=np.float64)
    return found[: np.searchsorted(total, target) + 1]


def _kth(x: F32, k: int) -> np.float32:
    """A lower bound of the k-th largest, tight enough: the k-th largest of the maxima of 8 k groups.

    Several times faster than a partition of the whole vocabulary.
    """
    n = len(x) // (N_GROUPS * k)
    if n < 4:
        return np.float32(np.partition(x, -k)[-k])
    maxima = x[: n * N_GROUPS * k].reshape(n, N_GROUPS * k).max(axis=0)
    return np.float32(np.partition(maxima, -k)[-k])
