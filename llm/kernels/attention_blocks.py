"""Attention of many queries: they lie in the lanes of vectors, so that softmax needs no sums across lanes.

For one key-value head, a lane is a pair (token, head of its group). LANES of them go through the rows that
any of them sees in blocks of ROWS: scores S = K Q^T [ROWS, LANES], a running maximum and sum for each lane
(Milakov and Gimelshein 2018), and O = V^T P [d_head, LANES]. Products are tiles [TILE, LANES] in registers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from llm.kernels import half, simd
from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.simd import (
    at,
    exp_f32,
    fetch_add,
    load_f32,
    load_i32,
    max_f32,
    peek_f32,
    peek_i32,
    poke_f32,
    poke_i32,
    poke_i64,
    splat_f32,
    store_f32,
    tanh_f32,
    zeros_f32,
)

WIDE = "avx512f" in simd.FEATURES  # 32 registers of 16 lanes; else 16 of 8, or 32 of 4
TILE = 8 if WIDE else 6
VECTORS = 3 if WIDE else 1
LANES = 16 * VECTORS
ROWS = 64 if WIDE else 60
NOTHING = np.float32(-1e30)  # a running maximum before the first row
UNSEEN = np.float32(-3e38)  # the score of a row outside a lane's range


def scratch_size(n_tok: int, n_head: int, n_head_kv: int, d: int, n_thread: int) -> int:
    """float32 numbers that `blocks` works in."""
    return 16 + n_thread * _thread_size.py_func(d)


@parallel_kernel
def blocks(q, k, v, width, lo, hi, scale, softcap, out, scratch, n_thread):  # type: ignore[no-untyped-def]
    """`Kernels.attention`; key and value rows come as `half.bits`."""
    n_tok, n_head, d = q.shape
    n_head_kv, n_row = k.shape[0], k.shape[1]
    shape = (n_tok, n_head, n_head_kv, n_row, d, width)
    work = (
        at(q, 0),
        at(k, 0),
        at(v, 0),
        at(lo, 0),
        at(hi, 0),
        np.float32(scale),
        np.float32(softcap),
        at(out, 0),
    )
    n_item = (n_tok * (n_head // n_head_kv) + LANES - 1) // LANES * n_head_kv
    taken = at(scratch, 0)
    poke_i64(taken, 0)
    for thread in prange(n_thread):
        mine = taken + 64 + 4 * _thread_size(d) * thread
        item = fetch_add(taken, 1)
        while item < n_item:
            _block(work, shape, n_item - 1 - item, mine)  # the last first: under a causal mask they see most
            item = fetch_add(taken, 1)


@inline
def _thread_size(d):  # type: ignore[no-untyped-def]
    """float32 of one thread: queries and outputs, keys and values, scores, and four numbers for each lane."""
    d_pad = (d + TILE - 1) // TILE * TILE
    return 2 * d_pad * LANES + 2 * ROWS * d_pad + ROWS * LANES + 4 * LANES


@inline
def _block(work, shape, item, scratch):  # type: ignore[no-untyped-def]
    """LANES queries of one key-value head through all rows that any of them sees."""
    k, v = work[1], work[2]
    n_head_kv, n_row, d, width = shape[2:]
    d_pad = (d + TILE - 1) // TILE * TILE
    q_lanes = scratch  # [d_pad, LANES]
    out_lanes = q_lanes + 4 * d_pad * LANES
    keys = out_lanes + 4 * d_pad * LANES  # [ROWS, d_pad]
    values = keys + 4 * ROWS * d_pad
    score = values + 4 * ROWS * d_pad  # [ROWS, LANES]
    state = score + 4 * ROWS * LANES  # [4, LANES]: maximum, sum, lo, hi
    h, first = item % n_head_kv, item // n_head_kv * LANES
    for i in range(0, d_pad * LANES, 16):
        store_f32(q_lanes + 4 * i, zeros_f32())
        store_f32(out_lanes + 4 * i, zeros_f32())
    start, stop, all_from, all_to = _queries(work, shape, h, first, q_lanes, state)
    for row in range(start, stop, ROWS):
        n = min(ROWS, stop - row)
        n_pad = (n + TILE - 1) // TILE * TILE
        _widen(k + width * d * (h * n_row + row), width, n, n_pad, d, keys)
        _widen(v + width * d * (h * n_row + row), width, n, n_pad, d, values)
        for i in range(0, n_pad, TILE):
            _multiply(score + 4 * i * LANES, keys + 4 * i * d_pad, 4 * d_pad, 4, q_lanes, d)
        if work[6] > 0:
            _cap(score, n, work[6])
        if row < all_from or row + n > all_to:
            _hide(score, n, row, state)
        _softmax(score, n, state, out_lanes, d)
        for i in range(0, d_pad, TILE):
            _multiply_add(out_lanes + 4 * i * LANES, values + 4 * i, 4, 4 * d_pad, score, n)
    _outputs(work, shape, h, first, out_lanes, state)


@inline
def _place(shape, h, pair):  # type: ignore[no-untyped-def]
    """Index into [n_tok, n_head] of a pair (token, head of group h), which may lie past the end."""
    group = shape[1] // shape[2]
    return pair // group * shape[1] + h * group + pair % group


@inline
def _queries(work, shape, h, first, q_lanes, state):  # type: ignore[no-untyped-def]
    """Queries into lanes; from which to which row some lane sees, and from which to which row all do."""
    q, lo, hi, scale = work[0], work[3], work[4], work[5]
    n_tok, n_head, n_row, d = shape[0], shape[1], shape[3], shape[4]
    start, stop, all_from, all_to = n_row, 0, 0, n_row
    for lane in range(LANES):
        place = _place(shape, h, first + lane)
        t = place // n_head
        a, z = 0, 0
        if t < n_tok:
            a, z = peek_i32(lo + 4 * t), peek_i32(hi + 4 * t)
            if a < z:
                start, stop = min(start, a), max(stop, z)
            all_from, all_to = max(all_from, a), min(all_to, z)
            for i in range(d):
                poke_f32(q_lanes + 4 * (i * LANES + lane), peek_f32(q + 4 * (place * d + i)) * scale)
        poke_f32(state + 4 * lane, NOTHING)
        poke_f32(state + 4 * (LANES + lane), 0.0)
        poke_i32(state + 4 * (2 * LANES + lane), a)
        poke_i32(state + 4 * (3 * LANES + lane), z)
    return start, stop, all_from, all_to


@inline
def _widen(rows, width, n, n_pad, d, to):  # type: ignore[no-untyped-def]
    """n rows of d numbers as float32 [n_pad, d_pad], with zeros for what is not there."""
    d_pad = (d + TILE - 1) // TILE * TILE
    for r in range(n):
        for i in range(0, d // 16 * 16, 16):
            store_f32(to + 4 * (r * d_pad + i), half.load(rows, width, r * d + i))
        for i in range(d // 16 * 16, d):
            poke_f32(to + 4 * (r * d_pad + i), half.peek(rows, width, r * d + i))
        for i in range(d, d_pad):
            poke_f32(to + 4 * (r * d_pad + i), 0.0)
    for i in range(n * d_pad, n_pad * d_pad):
        poke_f32(to + 4 * i, 0.0)


@inline
def _cap(score, n, softcap):  # type: ignore[no-untyped-def]
    for i in range(0, n * LANES, 16):
        x = load_f32(score + 4 * i) * splat_f32(np.float32(1) / softcap)
        store_f32(score + 4 * i, tanh_f32(x) * splat_f32(softcap))


@inline
def _hide(score, n, row, state):  # type: ignore[no-untyped-def]
    """Scores of rows row .. row + n that a lane does not see become UNSEEN."""
    for j in range(0, LANES, 16):
        lo, hi = load_i32(state + 4 * (2 * LANES + j)), load_i32(state + 4 * (3 * LANES + j))
        for r in range(n):
            x = score + 4 * (r * LANES + j)
            store_f32(x, _within(load_f32(x), row + r, lo, hi))


@inline
def _softmax(score, n, state, out_lanes, d):  # type: ignore[no-untyped-def]
    """Scores [n, LANES] become exp(score - maximum); sums and outputs so far fade to the new maximum."""
    for j in range(0, LANES, 16):
        top, total = state + 4 * j, state + 4 * (LANES + j)
        old = new = load_f32(top)
        for r in range(n):
            new = max_f32(new, load_f32(score + 4 * (r * LANES + j)))
        fade = exp_f32(old - new)
        sums = load_f32(total) * fade
        for r in range(n):
            p = exp_f32(load_f32(score + 4 * (r * LANES + j)) - new)
            sums = sums + p
            store_f32(score + 4 * (r * LANES + j), p)
        store_f32(top, new)
        store_f32(total, sums)
        for i in range(d):
            o = out_lanes + 4 * (i * LANES + j)
            store_f32(o, load_f32(o) * fade)


@inline
def _outputs(work, shape, h, first, out_lanes, state):  # type: ignore[no-untyped-def]
    n_tok, n_head, d, out = shape[0], shape[1], shape[4], work[7]
    for lane in range(LANES):
        place = _place(shape, h, first + lane)
        t = place // n_head
        if t < n_tok:
            seen = peek_i32(state + 4 * (2 * LANES + lane)) < peek_i32(state + 4 * (3 * LANES + lane))
            share = np.float32(1) / peek_f32(state + 4 * (LANES + lane)) if seen else np.float32(0)
            for i in range(d):
                x = peek_f32(out_lanes + 4 * (i * LANES + lane))
                poke_f32(out + 4 * (place * d + i), x * share)


@intrinsic
def _within(ctx: Any, x: Any, row: Any, lo: Any, hi: Any) -> Any:
    """x where lo <= row < hi, else UNSEEN."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, row, lo, hi = args
        r = simd.splat(b, b.trunc(row, simd.i32), 16)
        seen = b.and_(b.icmp_signed("<=", lo, r), b.icmp_signed("<", r, hi))
        return b.select(seen, x, simd.F32.llvm([float(UNSEEN)] * 16))

    return simd.F32(simd.F32, types.intp, simd.I32, simd.I32), code


