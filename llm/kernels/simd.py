"""A small SIMD vocabulary for numba: vectors of 64 bytes as numba types, and the operations kernels need.

`F32` holds 16 float32, `I32` 16 int32, `Bytes` 64 bytes; numbers of one kind combine with + - * / & |.
Memory is named by address, an integer: `at(array, i)`. The array must outlive every use of its address, so
take addresses of a kernel's arguments only (numba knows no float16 arrays: pass `.view(np.int16)`). LLVM
splits vectors where registers are narrower; only the float16 conversions, and the products of `simd_dot`,
choose instructions by what the processor has.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.core.datamodel import PrimitiveModel
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as call_signature
from numba.extending import intrinsic, register_model

from llm.kernels.jit import inline


def cpu_features() -> frozenset[str]:
    """What the code is compiled for, in LLVM's words ("avx512vnni"); NUMBA_CPU_FEATURES overrules."""
    said = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    return frozenset(f[1:] for f in said.split(",") if f.startswith("+"))


FEATURES = cpu_features()

i1, i8, i16, i32, i64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
f32, f16 = ir.FloatType(), ir.HalfType()


class _BFloat(ir.types.Type):
    """llvmlite knows no bfloat."""

    null = "0.0"
    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


bf16 = _BFloat()


class Vec(types.Type):
    """A vector register as a numba type."""

    def __init__(self, name: str, element: ir.Type, n: int) -> None:
        self.llvm = ir.VectorType(element, n)
        super().__init__(name=name)


@register_model(Vec)
class _VecModel(PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vec) -> None:
        super().__init__(dmm, fe_type, fe_type.llvm)


F32 = Vec("F32x16", f32, 16)
I32 = Vec("I32x16", i32, 16)
Bytes = Vec("I8x64", i8, 64)


