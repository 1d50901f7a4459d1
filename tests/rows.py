"""Embedding rows in goldens: a few of them in full, of every one the sum of its numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
N_FULL = 24  # rows kept in full


def thin(rows: F32) -> dict[str, NDArray[Any]]:
    """What a golden keeps of [n, n_embd]: rows float16 [<= N_FULL, n_embd], sums float32 [n]."""
    return {"rows": rows[_kept(len(rows))].astype(np.float16), "sums": rows.sum(1, dtype=np.float32)}


def sample(x: F32) -> F32:
    """At most 1,000 numbers from all over an array."""
    return x.ravel()[:: -(-x.size // 1000)]


def check(rows: F32, golden: Mapping[str, NDArray[Any]], least: float = 0.9999) -> None:
    """Rows [n, n_embd] have at least this cosine to those of a golden."""
    sums = golden["sums"]
    assert len(rows) == len(sums), f"{len(rows)} rows, expected {len(sums)}"
    assert least_cosine(rows[_kept(len(rows))], golden["rows"]) >= least
    # a row apart by the angle a has a sum apart by its length times a times a number of deviation 1
    apart = np.abs(rows.sum(1) - sums) / np.linalg.norm(rows, axis=1)
    assert apart.max() <= 4.5 * np.arccos(least), f"row {apart.argmax()} is another one"


def least_cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Of the rows, and of their differences from the mean row: what they have in common proves little."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    rows = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    least = float(rows.min())
    if len(rows) > 1:
        a, b = (a - a.mean(0)).ravel(), (b - b.mean(0)).ravel()
        least = min(least, float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    return least


def _kept(n: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, n - 1, N_FULL).astype(np.intp))
