"""Cuts: each leaves some of the candidates, and always at least one."""

import math

import numpy as np

from llm.sampling.candidates import Candidates, largest, leading


def top_k(c: Candidates, k: int) -> Candidates:
    """The k likeliest."""
    return c.take(largest(c.logits, k)) if k < len(c) else c


def top_p(c: Candidates, p: float) -> Candidates:
    """The fewest that together have probability p (Holtzman et al. 2019, nucleus sampling)."""
    return c.take(leading(c.logits, c.p(), p))


def min_p(c: Candidates, p: float) -> Candidates:
    """Those at least p times as likely as the likeliest (Nguyen et al. 2024)."""
    return c.take(np.flatnonzero(c.logits >= c.logits.max() + np.float32(math.log(p))))


def top_n_sigma(c: Candidates, n: float) -> Candidates:
    """Logits within n standard deviations of the largest (Tang et al. 2024)."""
    sigma = c.logits.std(dtype=np.float64)
    return c.take(np.flatnonzero(c.logits >= c.logits.max() - np.float32(n * sigma)))


def typical_p(c: Candidates, p: float) -> Candidates:
    """Those about as surprising as expected, the fewest that have probability p (Meister et al. 2022)."""
    probability = c.p()
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 log 0 is 0 here
        surprise = -np.log(probability)
        entropy = np.nansum(probability * surprise, dtype=np.float64)
    return c.take(leading(-np.abs(surprise - np.float32(entropy)), probability, p))


def xtc(c: Candidates, chance: float, threshold: float, random: np.random.Generator) -> Candidates:
    """Now and then without those that have probability `threshold`, but for the least likely of them."""
    if len(c) < 2 or random.random() >= chance:
        return c
    p = c.p()
    above = np.flatnonzero(p >= threshold)
    if len(above) < 2:
        return c
    spared = above[len(above) - 1 - np.argmin(p[above][::-1])]
    stays = p < threshold
    stays[spared] = True
    return c.take(np.flatnonzero(stays))


def temperature(c: Candidates, t: float) -> Candidates:
    """Sharper (below 1) or flatter; at 0 the likeliest alone, of equals the first."""
    if t < 1e-6:  # to divide by less would leave the range of float32
        return c.likeliest()
    return Candidates(c.logits / np.float32(t), c.ids, c.history)


def dynamic_temperature(c: Candidates, low: float, high: float, exponent: float) -> Candidates:
    """From `low` where the model is sure to `high` where all candidates are alike."""
    if len(c) == 1:
        return c
    p = c.p()
    p = p[p > 0]
    entropy = -float((p * np.log(p)).sum(dtype=np.float64)) / math.log(len(c))
    return temperature(c, low + (high - low) * max(entropy, 0.0) ** exponent)
