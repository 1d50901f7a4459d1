"""Rotary positions: tables of cos and sin for the kernels, from positions and frequencies.

A head's pair i turns by pos * freq[i]. Source: Su et al., arXiv 2104.09864; linear scaling and per-frequency
factors (Llama 3) divide the frequencies. Angles are computed in float64: a position times a float32 frequency
is off by a whole milliradian at position 16,000.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm.kernels.operands import F32, I32, Rope, RopeKind

F64 = NDArray[np.float64]


def frequencies(n_rot: int, base: float, *, factors: F32 | None = None, scale: float = 1.0) -> F64:
    """[n_rot / 2] radians per position: base^(-2 i / n_rot) / factors[i] * scale."""
    freqs = base ** (-np.arange(0, n_rot, 2, dtype=np.float64) / n_rot) * scale
    return freqs if factors is None else freqs / factors


@dataclass(frozen=True)
class RopeTable:
    """Frequencies [n_pair] and how pairs lie in a head."""

    freqs: F64
    kind: RopeKind

    def at(self, pos: I32) -> Rope:
        """cos and sin for positions [n_axis, n_tok]; text has one axis, and the first is the one used."""
        angle = np.multiply.outer(pos[0], self.freqs)  # [n_tok, n_pair]
        return Rope(np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32), self.kind)
