"""From a row of q | k | v to rotated queries and to keys and values in the cache, in one pass."""

import numpy as np

from llm.kernels import half
from llm.kernels.jit import inline, parallel_kernel, prange
from llm.kernels.norm import ALONE, NO_ROW, NO_ROWS
from llm.kernels.operands import F32, KvRows, Norm, Rope
from llm.kernels.simd import at, firsts, high_pairs, load_f32, low_pairs, peek_f32, seconds, splat_f32

NO_NORM = Norm(NO_ROW, 0.0)
NO_ROPE = Rope(NO_ROWS, NO_ROWS, "neox")


def qkv_to_rows(
    qkv: F32,
    n_head: int,
    kv: KvRows,
    row: int,
    *,
    rope: Rope | None = None,
    q_norm: Norm | None = None,
    k_norm: Norm | None = None,
) -> F32:
    n_head_kv, n_row, d = kv.k.shape
    assert row + len(qkv) <= n_row, (row, len(qkv), n_row)
    assert qkv.shape[1] == (n_head + 2 * n_head_kv) * d, (qkv.shape, n_head, n_head_kv, d)
    q = np.empty((len(qkv), n_head, d), np.float32)
    turn, qn, kn = rope or NO_ROPE, q_norm or NO_NORM, k_norm or NO_NORM
    _qkv_to_rows(
        *(qkv, q, *kv.bits, row),
        *(turn.cos, turn.sin, turn.kind == "neox"),
        *(qn.weight, NO_ROW if qn.bias is None else qn.bias, qn.eps, qn.center),
        *(kn.weight, NO_ROW if kn.bias is None else kn.bias, kn.eps, kn.center),
    )
    return q


@parallel_kernel
def _qkv_to_rows(  # type: ignore[no-untyped-def]
    qkv, q, k, v, width, row, cos, sin, neox, qw, qb, q_eps, q_center, kw, kb, k_eps, k_center
):
    n_head, d, n_head_kv, n_row = q.shape[1], q.shape[2], k.shape[0], k.shape[1]
    q_norm = (at(qw, 0), at(qb, 0), qw.size > 0, qb.size > 0, np.float32(q_eps), q_center)
    k_norm = (at(kw, 0), at(kb, 0), kw.size > 0, kb.size > 0, np.float32(k_eps), k_center)
    rope = (at(cos, 0), at(sin, 0), cos.shape[1], neox)
    rows = (at(k, 0), at(v, 0), width, n_head_kv, n_row, row)
    if qkv.size <= ALONE:
        for t in range(qkv.shape[0]):
            _token(at(qkv, t * qkv.shape[1]), at(q, t * n_head * d), n_head, d, t, rows, rope, q_norm, k_norm)
    else:
        for t in prange(qkv.shape[0]):
            _token(at(qkv, t * qkv.shape[1]), at(q, t * n_head * d), n_head, d, t, rows, rope, q_norm, k_norm)


@inline
def _token(x, q, n_head, d, t, rows, rope, q_norm, k_norm):  # type: ignore[no-untyped-def]
    k, v, width, n_head_kv, n_row, row = rows
    for h in range(n_head):
        _head(x + 4 * d * h, d, t, q_norm, rope, q + 4 * d * h, 4)
    x += 4 * d * n_head
    for h in range(n_head_kv):
        first = (h * n_row + row + t) * d * width
        _head(x + 4 * d * h, d, t, k_norm, rope, k + first, width)
        _copy(x + 4 * d * (n_head_kv + h), d, v + first, width)


@inline
def _head(x, d, t, norm, rope, out, width):  # type: ignore[no-untyped-def]
    """Norm and rotate the d numbers at x, and write them at `out`."""
    norm = _head_norm(x, d, norm)
    cos, sin, n_pair, neox = rope
    cos, sin = cos + 4 * n_pair * t, sin + 4 * n_pair * t
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
    """What `_normed` needs: mean, scale, weight and bias of the norm of the d numbers at x."""
    weight, bias, has_weight, has_bias, eps, center = norm
    mean, square = np.float32(0), np.float32(0)
    if not has_weight:
        return mean, np.float32(1), weight, bias, has_weight, has_bias
    if center:
        for i in range(d):
            mean += peek_f32(x + 4 * i)
        mean /= np.float32(d)
    for i in range(d):
        square += (peek_f32(x + 4 * i) - mean) ** 2
    scale = np.float32(1) / np.sqrt(square / np.float32(d) + eps)
    return mean, scale, weight, bias, has_weight, has_bias


@inline
def _normed(x, i, norm):  # type: ignore[no-untyped-def]
    mean, scale, weight, bias, has_weight, has_bias = norm
    y = (load_f32(x + 4 * i) - splat_f32(mean)) * splat_f32(scale)
    if has_weight:
        y = y * load_f32(weight + 4 * i)
    if has_bias:
        y = y + load_f32(bias + 4 * i)
    return y


@inline
def _normed_one(x, i, norm):  # type: ignore[no-untyped-def]
    mean, scale, weight, bias, has_weight, has_bias = norm
    y = (peek_f32(x + 4 * i) - mean) * scale
    if has_weight:
        y *= peek_f32(weight + 4 * i)
    if has_bias:
        y += peek_f32(bias + 4 * i)
    return y


@inline
def _copy(x, d, out, width):  # type: ignore[no-untyped-def]
    for i in range(0, d // 16 * 16, 16):
        half.store(out, width, i, load_f32(x + 4 * i))
    for i in range(d // 16 * 16, d):
        half.poke(out, width, i, peek_f32(x + 4 * i))
