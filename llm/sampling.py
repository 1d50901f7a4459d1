"""From logits to a token: penalties, top-k, top-p, min-p, temperature, in this order; then the dice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm.errors import NonFiniteError, UsageError
from llm.kernels.operands import F32


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Raises UsageError for a value out of range.

    temperature        0 (or less): always the likeliest token
    top_k              only the k likeliest (0: all)
    top_p              only the likeliest that together have this probability (1: all)
    min_p              only those at least this fraction as likely as the likeliest (0: all)
    repeat_penalty     divides the logits of recent tokens (1: off)
    repeat_last_n      how many tokens are recent (0: none, -1: all)
    frequency_penalty  taken from a recent token's logit for each time it occurred (0: off)
    presence_penalty   taken once (0: off)
    seed               the same seed gives the same tokens; None: another one each time
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        inf = float("inf")
        _check("temperature", self.temperature, -inf, 1e6)
        _check("top_k", self.top_k, 0, inf)
        _check("top_p", self.top_p, 0, 1)
        _check("min_p", self.min_p, 0, 1)
        _check("repeat_penalty", self.repeat_penalty, 1e-6, 1e6)
        _check("repeat_last_n", self.repeat_last_n, -1, inf)
        _check("frequency_penalty", self.frequency_penalty, -1e6, 1e6)
        _check("presence_penalty", self.presence_penalty, -1e6, 1e6)
        if self.seed is not None:
            _check("seed", self.seed, 0, 2**64 - 1)

    @property
    def penalises(self) -> bool:
        off = self.repeat_penalty == 1 and not self.frequency_penalty and not self.presence_penalty
        return self.repeat_last_n != 0 and not off


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # false for NaN too
        raise UsageError(f"{name} is {value}, expected {low:g} to {high:g}")


class Sampler:
    """A `Sampling` with its dice."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._random = np.random.default_rng(sampling.seed)

    def sample(self, logits: F32, history: Sequence[int]) -> int:
        """The next token after `history`, from logits [n_vocab]. Raises NonFiniteError when one is NaN."""
        s = self.sampling
        if s.penalises:
            logits = _penalise(logits, history, s)
        likeliest = int(logits.argmax())  # the first NaN when there is one
        top = logits[likeliest]
        if not np.isfinite(top):
            raise NonFiniteError(f"cannot choose a token: logit {likeliest} is {top}")
        if s.temperature <= 0:
            return likeliest
        ids, total = _likeliest(logits, top, s)
        logits = logits[ids] - top
        p = np.exp(logits)
        before = np.cumsum(p, dtype=np.float64) - p  # what the likelier ones have together
        keep = (before < s.top_p * total) & (p >= s.min_p)
        keep[0] = True
        cdf = np.cumsum(np.exp(logits[keep].astype(np.float64) / s.temperature))
        return int(ids[keep][np.searchsorted(cdf, self._random.random() * cdf[-1], side="right")])


def _penalise(logits: F32, history: Sequence[int], s: Sampling) -> F32:
    """A copy of logits [n_vocab] in which recent tokens are less likely."""
    recent = history if s.repeat_last_n < 0 else history[-s.repeat_last_n :]
    ids, n_times = np.unique(np.asarray(recent, np.int64), return_counts=True)
    penalised = logits.copy()
    x = logits[ids]
    x = np.where(x > 0, x / s.repeat_penalty, x * s.repeat_penalty)
    penalised[ids] = x - n_times * s.frequency_penalty - s.presence_penalty
    return penalised


def _likeliest(logits: F32, top: np.float32, s: Sampling) -> tuple[NDArray[np.intp], float]:
    """Ids that top-k leaves, likeliest first, and the sum of exp(logit - top) over all that it leaves.

    Without top-k, ids that min-p would drop anyway are left out beforehand: sorting the whole vocabulary
    takes ten times as long as all the rest.
    """
    if 0 < s.top_k < len(logits):
        ids = np.flatnonzero(logits >= _kth(logits, s.top_k))
        ids = ids[np.argsort(-logits[ids], kind="stable")][: s.top_k]
        return ids, float(np.exp(logits[ids] - top).sum(dtype=np.float64))
    p = np.exp(logits - top)
    ids = np.flatnonzero(p >= s.min_p)
    return ids[np.argsort(-p[ids])], float(p.sum(dtype=np.float64))


def _kth(logits: F32, k: int) -> np.float32:
    """A lower bound of the k-th largest logit, tight enough: the k-th largest of the maxima of 8 k groups.

    Several times faster than a partition of the whole vocabulary.
    """
    n = len(logits) // (8 * k)
    if n < 4:
        return np.float32(np.partition(logits, -k)[-k])
    maxima = logits[: n * 8 * k].reshape(n, 8 * k).max(axis=0)
    return np.float32(np.partition(maxima, -k)[-k])
