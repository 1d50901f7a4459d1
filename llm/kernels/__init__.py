"""The kernels: every array operation of models and encoders, listed here with its shapes.

`Kernels` is the table of contents. Two modules satisfy it: `reference` (plain numpy: the specification and
the oracle) and `fast` (numba). A model gets one of them as its argument `k` and calls nothing else on
activations, so that another module can stand underneath. Activations are float32 and C-contiguous; results
are new arrays unless `out` is given (`out` may be the residual).
"""

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from llm.errors import UsageError
from llm.gguf import Tensor
from llm.kernels.operands import (
    F32,
    I32,
    Act,
    Embedding,
    KvRows,
    Linear,
    Norm,
    Precision,
    Rope,
    Router,
    Visible,
)


class Kernels(Protocol):
    """What a kernels module offers. W is a weight matrix [n_out, n_in], b its bias."""

    def set_threads(self, n: int) -> None:
        """Use `n` threads from now on (0: as many as there are physical cores)."""

    def load_linear(
        self, tensors: Sequence[Tensor], bias: F32 | None = None, precision: Precision = "auto"
    ) -> Linear:
        """The rows of all `tensors` (each [n_out_i, ...], flattened to n_in) as one; bias [n_out]."""

    def load_embedding(self, tensor: Tensor) -> Embedding:
        """The table [n_vocab, n_embd]; its rows stay in the file's format until they are read."""

    def embed(self, table: Embedding, ids: I32, scale: float = 1.0) -> F32:
        """Rows of `ids` [n_tok], times `scale` -> [n_tok, n_embd]."""

    def linear(
        self,
        x: F32,
        w: Linear,
        *,
        norm: Norm | None = None,
        act: Act | None = None,
        residual: F32 | None = None,
        out: F32 | None = None,
    ) -> F32:
        """act(norm(x) W^T + b) + residual; x [n_tok, n_in] -> [n_tok, n_out]."""

    def gated(self, x: F32, w: Linear, act: Act, *, norm: Norm | None = None) -> F32:
        """act(gate) * up, gate | up = norm(x) W^T + b; W [2 n_ff, n_in]; x [n_tok, n_in] -> [n_tok, n_ff]."""

    def experts(
        self,
        x: F32,
        router: Router,
        gate_up: Sequence[Linear],
        down: Sequence[Linear],
        act: Act,
        *,
        norm: Norm | None = None,
        residual: F32 | None = None,
        out: F32 | None = None,
    ) -> F32:
        """Sum of weight_e down_e(act(gate_e) * up_e) over the experts e of each row, + residual.

        gate_e | up_e = norm(x) W_e^T with W_e [2 n_ff, n_embd], down_e [n_embd, n_ff]; x [n_tok, n_embd].
        """

    def norm(self, x: F32, n: Norm, *, residual: F32 | None = None, out: F32 | None = None) -> F32:
        """norm(x) + residual over the last axis; x [n_tok, n_embd] -> the same shape."""

    def add(self, x: F32, y: F32, *, out: F32 | None = None) -> F32:
        """x + y, shapes alike."""

    def mul(self, x: F32, y: F32, *, out: F32 | None = None) -> F32:
        """x * y, shapes alike; either may be a slice of a larger array."""

    def scale(self, x: F32, factors: F32, *, out: F32 | None = None) -> F32:
        """Each row times a factor of its own: x [n_tok, ...], factors [n_tok]."""

    def softcap(self, x: F32, cap: float) -> F32:
        """cap * tanh(x / cap), shape kept."""

    def qkv_to_rows(
        self,
        qkv: F32,
        n_head: int,
        kv: KvRows,
        at: I32,
        *,
        rope: Rope | None = None,
        q_norm: Norm | None = None,
        k_norm: Norm | None = None,
    ) -> F32:
        """Split q | k | v, norm q and k per head, rotate them, write k and v of token t to row at[t] of `kv`.

        qkv [n_tok, (n_head + 2 n_head_kv) d_head] -> q [n_tok, n_head, d_head]; at [n_tok].
        """

    def short_conv(self, bcx: F32, w: F32, kv: KvRows, at: I32, first: I32) -> F32:
        """c * conv(b * x), b | c | x = bcx [n_tok, 3 n_embd] -> [n_tok, n_embd]; w [n_embd, n], oldest first.

        The convolution is causal, each column by itself; b * x of token t goes to row at[t] of kv.k[0], and
        what is before row first[t] is not seen.
        """

    def attention(self, q: F32, kv: KvRows, visible: Visible, scale: float, *, softcap: float = 0.0) -> F32:
        """softmax(scale q k^T) v over the visible rows; head h reads kv head h // (n_head / n_head_kv).

        q [n_tok, n_head, d_head] -> [n_tok, n_head d_head]. A query that sees no row gives zeros.
        """

    def record(self, run: Callable[[], F32]) -> Callable[[], F32]:
        """What does again what `run` does, with the numbers that its arrays hold then, at less cost.

        `run` is called once or more. It must do the same each time: kernels, on the same arrays.
        """

    def patches(self, pixels: F32, size: int) -> F32:
        """Squares of `size`, row by row: pixels [n_channel, h, w] -> [h/size w/size, n_channel size size]."""

    def conv1d(self, x: F32, w: Linear, kernel: int, stride: int, pad: int, *, act: Act | None = None) -> F32:
        """Convolution along rows, zero-padded: x [n_row, c_in], W [c_out, c_in kernel] -> [n_row', c_out]."""

    def conv2d(self, x: F32, w: Linear, kernel: int, stride: int, pad: int, *, act: Act | None = None) -> F32:
        """Square convolution, zero-padded: x [h, w, c_in], W [c_out, c_in k k] -> [h', w', c_out]."""

    def pixel_shuffle(self, x: F32, grid: tuple[int, int], n: int) -> F32:
        """Join n x n neighbours, (dy, dx, channel) order: x [ny nx, c] -> [ny/n nx/n, n n c]."""


def load(name: str | None = None) -> Kernels:
    """The kernels module `name`: "fast", "reference", or what MTMD_KERNELS says (default fast)."""
    name = name or os.environ.get("MTMD_KERNELS", "fast")
    if name == "fast":
        from llm.kernels import fast

        return fast
    if name == "reference":
        from llm.kernels import reference

        return reference
    raise UsageError(f"unknown kernels {name!r}: MTMD_KERNELS takes 'fast' or 'reference'")
