"""Attention of many queries: they lie in the lanes of vectors, so that softmax needs no sums across lanes.

LANES queries go through the rows that any of them sees in blocks of ROWS: scores S = K Q^T [ROWS, LANES], a
running maximum and sum for each lane (Milakov and Gimelshein 2018), and O = V^T P [d_head, LANES]. Products
are made of tiles [TILE, LANES] in registers, in float32.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from llm.kernels import half, simd
from llm.kernels.attention_lanes import cap, exp_below, hide, operands, outputs, queries, widen
from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.simd import fetch_add, load_f32, max_f32, poke_i64, store_f32, zeros_f32

WIDE = "avx512f" in simd.FEATURES  # 32 registers of 16 lanes; else 16 of 8, or 32 of 4
TILE = 8 if WIDE else 4
VECTORS = 3 if WIDE else 1
LANES = 16 * VECTORS
ROWS = 64


def work_bytes(d: int, n_thread: int) -> int:
    """What `blocks` works in: a counter, then each thread's."""
    return 128 + n_thread * 4 * _thread_size.py_func(d)


@parallel_kernel
def blocks(q, k, v, width, lo, hi, scale, softcap, out, memory, n_thread):  # type: ignore[no-untyped-def]
    """`Kernels.attention`; key and value rows come as `KvRows.bits`, `memory` as an address."""
    work, shape = operands(q, k, v, width, lo, hi, scale, softcap, out)
    n_tok, n_head, n_head_kv, d = shape[0], shape[1], shape[2], shape[4]
    n_item = (n_tok * (n_head // n_head_kv) + LANES - 1) // LANES * n_head_kv
    poke_i64(memory, 0)
    for thread in prange(n_thread):
        mine = memory + 128 + 4 * _thread_size(d) * thread
        item = fetch_add(memory, 1)
        while item < n_item:
            _block(work, shape, n_item - 1 - item, mine)  # the last first: under a causal mask they see most
            item = fetch_add(memory, 1)


@inline
def _thread_size(d):  # type: ignore[no-untyped-def]
    """float32 of one thread: queries and outputs, keys and values, scores, and four numbers for each lane."""
    d_pad = (d + 15) // 16 * 16
    return 2 * d_pad * LANES + 2 * ROWS * d_pad + ROWS * LANES + 4 * LANES


@inline
def _block(work, shape, item, scratch):  # type: ignore[no-untyped-def]
    """LANES queries of one key-value head through all rows that any of them sees."""
    k, v = work[1], work[2]
    n_head_kv, n_row, d, width = shape[2:]
    d_pad = (d + 15) // 16 * 16
    q_lanes = scratch  # [d_pad, LANES]
    out_lanes = q_lanes + 4 * d_pad * LANES
    keys = out_lanes + 4 * d_pad * LANES  # [ROWS, d_pad]
    values = keys + 4 * ROWS * d_pad
    score = values + 4 * ROWS * d_pad  # [ROWS, LANES]
    state = score + 4 * ROWS * LANES  # [4, LANES]: maximum, sum, lo, hi
    h, first = item % n_head_kv, item // n_head_kv * LANES
    start, stop, all_from, all_to = queries(work, shape, h, first, LANES, d_pad, out_lanes, q_lanes, state)
    for i in range(0, d_pad * LANES, 16):
        store_f32(out_lanes + 4 * i, zeros_f32())
    for row in range(start, stop, ROWS):
        n = min(ROWS, stop - row)
        n_pad = (n + TILE - 1) // TILE * TILE
        widen(k + half.size(width, d * (h * n_row + row)), width, n, n_pad, d, d_pad, keys)
        widen(v + half.size(width, d * (h * n_row + row)), width, n, n_pad, d, d_pad, values)
        for i in range(0, n_pad, TILE):
            _multiply(score + 4 * i * LANES, keys + 4 * i * d_pad, 4 * d_pad, 4, q_lanes, d)
        if work[6] > 0:
            cap(score, n * LANES, work[6])
        if row < all_from or row + n > all_to:
            hide(score, n, row, LANES, state)
        _softmax(score, n, state, out_lanes, d)
        for i in range(0, d_pad, TILE):
            _multiply_add(out_lanes + 4 * i * LANES, values + 4 * i, 4, 4 * d_pad, score, n)
    outputs(work, shape, h, first, LANES, d_pad, out_lanes, q_lanes, state)


@inline
def _softmax(score, n, state, out_lanes, d):  # type: ignore[no-untyped-def]
    """Scores [n, LANES] become exp(score - maximum); sums and outputs so far fade to the new maximum."""
    for j in range(0, LANES, 16):
        top, total = state + 4 * j, state + 4 * (LANES + j)
        old = new = load_f32(top)
        for r in range(n):
            new = max_f32(new, load_f32(score + 4 * (r * LANES + j)))
        fade = exp_below(old, new)
        sums = load_f32(total) * fade
        for r in range(n):
            p = exp_below(load_f32(score + 4 * (r * LANES + j)), new)
            sums = sums + p
            store_f32(score + 4 * (r * LANES + j), p)
        store_f32(top, new)
        store_f32(total, sums)
        for i in range(d):
            o = out_lanes + 4 * (i * LANES + j)
            store_f32(o, load_f32(o) * fade)


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
