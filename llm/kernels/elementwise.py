"""Arithmetic number by number."""

import numpy as np

from llm.kernels.matmul_ends import ACTS, activate, put
from llm.kernels.operands import F32, Act
from llm.kernels.simd import load_f32_part, peek_f32, splat_f32, tanh_f32
from llm.kernels.tasks import Calls, Task, fields_of, number_of, submit

CHUNK = 4096  # numbers of a task where the rows do not matter


def add(x: F32, y: F32, *, out: F32 | None = None) -> F32:
    assert x.shape == y.shape, (x.shape, y.shape)
    out = np.empty_like(x) if out is None else out
    calls = Calls()
    calls.add(ADD, -(-x.size // CHUNK), x, y, x.size, out)
    submit(calls)
    return out


def mul(x: F32, y: F32, *, out: F32 | None = None) -> F32:
    return activated(None, x, y, out)


def activated(act: Act | None, x: F32, y: F32, out: F32 | None = None) -> F32:
    """act(x) * y, [n_tok, n]; any of them may be a slice of a larger array."""
    assert x.shape == y.shape and x.ndim == 2, (x.shape, y.shape)
    out = np.empty(x.shape, np.float32) if out is None else out
    steps = [a.strides[0] for a in (x, y, out)]
    assert all(a.strides[1] == 4 for a in (x, y, out)), (x.strides, y.strides, out.strides)
    calls = Calls()
    calls.add(MUL, len(x), *map(calls.address, (x, y, out)), *steps, x.shape[1], ACTS[act])
    submit(calls)
    return out


def scale(x: F32, factors: F32, *, out: F32 | None = None) -> F32:
    assert factors.shape == x.shape[:1], (x.shape, factors.shape)
    out = np.empty_like(x) if out is None else out
    calls = Calls()
    calls.add(SCALE, len(x), x, factors, x.size // max(len(x), 1), out)
    submit(calls)
    return out


def softcap(x: F32, cap: float) -> F32:
    out, calls = np.empty_like(x), Calls()
    calls.add(SOFTCAP, -(-x.size // CHUNK), x, x.size, float(cap), out)
    submit(calls)
    return out


@Task
def ADD(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    x, y, n, out = fields_of(fields, 4)
    for k in range(i * CHUNK, min((i + 1) * CHUNK, n), 16):
        put(load_f32_part(x + 4 * k, min(16, n - k)), min(16, n - k), y + 4 * k, out + 4 * k)


@Task
def MUL(t, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    x, y, out, x_step, y_step, out_step, n, act = fields_of(fields, 8)
    x, y, out = x + t * x_step, y + t * y_step, out + t * out_step
    for k in range(0, n, 16):
        m = min(16, n - k)
        put(activate(act, load_f32_part(x + 4 * k, m)) * load_f32_part(y + 4 * k, m), m, 0, out + 4 * k)


@Task
def SCALE(t, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    x, factors, n, out = fields_of(fields, 4)
    factor = splat_f32(peek_f32(factors + 4 * t))
    for k in range(0, n, 16):
        at, m = 4 * (t * n + k), min(16, n - k)
        put(load_f32_part(x + at, m) * factor, m, 0, out + at)


@Task
def SOFTCAP(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    x, n, cap, out = fields_of(fields, 4)
    top, inverse = splat_f32(number_of(cap)), splat_f32(np.float32(1) / number_of(cap))
    for k in range(i * CHUNK, min((i + 1) * CHUNK, n), 16):
        m = min(16, n - k)
        put(tanh_f32(load_f32_part(x + 4 * k, m) * inverse) * top, m, 0, out + 4 * k)
