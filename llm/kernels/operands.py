"""What kernels take besides plain arrays: norms, rope tables and mask ranges. Plain data, no arithmetic."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
# Of products: exact is all float32; auto is what weights of the file's types deserve; fast has many rows in
# 8 bits where the weights have no more.
Precision = Literal["fast", "auto", "exact"]
Act = Literal["silu", "gelu", "gelu_erf", "gelu_quick", "relu"]  # "gelu" is the tanh form
Score = Literal["softmax", "sigmoid"]
RopeKind = Literal["norm", "neox"]  # norm rotates pairs (2i, 2i+1); neox rotates (i, i + n_rot/2)


@dataclass(frozen=True)
class Norm:
    """RMS norm, or layer norm when `center` is set: weight [n], bias [n] or None."""

    weight: F32
    eps: float
    bias: F32 | None = None
    center: bool = False


@dataclass(frozen=True)
class Rope:
    """Rotation of the first 2 n_pair dimensions of each head: cos and sin [n_tok, n_pair]."""

    cos: F32
    sin: F32
    kind: RopeKind


@dataclass(frozen=True)
class Visible:
    """Which cache rows each query row sees: rows lo[i] <= r < hi[i] (int32 [n_tok] each).

    Causal, sliding-window, non-causal block and raster-causal masks all have this form, because the rows of a
    sequence lie in the cache in the order in which they were decoded.
    """

    lo: I32
    hi: I32


class Linear:
    """A weight matrix in the form its kernels module likes best; `n_in` numbers in, `n_out` out."""

    n_in: int
    n_out: int


@dataclass(frozen=True)
class Router:
    """Which experts a row goes to: the `n_used` that have most of score(W y) + bias, W [n_expert, n_embd].

    What they give counts by their scores, without bias, summing to 1 if `normed`, times `scale` [n_expert].
    y is what the experts read, or `norm` of the row.
    """

    w: Linear
    n_used: int
    scale: F32
    score: Score = "softmax"
    bias: F32 | None = None
    normed: bool = True
    norm: Norm | None = None


class Embedding:
    """A table of `n_vocab` rows of `n_embd`, read row by row."""

    n_vocab: int
    n_embd: int


@dataclass(frozen=True)
class KvRows:
    """Keys and values of one layer: two arrays [n_head_kv, n_rows, d_head], float16 or float32.

    Or uint16 with the bits of bfloat16, or uint8 [n_head_kv, n_rows, d_head / 32 34] with blocks of q8_0: 32
    int8 after a float16 that scales them.
    """

    k: NDArray[Any]
    v: NDArray[Any]

    @cached_property
    def bits(self) -> tuple[NDArray[np.int16], NDArray[np.int16], int]:
        """k and v as int16, and their kind as `half` numbers it: numba knows no float16 on a CPU."""
        width = {"float16": 2, "float32": 4, "uint16": 3, "uint8": 1}[self.k.dtype.name]
        return self.k.view(np.int16), self.v.view(np.int16), width
