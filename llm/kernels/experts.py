"""A mixture of experts: the rows of each expert go through its matrices together."""

from collections.abc import Sequence

import numpy as np

from llm.kernels.matmul import gated, linear
from llm.kernels.norm import norm as norm_rows
from llm.kernels.operands import F32, Act, Linear, Norm, Router
from llm.kernels.reference import result, route, scale


def experts(
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
    y = norm_rows(x, norm) if norm else x
    logits = linear(x, router.w, norm=router.norm) if router.norm else linear(y, router.w)
    chosen, weights = route(logits, router)
    total = np.zeros_like(x)
    for e in np.unique(chosen):
        tok, place = np.nonzero(chosen == e)
        h = linear(gated(y[tok], gate_up[e], act), down[e])  # [n, n_embd]
        total[tok] += scale(h, weights[tok, place], out=h)
    return result(total, residual, out)
