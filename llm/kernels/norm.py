"""RMS and layer norm of rows."""

import numpy as np

from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.operands import F32, Norm

NO_ROW = np.zeros(0, np.float32)  # stands for an operand that is not there: kernels take arrays, not None
NO_ROWS = np.zeros((0, 0), np.float32)
ALONE = 4096  # numbers that one thread gets through in the time that a second one needs to start


def norm(x: F32, n: Norm, *, residual: F32 | None = None, out: F32 | None = None) -> F32:
    out = np.empty_like(x) if out is None else out
    rows = (-1, x.shape[-1])
    _norm_rows(
        x.reshape(rows),
        n.weight,
        NO_ROW if n.bias is None else n.bias,
        n.eps,
        n.center,
        NO_ROWS if residual is None else residual.reshape(rows),
        out.reshape(rows),
    )
    return out


@parallel_kernel
def _norm_rows(x, weight, bias, eps, center, residual, out):  # type: ignore[no-untyped-def]
    if x.size <= ALONE:
        for i in range(x.shape[0]):
            _norm_row(x, weight, bias, eps, center, residual, out, i)
    else:
        for i in prange(x.shape[0]):
            _norm_row(x, weight, bias, eps, center, residual, out, i)


@inline
def _norm_row(x, weight, bias, eps, center, residual, out, i):  # type: ignore[no-untyped-def]
    n = x.shape[1]
    mean = np.float32(0)
    if center:
        for j in range(n):
            mean += x[i, j]
        mean /= np.float32(n)
    square = np.float32(0)
    for j in range(n):
        square += (x[i, j] - mean) ** 2
    scale = np.float32(1) / np.sqrt(square / np.float32(n) + np.float32(eps))
    for j in range(n):
        y = (x[i, j] - mean) * scale * weight[j]
        if bias.size:
            y += bias[j]
        if residual.size:
            y += residual[i, j]
        out[i, j] = y
