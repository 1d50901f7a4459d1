"""Queries in the lanes of vectors: what the kernels for many queries have in common.

For one key-value head, a lane is a pair (token, head of its group). A kernel takes `n_lane` of them together,
from lane `first` on, and keeps their `state` [4, n_lane]: maximum and sum so far, lo and hi of the rows that
each sees. `work` and `shape` are what `operands` makes of a call's operands.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from llm.kernels import half, simd
from llm.kernels.jit import inline
from llm.kernels.simd import (
    as_f32,
    as_i32,
    at,
    fma,
    load_f32,
    load_i32,
    max_f32,
    peek_f32,
    peek_i32,
    poke_f32,
    poke_i32,
    round_f32,
    shift_left,
    splat_f32,
    store_f32,
    tanh_f32,
    to_i32,
)

NOTHING = np.float32(-1e30)  # a running maximum before the first row
UNSEEN = np.float32(-3e38)  # the score of a row outside a lane's range


@inline
def operands(q, k, v, width, lo, hi, scale, softcap, out):  # type: ignore[no-untyped-def]
    shape = (q.shape[0], q.shape[1], k.shape[0], k.shape[1], q.shape[2], width)
    rows = (at(q, 0), at(k, 0), at(v, 0), at(lo, 0), at(hi, 0))
    return (*rows, np.float32(scale), np.float32(softcap), at(out, 0)), shape


@inline
def _place(shape, h, pair):  # type: ignore[no-untyped-def]
    """Index into [n_tok, n_head] of a pair (token, head of group h), which may lie past the end."""
    group = shape[1] // shape[2]
    return pair // group * shape[1] + h * group + pair % group


@inline
def queries(work, shape, h, first, n_lane, d_pad, rows, lanes, state):  # type: ignore[no-untyped-def]
    """Queries into `lanes` [d_pad, n_lane], by way of `rows` [n_lane, d_pad], and a fresh state.

    Gives from which to which row some lane sees, and from which to which row all do.
    """
    q, lo, hi, scale = work[0], work[3], work[4], work[5]
    n_tok, n_head, n_row, d = shape[0], shape[1], shape[3], shape[4]
    start, stop, all_from, all_to = n_row, 0, 0, n_row
    for lane in range(n_lane):
        i = _place(shape, h, first + lane)
        t = i // n_head
        a, z = 0, 0
        if t < n_tok:
            a, z = peek_i32(lo + 4 * t), peek_i32(hi + 4 * t)
            if a < z:
                start, stop = min(start, a), max(stop, z)
            all_from, all_to = max(all_from, a), min(all_to, z)
        widen(q + 4 * d * i, 4, 1 if t < n_tok else 0, 1, d, d_pad, rows + 4 * d_pad * lane)
        poke_f32(state + 4 * lane, NOTHING)
        poke_f32(state + 4 * (n_lane + lane), 0.0)
        poke_i32(state + 4 * (2 * n_lane + lane), a)
        poke_i32(state + 4 * (3 * n_lane + lane), z)
    _turn(rows, n_lane, d_pad, lanes)
    for i in range(0, d_pad * n_lane, 16):
        store_f32(lanes + 4 * i, load_f32(lanes + 4 * i) * splat_f32(scale))
    return start, stop, all_from, all_to


@inline
def outputs(work, shape, h, first, n_lane, d_pad, lanes, rows, state):  # type: ignore[no-untyped-def]
    """Sums in `lanes` [d_pad, n_lane], divided by the state's, to their places; by way of `rows`."""
    n_tok, n_head, d, out = shape[0], shape[1], shape[4], work[7]
    for j in range(0, n_lane, 16):
        total = max_f32(load_f32(state + 4 * (n_lane + j)), splat_f32(1e-30))
        lo, hi = load_i32(state + 4 * (2 * n_lane + j)), load_i32(state + 4 * (3 * n_lane + j))
        share = _where_less(lo, hi, splat_f32(1.0) / total)
        for i in range(d):
            x = lanes + 4 * (i * n_lane + j)
            store_f32(x, load_f32(x) * share)
    _turn(lanes, d_pad, n_lane, rows)
    for lane in range(n_lane):
        i = _place(shape, h, first + lane)
        if i < n_tok * n_head:
            _copy(rows + 4 * d_pad * lane, d, out + 4 * d * i)


