"""Reading and writing cache rows of any kind: float16 or float32 alike, in vectors of 16 or one by one, as
float32; bfloat16 and q8_0 as whole rows.

numba knows no float16 on a CPU, and compiles kernels once for each type of array they meet: rows of either
kind go to kernels as `KvRows.bits`, with their `width` 2 or 4 (or one of the kinds below); inside, a row is
an address and a width.
"""

import numpy as np

from llm.kernels import simd
from llm.kernels.jit import inline


@inline
def load(address, width, i):  # type: ignore[no-untyped-def]
    """Elements i : i + 16."""
    return simd.load_f16(address + 2 * i) if width == 2 else simd.load_f32(address + 4 * i)


@inline
def store(address, width, i, x):  # type: ignore[no-untyped-def]
    if width == 2:
        simd.store_f16(address + 2 * i, x)
    else:
        simd.store_f32(address + 4 * i, x)


@inline
def peek(address, width, i):  # type: ignore[no-untyped-def]
    """Element i."""
    return simd.peek_f16(address + 2 * i) if width == 2 else simd.peek_f32(address + 4 * i)


@inline
def poke(address, width, i, x):  # type: ignore[no-untyped-def]
    if width == 2:
        simd.poke_f16(address + 2 * i, x)
    else:
        simd.poke_f32(address + 4 * i, x)


# Kinds of rows beside these two, which are packed and unpacked whole: `d` is a multiple of what they need.
BF16, Q8_0 = 3, 1  # 16; 32, in blocks of a float16 scale and 32 codes of 8 bits, as in files
Q8_BYTES = 34


@inline
def is_packed(width):  # type: ignore[no-untyped-def]
    return width in (BF16, Q8_0)


@inline
def size(width, n):  # type: ignore[no-untyped-def]
    """Bytes of n numbers of any kind."""
    if width == Q8_0:
        return n // 32 * Q8_BYTES
    return 2 * n if width == BF16 else width * n


@inline
def unpack(address, width, n, to):  # type: ignore[no-untyped-def]
    """n numbers of a packed kind -> float32."""
    if width == BF16:
        for i in range(0, n, 16):
            simd.store_f32(to + 4 * i, simd.load_bf16(address + 2 * i))
    else:
        for i in range(0, n, 32):
            block = address + i // 32 * Q8_BYTES
            scale = simd.splat_f32(simd.peek_f16(block))
            simd.store_f32(to + 4 * i, simd.load_i8(block + 2) * scale)
            simd.store_f32(to + 4 * i + 64, simd.load_i8(block + 18) * scale)


@inline
def pack(x, n, address, width):  # type: ignore[no-untyped-def]
    """n float32 at x -> a packed kind."""
    if width == BF16:
        for i in range(0, n, 16):
            simd.store_bf16(address + 2 * i, simd.load_f32(x + 4 * i))
    else:
        for i in range(0, n, 32):
            block, sign = address + i // 32 * Q8_BYTES, simd.splat_i32(0x7FFFFFFF)
            a, b = simd.load_f32(x + 4 * i), simd.load_f32(x + 4 * i + 64)
            bits = simd.max_i32(simd.as_i32(a) & sign, simd.as_i32(b) & sign)  # NaN is above all numbers
            scale = simd.top_as_f32(bits) / np.float32(127)
            inverse = simd.splat_f32(np.float32(1) / scale if scale > 0 else np.float32(0))
            simd.poke_f16(block, scale)
            simd.store_i8(block + 2, simd.to_i32(simd.round_f32(a * inverse)))
            simd.store_i8(block + 18, simd.to_i32(simd.round_f32(b * inverse)))
