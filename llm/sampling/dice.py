"""The last step: one of the candidates is chosen. Some dice steer by what they chose before."""

import math
from typing import Protocol

import numpy as np

from llm.kernels.operands import F32
from llm.sampling.candidates import Candidates, largest


class Dice(Protocol):
    """`shape` gives what to draw from, `learn` is told the place drawn and its probability there."""

    def shape(self, c: Candidates) -> Candidates: ...

    def learn(self, at: int, p: float) -> None: ...


def draw(p: F32, random: np.random.Generator) -> int:
    """A place, each as often as p [n] says."""
    if len(p) == 1:
        return 0
    cdf = np.cumsum(p, dtype=np.float64)
    return int(np.searchsorted(cdf[:-1], random.random() * cdf[-1], side="right"))


class Plain:
    """Each token as often as its probability says."""

    def shape(self, c: Candidates) -> Candidates:
        return c

    def learn(self, at: int, p: float) -> None:
        pass


class Mirostat:
    """Keeps the surprise near `tau` bits, by a cut that it learns at rate `eta` (Basu et al. 2020).

    This is the first version: it cuts to k tokens, with k from a power law fitted to the 100 likeliest.
    """

    N_FIT = 100

    def __init__(self, tau: float, eta: float) -> None:
        self._tau, self._eta, self._limit = tau, eta, 2 * tau

    def shape(self, c: Candidates) -> Candidates:
        return c.take(largest(c.logits, self._k(c))) if len(c) > 1 else c

    def learn(self, at: int, p: float) -> None:
        self._limit = corrected(self._limit, self._tau, self._eta, p)

    def _k(self, c: Candidates) -> int:
        """How many tokens to leave; llama.cpp's reading of the paper's formula."""
        head = c.logits[largest(c.logits, self.N_FIT)].astype(np.float64)
        t = np.log(np.arange(2, len(head) + 1) / np.arange(1, len(head)))
        s = float(t @ -np.diff(head)) / float(t @ t)
        eps = s - 1
        if s <= 0 or abs(eps) < 1e-9:  # nothing to fit: all alike, or exactly Zipf's law
            return len(c)
        log_k = (math.log(eps / (1 - float(len(c)) ** -eps)) + self._limit * math.log(2)) / s
        return int(math.exp(min(max(log_k, 0), math.log(len(c)))))


class MirostatV2:
    """The second version: it cuts what is more surprising than the limit."""

    def __init__(self, tau: float, eta: float) -> None:
        self._tau, self._eta, self._limit = tau, eta, 2 * tau

    def shape(self, c: Candidates) -> Candidates:
        stays = np.flatnonzero(c.p() >= 2.0**-self._limit)
        return c.take(stays) if stays.size else c.likeliest()

    def learn(self, at: int, p: float) -> None:
        self._limit = corrected(self._limit, self._tau, self._eta, p)


def corrected(limit: float, tau: float, eta: float, p: float) -> float:
    """Mirostat's limit in bits, after a token of probability p; kept where 2 ** limit is a number."""
    surprise = -math.log2(max(p, 1e-30))
    return min(max(limit - eta * (surprise - tau), -1000.0), 1000.0)


class AdaptiveP:
    """Prefers tokens near a probability, which moves so that those chosen have `target` on average.

    How far a token's probability is off costs quadratically nearby and linearly far away, so that the
    unlikely stay unlikely. (llama.cpp's adaptive-p.)
    """

    WIDTH, PEAK, SHARPNESS = 0.3, 5.0, 10.0

    def __init__(self, target: float, decay: float) -> None:
        self._target, self._decay = target, decay
        self._weight = 1 / (1 - decay)
        self._sum = target * self._weight
        self._p = np.zeros(0, np.float32)

    def shape(self, c: Candidates) -> Candidates:
        self._p = c.p()
        aim = min(max(2 * self._target - self._sum / self._weight, 0.0), 1.0)
        off = np.abs(self._p - np.float32(aim)) / np.float32(self.WIDTH)
        return Candidates(self.PEAK - self.SHARPNESS * off * off / (1 + off), c.ids, c.history)

    def learn(self, at: int, p: float) -> None:
        self._sum = float(self._p[at]) + self._decay * self._sum
        self._weight = 1 + self._decay * self._weight
