"""What is done to rows before and after a product: norm and conversion, bias, activation and residual."""

import numpy as np

from llm.kernels.jit import inline
from llm.kernels.simd import (
    abs_f32,
    as_f32,
    as_i32,
    exp_f32,
    first_lanes,
    fma,
    load_f32,
    load_f32_part,
    max_f32,
    max_i32,
    poke_f32,
    round_f32,
    splat_f32,
    splat_i32,
    store_bf16,
    store_f32,
    store_f32_part,
    store_i8,
    sum_f32,
    sum_i32,
    tanh_f32,
    to_i32,
    top_as_f32,
    zeros_f32,
)

ACTS = {None: 0, "silu": 1, "gelu": 2, "gelu_erf": 3, "gelu_quick": 4, "relu": 5}
# Of a block of 32: codes int8 [32], the scale, and scale times the sums of codes 0..15, of 16..31 and of all.
INT8_BYTES = 48
INT15_BYTES = 80  # the same with two int8 [32], high and low; a code is 128 high + low


@inline
def spread_of(x, n, eps, center):  # type: ignore[no-untyped-def]
    """What a norm takes from the n numbers at x and then multiplies by: mean (0 without `center`), scale."""
    whole, rest = n & ~15, n & 15
    mean = np.float32(0)
    if center:
        total = load_f32_part(x + whole * 4, rest)
        for k in range(0, whole, 16):
            total = total + load_f32(x + k * 4)
        mean = sum_f32(total) / np.float32(n)
    m, square = splat_f32(mean), zeros_f32()
    for k in range(0, whole, 16):
        v = load_f32(x + k * 4) - m
        square = fma(v, v, square)
    v = first_lanes(load_f32_part(x + whole * 4, rest) - m, rest)
    square = fma(v, v, square)
    return mean, np.float32(1) / np.sqrt(sum_f32(square) / np.float32(n) + np.float32(eps))


@inline
def normed(x, k, n, weight, bias, mean, scale):  # type: ignore[no-untyped-def]
    """Numbers k : k + 16 of the n at x, normed; zeros past the last."""
    left = n - k
    v = load_f32(x + k * 4) if left >= 16 else load_f32_part(x + k * 4, left)
    w = load_f32(weight + k * 4) if left >= 16 else load_f32_part(weight + k * 4, left)
    v = (v - splat_f32(mean)) * splat_f32(scale) * w
    if bias:
        v = v + (load_f32(bias + k * 4) if left >= 16 else load_f32_part(bias + k * 4, left))
    return v


@inline
def norm_row(x, n, weight, bias, eps, center, row):  # type: ignore[no-untyped-def]
    """norm(x) -> row, float32 [n] by address, zeros up to a multiple of 32; without weight (0) just x."""
    if weight:
        mean, scale = spread_of(x, n, eps, center)
        for k in range(0, n, 16):
            store_f32(row + k * 4, normed(x, k, n, weight, bias, mean, scale))
    else:
        for k in range(0, n, 16):
            store_f32(row + k * 4, load_f32(x + k * 4) if n - k >= 16 else load_f32_part(x + k * 4, n - k))
    if (n - 1) & 31 < 16:
        store_f32(row + ((n + 15) & ~15) * 4, zeros_f32())


@inline
def int8_row(row, n_block, to):  # type: ignore[no-untyped-def]
    """float32 [32 n_block] -> n_block times INT8_BYTES. A block with a NaN or infinity gets such a scale."""
    sign = splat_i32(0x7FFFFFFF)
    for kb in range(n_block):
        a, b = load_f32(row + kb * 128), load_f32(row + kb * 128 + 64)
        top = top_as_f32(
            max_i32(as_i32(a) & sign, as_i32(b) & sign)
        )  # in this order NaN is above all numbers
        scale = top / np.float32(127)
        inverse = splat_f32(np.float32(127) / top if top > 0 else np.float32(0))
        low, high = to_i32(round_f32(a * inverse)), to_i32(round_f32(b * inverse))
        p = to + kb * INT8_BYTES
        store_i8(p, low)
        store_i8(p + 16, high)
        sum_low, sum_high = np.float32(sum_i32(low)), np.float32(sum_i32(high))
        poke_f32(p + 32, scale)
        poke_f32(p + 36, scale * sum_low)
        poke_f32(p + 40, scale * sum_high)
        poke_f32(p + 44, scale * (sum_low + sum_high))


