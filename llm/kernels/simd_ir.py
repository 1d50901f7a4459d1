"""Inner loops written as LLVM code from Python: for what must be unrolled and kept in registers.

numba compiles each function by itself and again in each caller; code emitted here is compiled once.
A `Value` has numpy's operators, so that the emitting function reads like the loop it stands for.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from llm.kernels.simd import call, i8, i16, i32, i64, pointer, splat
from llm.kernels.simd import f32 as float_type

U8X16, U8X64 = ir.VectorType(i8, 16), ir.VectorType(i8, 64)
U16X16, U32X16, F32X16 = ir.VectorType(i16, 16), ir.VectorType(i32, 16), ir.VectorType(float_type, 16)


class Value:
    """An LLVM value; integers are unsigned, and a Python number beside one stands for as many as needed."""

    def __init__(self, b: ir.IRBuilder, v: ir.Value) -> None:
        self.b, self.v = b, v

    def of(self, v: ir.Value) -> "Value":
        return Value(self.b, v)

    def constant(self, number: float, kind: ir.Type | None = None) -> "Value":
        """`number` in this value's type, or `kind`."""
        kind = kind or self.v.type
        vector = isinstance(kind, ir.VectorType)
        element = kind.element if vector else kind
        number = float(number) if element == float_type else int(number) & (1 << element.width) - 1
        return self.of(ir.Constant(kind, [number] * kind.count if vector else number))

    def _binary(self, other: "Value | float", whole: str, real: str = "") -> "Value":
        other = other if isinstance(other, Value) else self.constant(other)
        element = self.v.type.element if isinstance(self.v.type, ir.VectorType) else self.v.type
        return self.of(getattr(self.b, real if element == float_type else whole)(self.v, other.v))

    def __add__(self, other: "Value | float") -> "Value":
        return self._binary(other, "add", "fadd")

    def __sub__(self, other: "Value | float") -> "Value":
        return self._binary(other, "sub", "fsub")

    def __mul__(self, other: "Value | float") -> "Value":
        return self._binary(other, "mul", "fmul")

    def __and__(self, other: "Value | int") -> "Value":
        return self._binary(other, "and_")

    def __or__(self, other: "Value | int") -> "Value":
        return self._binary(other, "or_")

    def __xor__(self, other: "Value | int") -> "Value":
        return self._binary(other, "xor")

    def __lshift__(self, other: "Value | int") -> "Value":
        return self._binary(other, "shl")

    def __rshift__(self, other: "Value | int") -> "Value":
        return self._binary(other, "lshr")

    def fma(self, factor: "Value", onto: "Value") -> "Value":
        """self * factor + onto."""
        return self.of(call(self.b, "llvm.fmuladd.v16f32", F32X16, [self.v, factor.v, onto.v]))

    def bits(self, kind: ir.Type) -> "Value":
        """The same bits as another type."""
        return self.of(self.b.bitcast(self.v, kind))

    def to_f32(self) -> "Value":
        """Integers (signed) as numbers."""
        return self.of(self.b.sitofp(self.v, F32X16))

    def widen(self, kind: ir.Type) -> "Value":
        """Zero-extended."""
        return self.of(self.b.zext(self.v, kind))

    def widen_signed(self, kind: ir.Type) -> "Value":
        return self.of(self.b.sext(self.v, kind))

    def narrow(self, kind: ir.Type) -> "Value":
        return self.of(self.b.trunc(self.v, kind))

    def lanes(self, n: int) -> "Value":
        """A vector of n times this."""
        return self.of(splat(self.b, self.v, n))

    def lane(self, i: int) -> "Value":
        return self.of(self.b.extract_element(self.v, ir.Constant(i32, i)))

    def pick(self, lanes: Sequence[int]) -> "Value":
        """These lanes, in this order."""
        order = ir.Constant(ir.VectorType(i32, len(lanes)), list(lanes))
        return self.of(self.b.shuffle_vector(self.v, ir.Constant(self.v.type, ir.Undefined), order))

    def below(self, number: int, yes: "Value", no: "Value") -> "Value":
        """`yes` where this is below `number`, else `no`."""
        less = self.b.icmp_unsigned("<", self.v, self.constant(number).v)
        return self.of(self.b.select(less, yes.v, no.v))

    def load(self, kind: ir.Type) -> "Value":
        """What stands at this address."""
        return self.of(self.b.load(pointer(self.b, self.v, kind), align=1))

    def spread(self, kind: ir.Type = float_type) -> "Value":
        """The number at this address in 16 lanes."""
        return self.load(kind).lanes(16)

    def store(self, value: "Value") -> None:
        """`value` to this address."""
        self.b.store(value.v, pointer(self.b, self.v, value.v.type), align=1)

    def halves(self) -> "tuple[Value, Value]":
        """The two halves of a vector."""
        n = self.v.type.count // 2
        return self.pick(range(n)), self.pick(range(n, 2 * n))

    @contextmanager
    def times(self) -> Iterator["Value"]:
        """A loop over 0 <= i < self."""
        with cgutils.for_range(self.b, self.v, intp=i64) as loop:
            yield self.of(loop.index)

    @contextmanager
    def equals(self, *numbers: int) -> Iterator[None]:
        """A branch for any of these."""
        same = [self.b.icmp_signed("==", self.v, self.constant(n).v) for n in numbers]
        with self.b.if_then(reduce(self.b.or_, same)):
            yield


def join(parts: Sequence[Value]) -> Value:
    """Two vectors as one."""
    first, second = (p.v for p in parts)
    n = 2 * first.type.count
    order = ir.Constant(ir.VectorType(i32, n), list(range(n)))
    return parts[0].of(parts[0].b.shuffle_vector(first, second, order))


class Variable:
    """A value that changes in a loop; LLVM keeps it in a register."""

    def __init__(self, start: Value) -> None:
        self._b = start.b
        self._slot = cgutils.alloca_once(start.b, start.v.type)
        self.set(start)

    def get(self) -> Value:
        return Value(self._b, self._b.load(self._slot))

    def set(self, value: Value) -> None:
        self._b.store(value.v, self._slot)

    def add(self, x: Value, y: Value) -> None:
        """x * y onto it."""
        self.set(x.fma(y, self.get()))


def emitted(result: Any, *arguments: Any) -> Callable[[Callable[..., Value | None]], Any]:
    """Makes a function of Values, which returns one or None, callable from kernels with these numba types."""

    def wrap(body: Callable[..., Value | None]) -> Any:
        def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            out = body(*(Value(b, a) for a in args))
            return context.get_dummy_value() if out is None else out.v

        def definition(ctx: Any, *given: Any) -> Any:
            return result(*arguments), code

        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ["ctx", *inspect.signature(body).parameters]
        definition.__signature__ = inspect.Signature([inspect.Parameter(n, positional) for n in names])  # type: ignore[attr-defined]
        definition.__name__ = body.__name__
        return intrinsic(definition)

    return wrap


ADDRESS = types.intp
