"""RMS and layer norm of rows."""

import numpy as np

from llm.kernels.matmul_ends import normed, put, spread_of
from llm.kernels.operands import F32, Norm
from llm.kernels.tasks import Calls, Task, fields_of, number_of, submit


def norm(x: F32, n: Norm, *, residual: F32 | None = None, out: F32 | None = None) -> F32:
    out = np.empty_like(x) if out is None else out
    width, calls = x.shape[-1], Calls()
    calls.add(NORM, x.size // width, x, width, n.weight, n.bias, n.eps, n.center, residual, out)
    submit(calls)
    return out


@Task
def NORM(t, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    x, n, weight, bias, eps, center, residual, out = fields_of(fields, 8)
    x, out, residual = x + 4 * t * n, out + 4 * t * n, residual + 4 * t * n if residual else 0
    mean, scale = spread_of(x, n, number_of(eps), center)
    for k in range(0, n, 16):
        v = normed(x, k, n, weight, bias, mean, scale)
        put(v, min(16, n - k), residual + 4 * k if residual else 0, out + 4 * k)