@inline
def int15_row(row, n_block, to):  # type: ignore[no-untyped-def]
    """float32 [32 n_block] -> n_block times INT15_BYTES, codes of 15 bits as 128 high + low.

    Decoding waits for memory, so that the second product costs little, and gives what float32 would.
    """
    sign, half = splat_i32(0x7FFFFFFF), splat_f32(1 / 128)
    for kb in range(n_block):
        a, b = load_f32(row + kb * 128), load_f32(row + kb * 128 + 64)
        top = top_as_f32(max_i32(as_i32(a) & sign, as_i32(b) & sign))  # NaN is above all numbers
        scale = top / np.float32(16256)
        inverse = splat_f32(np.float32(16256) / top if top > 0 else np.float32(0))
        p = to + kb * INT15_BYTES
        x, y = round_f32(a * inverse), round_f32(b * inverse)
        x_high, y_high = round_f32(x * half), round_f32(y * half)
        store_i8(p, to_i32(x_high))
        store_i8(p + 16, to_i32(y_high))
        store_i8(p + 32, to_i32(fma(x_high, splat_f32(-128.0), x)))
        store_i8(p + 48, to_i32(fma(y_high, splat_f32(-128.0), y)))
        sum_low, sum_high = sum_f32(x), sum_f32(y)
        poke_f32(p + 64, scale)
        poke_f32(p + 68, scale * sum_low)
        poke_f32(p + 72, scale * sum_high)
        poke_f32(p + 76, scale * (sum_low + sum_high))


@inline
def bf16_row(row, n_block, to, step):  # type: ignore[no-untyped-def]
    """float32 [32 n_block] -> bfloat16, n_block times 64 bytes that stand `step` apart."""
    for kb in range(n_block):
        store_bf16(to + kb * step, load_f32(row + kb * 128))
        store_bf16(to + kb * step + 32, load_f32(row + kb * 128 + 64))


@inline
def activate(act, v):  # type: ignore[no-untyped-def]
    """The activation numbered `act` in ACTS."""
    one = splat_f32(1.0)
    if act == 1:
        return v / (one + exp_f32(zeros_f32() - v))
    if act == 2:
        inner = v * splat_f32(0.7978845608) * fma(v * v, splat_f32(0.044715), one)
        return v * splat_f32(0.5) * (one + tanh_f32(inner))
    if act == 3:
        return v * splat_f32(0.5) * (one + erf_f32(v * splat_f32(0.70710678)))
    if act == 4:
        return v / (one + exp_f32(v * splat_f32(-1.702)))
    if act == 5:
        return max_f32(v, zeros_f32())
    return v


@inline
def erf_f32(x):  # type: ignore[no-untyped-def]
    """erf to 2e-7: Abramowitz and Stegun, 7.1.26."""
    a, one = abs_f32(x), splat_f32(1.0)
    t = one / fma(a, splat_f32(0.3275911), one)
    p = fma(t, splat_f32(1.061405429), splat_f32(-1.453152027))
    p = fma(p, t, splat_f32(1.421413741))
    p = fma(p, t, splat_f32(-0.284496736))
    p = fma(p, t, splat_f32(0.254829592)) * t
    y = one - p * exp_f32(zeros_f32() - x * x)
    return as_f32(as_i32(y) | (as_i32(x) & splat_i32(-0x80000000)))


@inline
def put(v, n, residual, to):  # type: ignore[no-untyped-def]
    """The first n lanes, plus what stands at `residual` (0: nothing), to an address."""
    if n >= 16:
        store_f32(to, v + load_f32(residual) if residual else v)
    else:
        store_f32_part(to, v + load_f32_part(residual, n) if residual else v, n)
