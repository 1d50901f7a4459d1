"""Attention of few queries (a token being decoded): the time goes into reading keys and values, once.

The rows that a query sees are cut into parts, which threads take as they come free. Up to HEADS heads of one
group go through a part together, SPAN rows at a time: each row is read and widened once for all of them.
Scores lie as [row, head]: one vector holds HEADS heads of four rows. In the end the parts of a head are
joined by their maxima and sums.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from llm.kernels import half, simd
from llm.kernels.jit import inline, numba
from llm.kernels.operands import F32, KvRows, Visible
from llm.kernels.simd import (
    exp_f32,
    fma,
    load_f32,
    load_f32_part,
    max_f32,
    peek_f32,
    peek_i32,
    poke_f32,
    splat_f32,
    store_f32,
    store_f32_part,
    tanh_f32,
    zeros_f32,
)
from llm.kernels.tasks import Calls, Task, fields_of, number_of

HEADS = 4
SPAN = 64
PARTS = 8  # for each query and group, where they are many rows
ALONE = 1 << 14  # numbers of keys that are worth a part
NOTHING = np.float32(-1e30)  # a running maximum before the first row
UNSEEN = np.float32(-3e38)  # the score of a row that is not there


def attended(
    calls: Calls, q: F32, kv: KvRows, visible: Visible, scale: float, softcap: float, out: F32
) -> None:
    """Add `Kernels.attention` of few queries, [n_tok, n_head, d]."""
    n_tok, n_head, d = q.shape
    n_head_kv, n_row = kv.k.shape[:2]
    k, v, width = kv.bits
    n_item = n_tok * n_head_kv * -(-n_head // n_head_kv // HEADS)
    shape = (n_tok, n_head, n_head_kv, n_row, d, width)
    parts = np.empty(n_item * PARTS * _part_size.py_func(d), np.float32)
    scratch = np.empty(numba.config.NUMBA_NUM_THREADS * _thread_size.py_func(d), np.float32)
    assert visible.lo.dtype == visible.hi.dtype == np.int32, (visible.lo.dtype, visible.hi.dtype)
    rows = (visible.lo, visible.hi)
    calls.add(PART, n_item * PARTS, *shape, q, k, v, *rows, float(scale), float(softcap), parts, scratch)
    calls.add(JOIN, n_tok * n_head_kv, *shape, *rows, parts, out)


@Task
def PART(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    n_tok, n_head, n_head_kv, n_row, d, width, q, k, v, lo, hi, scale, softcap, parts, scratch = fields_of(
        fields, 15
    )
    n_part = _n_part(n_tok, n_head_kv, d, lo, hi)
    if i < n_tok * n_head_kv * ((n_head // n_head_kv + HEADS - 1) // HEADS) * n_part:
        shape = (n_tok, n_head, n_head_kv, n_row, d, width)
        work = (q, k, v, lo, hi, number_of(scale), number_of(softcap))
        _part(work, shape, n_part, i, parts, scratch + 4 * _thread_size(d) * thread)


@Task
def JOIN(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    n_tok, n_head, n_head_kv, n_row, d, width, lo, hi, parts, out = fields_of(fields, 10)
    shape = (n_tok, n_head, n_head_kv, n_row, d, width)
    n_part, group = _n_part(n_tok, n_head_kv, d, lo, hi), n_head // n_head_kv
    t = i // n_head_kv
    for h in range(i % n_head_kv * group, (i % n_head_kv + 1) * group):
        _join(shape, n_part, t, h, parts, out + 4 * (t * n_head + h) * d)


@inline
def _n_part(n_tok, n_head_kv, d, lo, hi):  # type: ignore[no-untyped-def]
    """How many parts the rows of a query are cut into: fewer where threads have queries enough to share."""
    n_seen = 0
    for t in range(n_tok):
        n_seen += max(peek_i32(hi + 4 * t) - peek_i32(lo + 4 * t), 0)
    return max(1, min(PARTS, 2 * PARTS // n_tok, n_seen // n_tok * n_head_kv * d // ALONE))


@inline
def _part_size(d):  # type: ignore[no-untyped-def]
    """float32 of one part: outputs [HEADS, d rounded up], then a vector of maxima and one of sums."""
    return HEADS * ((d + 15) // 16 * 16) + 32


@inline
def _thread_size(d):  # type: ignore[no-untyped-def]
    """float32 of one thread: queries [HEADS, d rounded up], scores [SPAN, HEADS], rows unpacked [SPAN, d]."""
    return (HEADS + SPAN) * ((d + 15) // 16 * 16) + HEADS * SPAN


@inline
def _part(work, shape, n_part, item, parts, scratch):  # type: ignore[no-untyped-def]
    """Queries of up to HEADS heads over one part of their rows; item = ((t, kv head, quad), part)."""
    q, k, v, lo, hi, scale, softcap = work
    n_head, n_head_kv, n_row, d, width = shape[1:]
    o = parts + 4 * item * _part_size(d)
    d_pad = (d + 15) // 16 * 16
    item, part = item // n_part, item % n_part
    n_quad = (n_head // n_head_kv + HEADS - 1) // HEADS
    item, quad = item // n_quad, item % n_quad
    t, h = item // n_head_kv, item % n_head_kv
    first = h * (n_head // n_head_kv) + quad * HEADS  # of the heads
    n = min(HEADS, (h + 1) * (n_head // n_head_kv) - first)
    for i in range(0, HEADS * d_pad, 16):
        store_f32(scratch + 4 * i, zeros_f32())
        store_f32(o + 4 * i, zeros_f32())
    for g in range(n):
        for i in range(0, d_pad, 16):
            x = load_f32_part(q + 4 * ((t * n_head + first + g) * d + i), min(16, d - i))
            store_f32(scratch + 4 * (g * d_pad + i), x * splat_f32(scale))
    start, stop = peek_i32(lo + 4 * t), peek_i32(hi + 4 * t)
    size = (stop - start + n_part - 1) // n_part
    start = start + part * size
    stop = min(start + size, stop)
    top, total = splat_f32(NOTHING), zeros_f32()
    s = scratch + 4 * HEADS * d_pad
    for row in range(start, stop, SPAN):
        m = min(SPAN, stop - row)
        base = half.size(width, (h * n_row + row) * d)
        keys, values, wide = k + base, v + base, width
        _fetch(values, half.size(width, m * d))
        if half.is_packed(width):
            keys = values = s + 4 * HEADS * SPAN
            wide = 4
            half.unpack(k + base, width, m * d, keys)
        _scores(scratch, keys, wide, m, d, s)
        if softcap > 0:
            for i in range(0, HEADS * m, 16):
                x = load_f32(s + 4 * i) * splat_f32(np.float32(1) / softcap)
                store_f32(s + 4 * i, tanh_f32(x) * splat_f32(softcap))
        for i in range(HEADS * m, (HEADS * m + 15) // 16 * 16):
            poke_f32(s + 4 * i, UNSEEN)
        new = top
        for i in range(0, HEADS * m, 16):
            new = max_f32(new, load_f32(s + 4 * i))
        new = _fold_max(new)
        fade = exp_f32(top - new)
        total, top = total * fade, new
        for i in range(0, HEADS * m, 16):
            p = exp_f32(load_f32(s + 4 * i) - top)
            total = total + p
            store_f32(s + 4 * i, p)
        _fetch(k + base + half.size(width, SPAN * d), half.size(width, (stop - row - m) * d))
        if half.is_packed(width):
            half.unpack(v + base, width, m * d, values)
        _add_values(s, values, wide, m, d, o, fade)
    store_f32(o + 4 * HEADS * d_pad, top)
    store_f32(o + 4 * HEADS * d_pad + 64, _fold_sum(total))


@inline
def _fetch(address, n_bytes):  # type: ignore[no-untyped-def]
    """Have up to a span of rows on their way from memory while others are worked on."""
    for i in range(0, min(n_bytes, 1 << 15), 64):
        _prefetch(address + i)


@inline
def _scores(q, k, width, n, d, s):  # type: ignore[no-untyped-def]
    """Dot products of n rows at k with HEADS rows at q -> s [n, HEADS]."""
    d_pad, whole = (d + 15) // 16 * 16, d // 16 * 16
    for r in range(n):
        a0 = a1 = a2 = a3 = zeros_f32()
        for i in range(0, whole, 16):
            x = half.load(k, width, r * d + i)
            a0 = fma(x, load_f32(q + 4 * i), a0)
            a1 = fma(x, load_f32(q + 4 * (d_pad + i)), a1)
            a2 = fma(x, load_f32(q + 4 * (2 * d_pad + i)), a2)
            a3 = fma(x, load_f32(q + 4 * (3 * d_pad + i)), a3)
        _store_sums(s + 4 * HEADS * r, a0, a1, a2, a3)
        for i in range(whole, d):
            y = half.peek(k, width, r * d + i)
            for g in range(HEADS):
                at_s = s + 4 * (HEADS * r + g)
                poke_f32(at_s, peek_f32(at_s) + y * peek_f32(q + 4 * (g * d_pad + i)))


@inline
def _add_values(p, v, width, n, d, o, fade):  # type: ignore[no-untyped-def]
    """o [HEADS, d] = fade o + p^T v, with p [n, HEADS] and v [n, d]; fade has a lane for each head."""
    d_pad, whole = (d + 15) // 16 * 16, d // 16 * 16
    for i in range(0, whole, 16):
        a0 = load_f32(o + 4 * i) * splat_f32(_lane(fade, 0))
        a1 = load_f32(o + 4 * (d_pad + i)) * splat_f32(_lane(fade, 1))
        a2 = load_f32(o + 4 * (2 * d_pad + i)) * splat_f32(_lane(fade, 2))
        a3 = load_f32(o + 4 * (3 * d_pad + i)) * splat_f32(_lane(fade, 3))
        for r in range(n):
            x = half.load(v, width, r * d + i)
            a0 = fma(x, splat_f32(peek_f32(p + 16 * r)), a0)
            a1 = fma(x, splat_f32(peek_f32(p + 16 * r + 4)), a1)
            a2 = fma(x, splat_f32(peek_f32(p + 16 * r + 8)), a2)
            a3 = fma(x, splat_f32(peek_f32(p + 16 * r + 12)), a3)
        store_f32(o + 4 * i, a0)
        store_f32(o + 4 * (d_pad + i), a1)
        store_f32(o + 4 * (2 * d_pad + i), a2)
        store_f32(o + 4 * (3 * d_pad + i), a3)
    for i in range(whole, d):
        for g in range(HEADS):
            a = peek_f32(o + 4 * (g * d_pad + i)) * _lane(fade, g)
            for r in range(n):
                a += half.peek(v, width, r * d + i) * peek_f32(p + 4 * (HEADS * r + g))
            poke_f32(o + 4 * (g * d_pad + i), a)


@inline
def _join(shape, n_part, t, h, parts, out):  # type: ignore[no-untyped-def]
    """The parts of one head -> its d outputs."""
    n_head, n_head_kv, d = shape[1], shape[2], shape[4]
    group, d_pad = n_head // n_head_kv, (d + 15) // 16 * 16
    n_quad = (group + HEADS - 1) // HEADS
    size = 4 * _part_size(d)
    quad, g = h % group // HEADS, h % group % HEADS
    base = parts + size * n_part * ((t * n_head_kv + h // group) * n_quad + quad)
    ends = base + 4 * (HEADS * d_pad + g)
    top, total = NOTHING, np.float32(0)
    for part in range(n_part):
        top = max(top, peek_f32(ends + size * part))
    for part in range(n_part):
        weight = np.exp(peek_f32(ends + size * part) - top)
        total += weight * peek_f32(ends + size * part + 64)
        poke_f32(ends + size * part, weight)
    share = np.float32(1) / total if total > 0 else np.float32(0)
    for i in range(0, d_pad, 16):
        x = zeros_f32()
        for part in range(n_part):
            weight = peek_f32(ends + size * part)
            x = fma(splat_f32(weight * share), load_f32(base + size * part + 4 * (g * d_pad + i)), x)
        store_f32_part(out + 4 * i, x, min(16, d - i))


def _shuffle(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: Sequence[int]) -> ir.Value:
    return b.shuffle_vector(x, y, ir.VectorType(ir.IntType(32), 16)(list(lanes)))


def _fold_lanes(b: ir.IRBuilder, v: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """One number for each head of its four lanes (those alike modulo HEADS), in all of them."""
    for step in (8, 4):
        v = join(v, _shuffle(b, v, v, [(i + step) % 16 for i in range(16)]))
    return v


def _max(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.fcmp_ordered(">", x, y), x, y)


_fold_max = simd._function(simd.F32, [simd.F32], lambda b, v: _fold_lanes(b, v, partial(_max, b)))
_fold_sum = simd._function(simd.F32, [simd.F32], lambda b, v: _fold_lanes(b, v, b.fadd))


@intrinsic
def _store_sums(ctx: Any, address: Any, v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    """The sums of four vectors, side by side at an address."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        address, *v = args

        def halve(x: ir.Value, y: ir.Value, one: Sequence[int], other: Sequence[int]) -> ir.Value:
            lanes = ([quarter + i for quarter in range(0, 16, 4) for i in pick] for pick in (one, other))
            return b.fadd(*(_shuffle(b, x, y, pick) for pick in lanes))

        # Within each quarter: x0+x2 y0+y2 x1+x3 y1+y3 of two vectors, then one sum of each of the four.
        low, high = (halve(v[i], v[i + 1], (0, 16, 1, 17), (2, 18, 3, 19)) for i in (0, 2))
        sums = _fold_lanes(b, halve(low, high, (0, 1, 16, 17), (2, 3, 18, 19)), b.fadd)
        quarter = b.shuffle_vector(sums, sums, ir.VectorType(ir.IntType(32), 4)(list(range(4))))
        b.store(quarter, simd.pointer(b, address, quarter.type), align=4)
        return context.get_dummy_value()

    return types.void(types.intp, *[simd.F32] * 4), code


@intrinsic
def _prefetch(ctx: Any, address: Any) -> Any:
    """Ask for a cache line, into the second level."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        line = simd.pointer(b, args[0], simd.i8)
        numbers = [ir.Constant(simd.i32, n) for n in (0, 2, 1)]  # to read, locality, data
        simd.call(b, "llvm.prefetch.p0", ir.VoidType(), [line, *numbers])
        return context.get_dummy_value()

    return types.void(types.intp), code


@intrinsic
def _lane(ctx: Any, v: Any, i: Any) -> Any:
    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return b.extract_element(args[0], args[1])

    return types.float32(simd.F32, i), code