def _operators() -> None:
    ops = {
        F32: {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"},
        I32: {
            operator.add: "add",
            operator.sub: "sub",
            operator.mul: "mul",
            operator.and_: "and_",
            operator.or_: "or_",
        },
    }
    for vec, table in ops.items():
        for op, method in table.items():
            _operator(op, vec, method)


def _operator(op: Callable[..., Any], vec: Vec, method: str) -> None:
    @infer_global(op)
    class Pair(AbstractTemplate):
        def generic(self, args: Sequence[Any], kws: Any) -> Any:
            return call_signature(vec, vec, vec) if tuple(args) == (vec, vec) else None

    @lower_builtin(op, vec, vec)
    def lower(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return getattr(b, method)(*args)


_operators()


def splat(b: ir.IRBuilder, x: ir.Value, n: int) -> ir.Value:
    """IR: a vector of n times x."""
    undef = ir.Constant(ir.VectorType(x.type, n), ir.Undefined)
    v = b.insert_element(undef, x, ir.Constant(i32, 0))
    return b.shuffle_vector(v, undef, ir.Constant(ir.VectorType(i32, n), [0] * n))


def call(b: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
    """IR: call of the LLVM intrinsic `name`."""
    kind = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), args)


def pointer(b: ir.IRBuilder, address: ir.Value, to: ir.Type) -> ir.Value:
    """IR: an address as a pointer."""
    return b.inttoptr(address, to.as_pointer())


@intrinsic
def at(ctx: Any, array: Any, i: Any) -> Any:
    """Address of element `i` of a C-contiguous array, counted through all axes."""
    size = array.dtype.bitwidth // 8

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        data = b.ptrtoint(context.make_array(sig.args[0])(context, b, args[0]).data, i64)
        index = context.cast(b, args[1], sig.args[1], types.intp)
        return b.add(data, b.mul(index, ir.Constant(i64, size)))

    return types.intp(array, i), code


def _load(
    memory: ir.Type, result: Any, convert: Callable[[ir.IRBuilder, ir.Value], ir.Value] | None = None
) -> Any:
    @intrinsic
    def load(ctx: Any, address: Any) -> Any:
        def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            v = b.load(pointer(b, args[0], memory), align=1)
            return convert(b, v) if convert else v

        return result(types.intp), code

    return load


def _store(
    memory: ir.Type, value: Any, convert: Callable[[ir.IRBuilder, ir.Value], ir.Value] | None = None
) -> Any:
    @intrinsic
    def store(ctx: Any, address: Any, v: Any) -> Any:
        def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            x = context.cast(b, args[1], sig.args[1], value)
            b.store(convert(b, x) if convert else x, pointer(b, args[0], memory), align=1)
            return context.get_dummy_value()

        return types.void(types.intp, v), code

    return store


_HALF_IN_HARDWARE = "f16c" in FEATURES or "avx512f" in FEATURES or "neon" in FEATURES


def half_to_f32_ir(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    """16 halves (as i16) -> f32. In integers where the processor cannot: LLVM calls a missing library."""
    if _HALF_IN_HARDWARE:
        return b.fpext(b.bitcast(v, ir.VectorType(f16, 16)), F32.llvm)
    x = b.zext(v, I32.llvm)
    magnitude = b.bitcast(b.shl(b.and_(x, I32.llvm([0x7FFF] * 16)), I32.llvm([13] * 16)), F32.llvm)
    scaled = b.bitcast(b.fmul(magnitude, F32.llvm([2.0**112] * 16)), I32.llvm)
    sign = b.shl(b.and_(x, I32.llvm([0x8000] * 16)), I32.llvm([16] * 16))
    return b.bitcast(b.or_(scaled, sign), F32.llvm)


def _f32_to_half(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    """f32 -> 16 halves (as i16), to nearest; without hardware, ties go up and overflow saturates."""
    if _HALF_IN_HARDWARE:
        return b.bitcast(b.fptrunc(v, ir.VectorType(f16, 16)), ir.VectorType(i16, 16))
    bits = b.bitcast(v, I32.llvm)
    magnitude = b.bitcast(b.and_(bits, I32.llvm([0x7FFFFFFF] * 16)), F32.llvm)
    top = F32.llvm([65504.0] * 16)
    capped = b.select(b.fcmp_ordered(">", magnitude, top), top, magnitude)
    small = b.bitcast(b.fmul(capped, F32.llvm([2.0**-112] * 16)), I32.llvm)
    half = b.lshr(b.add(small, I32.llvm([0x1000] * 16)), I32.llvm([13] * 16))
    sign = b.and_(b.lshr(bits, I32.llvm([16] * 16)), I32.llvm([0x8000] * 16))
    return b.trunc(b.or_(half, sign), ir.VectorType(i16, 16))


def _f32_to_bf16(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    rounded = b.add(b.bitcast(v, I32.llvm), I32.llvm([0x8000] * 16))
    return b.trunc(b.lshr(rounded, I32.llvm([16] * 16)), ir.VectorType(i16, 16))


_16 = ir.VectorType(i16, 16)
load_f32 = _load(F32.llvm, F32)  # 16 float32 at an address
load_f16 = _load(_16, F32, half_to_f32_ir)  # 16 float16, widened
load_bf16 = _load(  # 16 bfloat16, widened
    _16, F32, lambda b, v: b.bitcast(b.shl(b.zext(v, I32.llvm), splat(b, ir.Constant(i32, 16), 16)), F32.llvm)
)
load_i8 = _load(ir.VectorType(i8, 16), F32, lambda b, v: b.sitofp(v, F32.llvm))  # 16 int8 as float32
load_i32 = _load(I32.llvm, I32)
peek_f32 = _load(f32, types.float32)  # one number at an address
peek_i32 = _load(i32, types.int32)
peek_i64 = _load(i64, types.int64)

store_f32 = _store(F32.llvm, F32)
store_f16 = _store(_16, F32, _f32_to_half)
store_bf16 = _store(_16, F32, _f32_to_bf16)
store_bytes = _store(Bytes.llvm, Bytes)
store_i8 = _store(
    ir.VectorType(i8, 16), I32, lambda b, v: b.trunc(v, ir.VectorType(i8, 16))
)  # low byte of each
poke_f32 = _store(f32, types.float32)
poke_i32 = _store(i32, types.int32)
poke_i64 = _store(i64, types.int64)


def _of_one(
    convert: Callable[[ir.IRBuilder, ir.Value], ir.Value],
) -> Callable[[ir.IRBuilder, ir.Value], ir.Value]:
    """`convert` of 16 lanes for one number."""
    return lambda b, x: b.extract_element(convert(b, splat(b, x, 16)), ir.Constant(i32, 0))


peek_f16 = _load(i16, types.float32, _of_one(half_to_f32_ir))
poke_f16 = _store(i16, types.float32, _of_one(_f32_to_half))


def _mask(b: ir.IRBuilder, n: ir.Value) -> ir.Value:
    """IR: lanes below n (i64)."""
    lanes = I32.llvm(list(range(16)))
    return b.icmp_signed("<", lanes, splat(b, b.trunc(n, i32), 16))


@intrinsic
def load_f32_part(ctx: Any, address: Any, n: Any) -> Any:
    """The first n float32 at an address, zeros after them; memory past them is not touched."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        p = pointer(b, args[0], F32.llvm)
        zero = ir.Constant(F32.llvm, None)
        kind = ir.FunctionType(F32.llvm, [p.type, i32, ir.VectorType(i1, 16), F32.llvm])
        fn = cgutils.get_or_insert_function(b.module, kind, "llvm.masked.load.v16f32.p0")
        return b.call(fn, [p, ir.Constant(i32, 1), _mask(b, args[1]), zero])

    return F32(types.intp, types.intp), code


@intrinsic
def store_f32_part(ctx: Any, address: Any, v: Any, n: Any) -> Any:
    """Store the first n lanes."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        p = pointer(b, args[0], F32.llvm)
        kind = ir.FunctionType(ir.VoidType(), [F32.llvm, p.type, i32, ir.VectorType(i1, 16)])
        fn = cgutils.get_or_insert_function(b.module, kind, "llvm.masked.store.v16f32.p0")
        b.call(fn, [args[1], p, ir.Constant(i32, 1), _mask(b, args[2])])
        return context.get_dummy_value()

    return types.void(types.intp, F32, types.intp), code


def _function(result: Any, arguments: Sequence[Any], body: Callable[..., ir.Value]) -> Any:
    """An intrinsic of fixed types: `body(builder, *values)` emits its IR."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        cast = [context.cast(b, a, have, want) for a, have, want in zip(args, sig.args, arguments)]
        return body(b, *cast)

    match len(arguments):
        case 0:
            return intrinsic(lambda ctx: (result(), code))
        case 1:
            return intrinsic(lambda ctx, x: (result(x), code))
        case 2:
            return intrinsic(lambda ctx, x, y: (result(x, y), code))
        case _:
            return intrinsic(lambda ctx, x, y, z: (result(x, y, z), code))


def _llvm(name: str, result: Any) -> Callable[..., ir.Value]:
    llvm_type = result.llvm if isinstance(result, Vec) else f32
    return lambda b, *args: call(b, name, llvm_type, args)


@intrinsic
def fetch_add(ctx: Any, address: Any, n: Any) -> Any:
    """Add n to the int64 at an address, which threads share; what was there before."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        step = context.cast(b, args[1], sig.args[1], types.int64)
        return b.atomic_rmw("add", pointer(b, args[0], i64), step, "monotonic")

    return types.int64(types.intp, n), code


def _reduce(name: str) -> Callable[..., ir.Value]:
    def body(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
        start = [ir.Constant(f32, 0.0)] if name == "fadd" else []
        kind = ir.FunctionType(f32, [a.type for a in [*start, v]])
        fn = cgutils.get_or_insert_function(b.module, kind, f"llvm.vector.reduce.{name}.v16f32")
        return b.call(fn, [*start, v], fastmath=("reassoc",))

    return body


zeros_f32 = _function(F32, [], lambda b: ir.Constant(F32.llvm, None))
splat_f32 = _function(F32, [types.float32], lambda b, x: splat(b, x, 16))
splat_i32 = _function(I32, [types.int32], lambda b, x: splat(b, x, 16))
first_lanes = _function(  # the first n, zeros after them
    F32, [F32, types.intp], lambda b, v, n: b.select(_mask(b, n), v, ir.Constant(F32.llvm, None))
)
fma = _function(F32, [F32, F32, F32], _llvm("llvm.fmuladd.v16f32", F32))  # x * y + z
max_f32 = _function(F32, [F32, F32], lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))
min_f32 = _function(F32, [F32, F32], lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y))
max_i32 = _function(I32, [I32, I32], lambda b, x, y: b.select(b.icmp_signed(">", x, y), x, y))
abs_f32 = _function(F32, [F32], _llvm("llvm.fabs.v16f32", F32))
round_f32 = _function(F32, [F32], _llvm("llvm.rint.v16f32", F32))
sum_f32 = _function(types.float32, [F32], _reduce("fadd"))  # of the 16 lanes
sum_i32 = _function(types.int32, [I32], lambda b, v: call(b, "llvm.vector.reduce.add.v16i32", i32, [v]))
top_as_f32 = _function(  # the largest of 16 lanes, as a float32 of the same bits
    types.float32, [I32], lambda b, v: b.bitcast(call(b, "llvm.vector.reduce.smax.v16i32", i32, [v]), f32)
)
to_f32 = _function(F32, [I32], lambda b, v: b.sitofp(v, F32.llvm))
to_i32 = _function(I32, [F32], lambda b, v: b.fptosi(v, I32.llvm))  # truncates: round_f32 first
as_f32 = _function(F32, [I32], lambda b, v: b.bitcast(v, F32.llvm))  # the same bits
as_i32 = _function(I32, [F32], lambda b, v: b.bitcast(v, I32.llvm))
shift_left = _function(I32, [I32, types.int32], lambda b, v, n: b.shl(v, splat(b, n, 16)))


def _pick(lanes: Sequence[int]) -> Callable[..., ir.Value]:
    return lambda b, x, y: b.shuffle_vector(x, y, ir.VectorType(i32, 16)(list(lanes)))


# Pairs: of 32 numbers in two vectors the first or second of each pair, and back again.
firsts = _function(F32, [F32, F32], _pick(range(0, 32, 2)))
seconds = _function(F32, [F32, F32], _pick(range(1, 32, 2)))
low_pairs = _function(F32, [F32, F32], _pick([i // 2 + 16 * (i % 2) for i in range(16)]))
high_pairs = _function(F32, [F32, F32], _pick([i // 2 + 16 * (i % 2) for i in range(16, 32)]))


def pack_bf16_ir(b: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
    half = I32.llvm([0x8000] * 16)
    lo, hi = (b.add(b.bitcast(v, I32.llvm), half) for v in (even, odd))
    lo = b.lshr(lo, I32.llvm([16] * 16))
    hi = b.and_(hi, I32.llvm([0xFFFF0000] * 16))
    return b.bitcast(b.or_(lo, hi), Bytes.llvm)


pack_bf16 = _function(Bytes, [F32, F32], pack_bf16_ir)  # pairs (x, y) of bfloat16, one in each 32-bit lane


@inline
def exp_f32(x: Any) -> Any:
    """e^x of 16 lanes to 2 ulp; below -87.3 it is the smallest normal number, above 88.3 about 2^127."""
    x = max_f32(min_f32(x, splat_f32(88.3)), splat_f32(-87.3))
    n = round_f32(x * splat_f32(1.44269504))
    r = fma(n, splat_f32(-0.693359375), x)
    r = fma(n, splat_f32(2.12194440e-4), r)
    p = fma(splat_f32(1.9875691500e-4), r, splat_f32(1.3981999507e-3))
    p = fma(p, r, splat_f32(8.3334519073e-3))
    p = fma(p, r, splat_f32(4.1665795894e-2))
    p = fma(p, r, splat_f32(1.6666665459e-1))
    p = fma(p, r, splat_f32(5.0000001201e-1))
    p = fma(p, r * r, r + splat_f32(1.0))
    return p * as_f32(shift_left(to_i32(n) + splat_i32(127), 23))


@inline
def tanh_f32(x: Any) -> Any:
    """tanh to 3e-7."""
    e = exp_f32(x * splat_f32(2.0))
    return splat_f32(1.0) - splat_f32(2.0) / (e + splat_f32(1.0))
