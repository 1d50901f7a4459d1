"""Rotary positions: tables of cos and sin for the kernels, from positions and frequencies.

A head's pair i turns by pos * freq[i] (Su et al., arXiv 2104.09864). Models stretched to longer contexts
divide the frequencies: all by one factor (linear), each by its own (Llama 3), or the low ones only (YaRN).
Angles are computed in float64: a position times a float32 frequency is off by a milliradian at 16,000.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm.kernels.operands import F32, I32, RopeKind

F64 = NDArray[np.float64]


def frequencies(n_rot: int, base: float, *, factors: F32 | None = None, stretch: float = 1.0) -> F64:
    """[n_rot / 2] radians per position: base^(-2 i / n_rot) / (factors[i] * stretch)."""
    freqs = base ** (-np.arange(0, n_rot, 2, dtype=np.float64) / n_rot) / stretch
    return freqs if factors is None else freqs / factors


def yarn(freqs: F64, stretch: float, n_ctx_orig: int, fast: float = 32.0, slow: float = 1.0) -> F64:
    """`freqs` stretched as YaRN does it (Peng et al., arXiv 2309.00071).

    Pairs that turn more than `fast` times within the original context stay as they are, those that turn less
    than `slow` times are divided by `stretch`, and between the two it blends by the pair's number.
    """
    turns = n_ctx_orig * freqs / (2 * math.pi)
    pair = np.arange(len(freqs), dtype=np.float64)
    # where `turns`, a falling exponential of the pair's number, would be `fast` and `slow`
    per_pair = math.log(freqs[0] / freqs[1])
    low = max(math.floor(math.log(turns[0] / fast) / per_pair), 0)
    high = min(math.ceil(math.log(turns[0] / slow) / per_pair), 2 * len(freqs) - 1)
    kept = 1 - np.clip((pair - low) / max(high - low, 0.001), 0, 1)
    return freqs * kept + freqs / stretch * (1 - kept)


def by_section(sections: Sequence[int], n_pair: int) -> I32:
    """Which axis each pair turns by [n_pair] in Qwen2-VL: the first sections[0] pairs by time, those of the
    next section by height, of the next by width (arXiv 2409.12191)."""
    return np.resize(np.repeat(np.arange(len(sections), dtype=np.int32), sections), n_pair)


def interleaved(sections: Sequence[int], n_pair: int) -> I32:
    """Which axis each pair turns by [n_pair] in Qwen3-VL: time, height, width, time, ... as long as the axis
    has pairs of its section left; the rest turn by time (arXiv 2511.21631)."""
    pair = np.arange(n_pair)
    axis, n = pair % 3, np.asarray(sections)
    return np.where(pair < 3 * n[axis], axis, 0).astype(np.int32)


@dataclass(frozen=True)
class RopeTable:
    """Frequencies [n_pair], how pairs lie in a head, and a factor on what is rotated (YaRN's).

    Where positions have several axes (M-RoPE), `axes` [n_pair] says which one a pair turns by.
    """

    freqs: F64
    kind: RopeKind
    magnitude: float = 1.0
    axes: I32 | None = None

    def at(self, pos: I32) -> tuple[F32, F32]:
        """cos and sin [n_tok, n_pair] for positions [n_axis, n_tok]."""
        steps = pos[:1].T if self.axes is None else np.take(pos.T, self.axes, axis=1)  # [n_tok, 1 or n_pair]
        angle = steps * self.freqs  # [n_tok, n_pair]
        cos, sin = np.cos(angle) * self.magnitude, np.sin(angle) * self.magnitude
        return cos.astype(np.float32), sin.astype(np.float32)