@inline
def _copy(x, n, to):  # type: ignore[no-untyped-def]
    for i in range(0, n // 16 * 16, 16):
        store_f32(to + 4 * i, load_f32(x + 4 * i))
    for i in range(n // 16 * 16, n):
        poke_f32(to + 4 * i, peek_f32(x + 4 * i))


@inline
def _turn(x, n_row, n_column, to):  # type: ignore[no-untyped-def]
    """x [n_row, n_column] -> [n_column, n_row], both multiples of 16."""
    for i in range(0, n_row, 16):
        for j in range(0, n_column, 16):
            source, target = x + 4 * (i * n_column + j), to + 4 * (j * n_row + i)
            transpose(source, 4 * n_column, target, 4 * n_row)


@inline
def widen(rows, width, n, n_pad, d, d_pad, to):  # type: ignore[no-untyped-def]
    """n rows of d numbers as float32 [n_pad, d_pad], with zeros for what is not there."""
    for r in range(n):
        if half.is_packed(width):
            half.unpack(rows + half.size(width, r * d), width, d, to + 4 * r * d_pad)
            for i in range(d, d_pad):
                poke_f32(to + 4 * (r * d_pad + i), 0.0)
            continue
        for i in range(0, d // 16 * 16, 16):
            store_f32(to + 4 * (r * d_pad + i), half.load(rows, width, r * d + i))
        for i in range(d // 16 * 16, d):
            poke_f32(to + 4 * (r * d_pad + i), half.peek(rows, width, r * d + i))
        for i in range(d, d_pad):
            poke_f32(to + 4 * (r * d_pad + i), 0.0)
    for i in range(n * d_pad, n_pad * d_pad):
        poke_f32(to + 4 * i, 0.0)


@inline
def cap(score, n, softcap):  # type: ignore[no-untyped-def]
    """n scores, a multiple of 16."""
    for i in range(0, n, 16):
        x = load_f32(score + 4 * i) * splat_f32(np.float32(1) / softcap)
        store_f32(score + 4 * i, tanh_f32(x) * splat_f32(softcap))


@inline
def hide(score, n, row, n_lane, state):  # type: ignore[no-untyped-def]
    """Scores [n, n_lane] of rows from `row` on that a lane does not see become UNSEEN."""
    for j in range(0, n_lane, 16):
        lo, hi = load_i32(state + 4 * (2 * n_lane + j)), load_i32(state + 4 * (3 * n_lane + j))
        for r in range(n):
            x = score + 4 * (r * n_lane + j)
            store_f32(x, _within(load_f32(x), row + r, lo, hi))


@inline
def exp_below(x, top):  # type: ignore[no-untyped-def]
    """e^(x - top) to 2e-7 where x <= top, and 2^-126 at least: shorter than `exp_f32`, which takes more."""
    y = max_f32((x - top) * splat_f32(1.44269504), splat_f32(-126.0))
    n = round_f32(y)
    f = y - n
    p = fma(splat_f32(0.0013266971), f, splat_f32(0.00967546))
    p = fma(p, f, splat_f32(0.055507425))
    p = fma(p, f, splat_f32(0.24022122))
    p = fma(p, f, splat_f32(0.693147))
    p = fma(p, f, splat_f32(1.0))
    return as_f32(as_i32(p) + shift_left(to_i32(n), 23))


@intrinsic
def _within(ctx: Any, x: Any, row: Any, lo: Any, hi: Any) -> Any:
    """x where lo <= row < hi, else UNSEEN."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, row, lo, hi = args
        r = simd.splat(b, b.trunc(row, simd.i32), 16)
        seen = b.and_(b.icmp_signed("<=", lo, r), b.icmp_signed("<", r, hi))
        return b.select(seen, x, simd.F32.llvm([float(UNSEEN)] * 16))

    return simd.F32(simd.F32, types.intp, simd.I32, simd.I32), code


@intrinsic
def _where_less(ctx: Any, lo: Any, hi: Any, x: Any) -> Any:
    """x where lo < hi, else 0."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        lo, hi, x = args
        return b.select(b.icmp_signed("<", lo, hi), x, ir.Constant(simd.F32.llvm, None))

    return simd.F32(simd.I32, simd.I32, simd.F32), code


@intrinsic
def transpose(ctx: Any, source: Any, step: Any, target: Any, target_step: Any) -> Any:
    """16 rows of 16 numbers of 32 bits, `step` bytes apart -> the columns as rows; may be in place."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        def row(base: ir.Value, step: ir.Value, i: int) -> ir.Value:
            return simd.pointer(b, b.add(base, b.mul(step, simd.i64(i))), simd.I32.llvm)

        source, step, target, target_step = args
        v = [b.load(row(source, step, i), align=4) for i in range(16)]
        for size in (1, 2, 4, 8):  # swap the off-diagonal quarters of each square of 2 size
            kept = simd.I32.llvm([i if not i & size else 16 + i - size for i in range(16)])
            moved = simd.I32.llvm([i + size if not i & size else 16 + i for i in range(16)])
            for i in range(16):
                if not i & size:
                    pair = v[i], v[i + size]
                    v[i], v[i + size] = (b.shuffle_vector(*pair, lanes) for lanes in (kept, moved))
        for i in range(16):
            b.store(v[i], row(target, target_step, i), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), code
