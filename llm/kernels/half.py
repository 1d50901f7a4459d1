"""Reading and writing rows of float16 or float32 alike, as float32, in vectors of 16 or one by one.

numba knows no float16 on a CPU, and compiles kernels once for each type of array they meet: rows of either
kind go to kernels as `KvRows.bits`, with their `width` 2 or 4; inside, a row is an address and a width.
"""

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
