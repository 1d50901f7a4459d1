"""Dot products of small numbers within the lanes of a register, by what the processor has for them."""

from collections.abc import Sequence

from llvmlite import ir

from llm.kernels.simd import FEATURES, bf16, call, i16, i32, pack_bf16_ir
from llm.kernels.simd_ir import F32X16, U32X16, Value, join

NATIVE_DOT4 = bool(FEATURES & {"avx512vnni", "avxvnni"})
NATIVE_BF16 = "avx512bf16" in FEATURES
_U16X32, _I32X8 = ir.VectorType(i16, 32), ir.VectorType(i32, 8)


def dot4(total: Value, w: Value, x: Value) -> Value:
    """total int32 [16] + the sum of 4 products of unsigned w with signed x, int8 [16, 4]."""
    if "avx512vnni" in FEATURES:
        return total.of(call(total.b, "llvm.x86.avx512.vpdpbusd.512", U32X16, [total.v, w.v, x.v]))
    if "avxvnni" in FEATURES:
        return _in_halves("llvm.x86.avx512.vpdpbusd.256", (total, w, x))
    words_w, words_x = w.bits(_U16X32), x.bits(_U16X32)
    first = _dot2(words_w & 255, _shifted_signed(words_x << 8, 8))
    return total + first + _dot2(words_w >> 8, _shifted_signed(words_x, 8))


def _dot2(w: Value, x: Value) -> Value:
    """Sums of 2 products, int16 [16, 2] -> int32 [16]."""
    if "avx2" in FEATURES:
        return _in_halves("llvm.x86.avx2.pmadd.wd", (w, x))
    pairs = w.bits(U32X16), x.bits(U32X16)
    low_w, low_x = (_shifted_signed(v << 16, 16) for v in pairs)
    high_w, high_x = (_shifted_signed(v, 16) for v in pairs)
    return low_w * low_x + high_w * high_x


def _shifted_signed(v: Value, n: int) -> Value:
    return v.of(v.b.ashr(v.v, v.constant(n).v))


def _in_halves(name: str, operands: Sequence[Value]) -> Value:
    """An LLVM intrinsic for registers of half the size."""
    halves = zip(*(v.halves() for v in operands))
    return join([operands[0].of(call(h[0].b, name, _I32X8, [v.v for v in h])) for h in halves])


def dot2_bf16(total: Value, w: Value, x: Value) -> Value:
    """total float32 [16] + the sum of 2 products of bfloat16 [16, 2]; for processors that have it."""
    pairs = ir.VectorType(bf16, 32)
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    return total.of(call(total.b, name, F32X16, [total.v, w.bits(pairs).v, x.bits(pairs).v]))


def pack_bf16(x: Value, y: Value) -> Value:
    """Pairs (x, y) of bfloat16, one in each 32-bit lane."""
    return x.of(pack_bf16_ir(x.b, x.v, y.v))
