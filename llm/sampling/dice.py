"""The last step: one of the candidates is chosen. Some of them steer by what they chose before."""

import math
from collections.abc import Callable

import numpy as np

from llm.kernels.operands import F32
from llm.sampling.candidates import Candidates, largest

Dice = Callable[[Candidates, np.random.Generator], int]  # gives the token


def plain(c: Candidates, random: np.random.Generator) -> int:
    """Each as often as its probability says."""
    return c.token(draw(c.p(), random))


def draw(p: F32, random: np.random.Generator) -> int:
    """An index, each as often as p [n] says."""
    if len(p) == 1:
        return 0
    cdf = np.cumsum(p, dtype=np.float64)
    return int(np.searchsorted(cdf[:-1], random.random() * cdf[-1], side="right"))


class Mirostat:
    """Keeps the surprise near `tau` bits, by a cut that it learns at rate `eta` (Basu et al. 2020).

    This is the first version: it cuts to k tokens, with k from a power law fitted to the 100 likeliest.
    """

    N_FIT = 100

    def __init__(self, tau: float, eta: float) -> None:
        self._surprise = Surprise(tau, eta)

    def __call__(self, c: Candidates, random: np.random.Generator) -> int:
        if len(c) > 1:
            c = c.take(largest(c.logits, self._k(c)))
        return self._surprise.draw(c, random)

    def _k(self, c: Candidates) -> int:
        """How many tokens to leave; llama.cpp's reading of the paper's formula."""
        head = c.logits[largest(c.logits, self.N_FIT)].astype(np.float64)
        t = np.log(np.arange(2, len(head) + 1) / np.arange(1, len(head)))
        s = float(t @ -np.diff(head)) / float(t @ t)
        eps = s - 1
        if s <= 0 or eps == 0:  # nothing to fit: all alike, or exactly Zipf's law
            return len(c)
        base = eps * 2**self._surprise.limit / (1 - float(len(c)) ** -eps)
        return int(min(max(base ** (1 / s), 1), len(c)))


class MirostatV2:
    """The second version: it cuts what is more surprising than the limit."""

    def __init__(self, tau: float, eta: float) -> None:
        self._surprise = Surprise(tau, eta)

    def __call__(self, c: Candidates, random: np.random.Generator) -> int:
        with np.errstate(divide="ignore"):
            stays = np.flatnonzero(-np.log2(c.p()) <= self._surprise.limit)
        return self._surprise.draw(c.take(stays) if stays.size else c.likeliest(), random)


class Surprise:
    """Mirostat's state: `limit` in bits, moved after each token by how far its surprise was off."""

    def __init__(self, tau: float, eta: float) -> None:
        self._tau, self._eta, self.limit = tau, eta, 2 * tau

    def draw(self, c: Candidates, random: np.random.Generator) -> int:
        p = c.p()
        at = draw(p, random)
        self.limit = min(self.limit - self._eta * (-math.log2(max(p[at], 1e-30)) - self._tau), 1000.0)
        return c.token(at)


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

    def __call__(self, c: Candidates, random: np.random.Generator) -> int:
        p = c.p()
        off = np.abs(p - np.float32(self.aim())) / np.float32(self.WIDTH)
        near = Candidates(self.PEAK - self.SHARPNESS * off * off / (1 + off), c.ids, c.history)
        at = draw(near.p(), random)
        self._sum = float(p[at]) + self._decay * self._sum
        self._weight = 1 + self._decay * self._weight
        return c.token(at)

    def aim(self) -> float:
        """The probability to prefer now."""
        return min(max(2 * self._target - self._sum / self._weight, 0.0), 1.0)
