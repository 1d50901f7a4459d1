"""From a row of q | k | v to rotated queries and to keys and values in the cache, in one pass."""

import numpy as np

from llm.kernels import half
from llm.kernels.jit import inline, numba
from llm.kernels.matmul_ends import normed, spread_of
from llm.kernels.operands import F32, I32, KvRows, Norm, Rope
from llm.kernels.simd import firsts, high_pairs, load_f32, low_pairs, peek_f32, peek_i32, seconds
from llm.kernels.tasks import Calls, Task, fields_of, number_of, submit

HEADS = 8  # of a task


def qkv_to_rows(
    qkv: F32,
    n_head: int,
    kv: KvRows,
    at: I32,
    *,
    rope: Rope | None = None,
    q_norm: Norm | None = None,
    k_norm: Norm | None = None,
) -> F32:
    n_tok, (n_head_kv, n_row) = len(qkv), kv.k.shape[:2]
    d = qkv.shape[1] // (n_head + 2 * n_head_kv)
    assert at.dtype == np.int32 and at.shape == (n_tok,), (at.dtype, at.shape, n_tok)
    assert qkv.shape[1] == (n_head + 2 * n_head_kv) * d, (qkv.shape, n_head, n_head_kv, d)
    q = np.empty((n_tok, n_head, d), np.float32)
    k, v, width = kv.bits
    n_part = -(-(n_head + 2 * n_head_kv) // HEADS)
    calls = Calls()
    calls.add(
        HEADS_TO_ROWS,
        n_tok * n_part,
        *(n_part, qkv, n_head, n_head_kv, n_row, d, at, q, k, v, width),
        *((rope.cos, rope.sin, rope.cos.shape[1], rope.kind == "neox") if rope else (None, None, 0, False)),
        *((n.weight, n.bias, n.eps, n.center) if (n := q_norm) else (None, None, 0.0, False)),
        *((n.weight, n.bias, n.eps, n.center) if (n := k_norm) else (None, None, 0.0, False)),
        np.empty((numba.config.NUMBA_NUM_THREADS, d), np.float32),
    )
    submit(calls)
    return q


@Task
def HEADS_TO_ROWS(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    n_part, qkv, n_head, n_head_kv, n_row, d, at, q, k, v, width = fields_of(fields, 11)
    cos, sin, n_pair, neox = fields_of(fields + 8 * 11, 4)
    q_norm, k_norm = fields_of(fields + 8 * 15, 4), fields_of(fields + 8 * 19, 4)
    (scratch,) = fields_of(fields + 8 * 23, 1)
    n, t, first = n_head + 2 * n_head_kv, i // n_part, i % n_part * HEADS
    row, rope = peek_i32(at + 4 * t), (cos + 4 * n_pair * t, sin + 4 * n_pair * t, n_pair, neox)
    for h in range(first, min(first + HEADS, n)):
        x, kv_head = qkv + 4 * d * (t * n + h), (h - n_head) % n_head_kv
        to, mine = half.size(width, (kv_head * n_row + row) * d), scratch + 4 * d * thread
        if h < n_head:
            _head(x, d, q_norm, rope, q + 4 * d * (t * n_head + h), 4)
        elif h < n_head + n_head_kv:
            if half.is_packed(width):
                _head(x, d, k_norm, rope, mine, 4)
                half.pack(mine, d, k + to, width)
            else:
                _head(x, d, k_norm, rope, k + to, width)
        elif half.is_packed(width):
            half.pack(x, d, v + to, width)
        else:
            _copy(x, d, v + to, width)


@inline
def _head(x, d, norm, rope, out, width):  # type: ignore[no-untyped-def]
    """Norm and rotate the d numbers at x, and write them at `out`."""
    norm = _head_norm(x, d, norm)
    cos, sin, n_pair, neox = rope
    n_vector = n_pair // 16 * 16
    for j in range(0, n_vector, 16):
        i0, i1 = (j, j + n_pair) if neox else (2 * j, 2 * j + 16)
        x0, x1 = _normed(x, i0, norm), _normed(x, i1, norm)
        if not neox:
            x0, x1 = firsts(x0, x1), seconds(x0, x1)
        c, s = load_f32(cos + 4 * j), load_f32(sin + 4 * j)
        x0, x1 = x0 * c - x1 * s, x0 * s + x1 * c
        if not neox:
            x0, x1 = low_pairs(x0, x1), high_pairs(x0, x1)
        half.store(out, width, i0, x0)
        half.store(out, width, i1, x1)
    for j in range(n_vector, n_pair):
        i0, i1 = (j, j + n_pair) if neox else (2 * j, 2 * j + 1)
        y0, y1 = _normed_one(x, i0, norm), _normed_one(x, i1, norm)
        c1, s1 = peek_f32(cos + 4 * j), peek_f32(sin + 4 * j)
        half.poke(out, width, i0, y0 * c1 - y1 * s1)
        half.poke(out, width, i1, y0 * s1 + y1 * c1)
    n_vector = d - (d - 2 * n_pair) % 16
    for i in range(2 * n_pair, n_vector, 16):
        half.store(out, width, i, _normed(x, i, norm))
    for i in range(n_vector, d):
        half.poke(out, width, i, _normed_one(x, i, norm))


@inline
def _head_norm(x, d, norm):  # type: ignore[no-untyped-def]
    """What `_normed` needs: weight and bias of the norm (0: none), mean and scale of the d numbers at x."""
    weight, bias, eps, center = norm
    if not weight:
        return weight, bias, np.float32(0), np.float32(1)
    mean, scale = spread_of(x, d, number_of(eps), center)
    return weight, bias, mean, scale


@inline
def _normed(x, i, norm):  # type: ignore[no-untyped-def]
    weight, bias, mean, scale = norm
    return normed(x, i, i + 16, weight, bias, mean, scale) if weight else load_f32(x + 4 * i)


@inline
def _normed_one(x, i, norm):  # type: ignore[no-untyped-def]
    weight, bias, mean, scale = norm
    y = peek_f32(x + 4 * i)
    if weight:
        y = (y - mean) * scale * peek_f32(weight + 4 * i)
    if bias:
        y += peek_f32(bias + 4 * i)
    return y


@inline
def _copy(x, d, out, width):  # type: ignore[no-untyped-def]
    for i in range(0, d // 16 * 16, 16):
        half.store(out, width, i, load_f32(x + 4 * i))
    for i in range(d // 16 * 16, d):
        half.poke(out, width, i, peek_f32(x + 4 * i))
