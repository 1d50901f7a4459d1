"""Gated causal convolutions whose state is rows of the cache."""

import numpy as np

from llm.kernels import half
from llm.kernels.operands import F32, I32, KvRows
from llm.kernels.simd import peek_f32, peek_i32, poke_f32
from llm.kernels.tasks import Calls, Task, fields_of, submit

COLUMNS = 64  # of a task


def short_conv(bcx: F32, w: F32, kv: KvRows, at: I32, first: I32) -> F32:
    n_tok, n = len(bcx), len(w)
    assert bcx.shape[1] == 3 * n and kv.k.shape[2] == n, (bcx.shape, w.shape, kv.k.shape)
    assert at.dtype == first.dtype == np.int32 and at.shape == first.shape == (n_tok,)
    out, (rows, _, width), calls = np.empty((n_tok, n), np.float32), kv.bits, Calls()
    calls.add(CONVOLVE, -(-n // COLUMNS), bcx, n_tok, n, w, w.shape[1], rows, width, at, first, out)
    submit(calls)
    return out


@Task
def CONVOLVE(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    bcx, n_tok, n, w, n_tap, rows, width, at, first, out = fields_of(fields, 10)
    for t in range(n_tok):
        row, oldest = peek_i32(at + 4 * t), peek_i32(first + 4 * t)
        for j in range(i * COLUMNS, min((i + 1) * COLUMNS, n)):
            b = peek_f32(bcx + 4 * (3 * n * t + j))
            c = peek_f32(bcx + 4 * (3 * n * t + n + j))
            x = peek_f32(bcx + 4 * (3 * n * t + 2 * n + j))
            half.poke(rows, width, row * n + j, b * x)
            y = np.float32(0)
            for tap in range(n_tap):
                seen = row - (n_tap - 1) + tap
                if seen >= oldest:
                    y += half.peek(rows, width, seen * n + j) * peek_f32(w + 4 * (j * n_tap + tap))
            poke_f32(out + 4 * (n * t + j), c * y)