def _product(start: Callable[[ir.IRBuilder, ir.Value], ir.Value]) -> Any:
    @intrinsic
    def product(ctx: Any, c: Any, a: Any, a_row: Any, a_step: Any, w: Any, n: Any) -> Any:
        """c [TILE, LANES] = start + sum of a[i, k] w[k, lane] over k < n; a_row and a_step are bytes."""

        def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            c, a, a_row, a_step, w, n = args
            i64, f32, vec = simd.i64, simd.f32, simd.F32.llvm
            place = [
                [simd.pointer(b, b.add(c, i64(64 * (i * VECTORS + v))), vec) for v in range(VECTORS)]
                for i in range(TILE)
            ]
            acc = [[cgutils.alloca_once_value(b, start(b, p)) for p in row] for row in place]
            with cgutils.for_range(b, n) as loop:
                wk = b.add(w, b.mul(loop.index, i64(64 * VECTORS)))
                ak = b.add(a, b.mul(loop.index, a_step))
                ws = [b.load(simd.pointer(b, b.add(wk, i64(64 * v)), vec), align=4) for v in range(VECTORS)]
                for i in range(TILE):
                    x = b.load(simd.pointer(b, b.add(ak, b.mul(a_row, i64(i))), f32), align=4)
                    xs = simd.splat(b, x, 16)
                    for v in range(VECTORS):
                        y = simd.call(b, "llvm.fma.v16f32", vec, [ws[v], xs, b.load(acc[i][v])])
                        b.store(y, acc[i][v])
            for i in range(TILE):
                for v in range(VECTORS):
                    b.store(b.load(acc[i][v]), place[i][v], align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), code

    return product


_multiply = _product(lambda b, c: ir.Constant(simd.F32.llvm, None))
_multiply_add = _product(lambda b, c: b.load(c, align=4))
