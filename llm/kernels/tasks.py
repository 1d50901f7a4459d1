"""Work on few rows as lists of calls, which threads take apart into tasks; a list can be played again.

Decoding one token is some hundred small products. To start threads for each, and to come back to Python in
between, takes as long as the products themselves. Here a kernel is a list of calls: a task compiled to be
called by address, how many tasks it comes in, and its fields, int64 in memory. One parallel loop works on a
whole list: threads take the tasks of a call as they come free, and go on to the next call when all are done.
None waits for a thread that has not started, so that fewer of them, or slow ones, do as well.

`record` makes one list of everything that a function calls. Arrays that it is given may change between two
plays, their addresses may not: so do positions and cache rows enter.
"""

import platform
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from llm.kernels.jit import MATH, inline, numba, parallel_kernel, prange
from llm.kernels.operands import F32
from llm.kernels.simd import at, call, fetch_add, i64, pointer

LINE = 64  # bytes of a cache line
X86 = platform.machine() in ("x86_64", "AMD64")
ENTRY = ir.FunctionType(ir.VoidType(), [i64, i64, i64])

Field = NDArray[Any] | float | None  # an array counts as its address, None as 0


class Task:
    """A compiled function of its number among the tasks of a call, the thread's number and the fields."""

    def __init__(self, body: Callable[[Any, Any, Any], None]) -> None:
        self._body = body

    @cached_property
    def _compiled(self) -> Any:
        entry = types.void(types.intp, types.intp, types.intp)
        return numba.cfunc(entry, cache=True, error_model="numpy", fastmath=MATH)(self._body)

    @property
    def address(self) -> int:
        address: int = self._compiled.address
        return address


class Calls:
    """A list of calls. What they point to is kept as long as the list."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []  # task, fields, number of tasks
        self._kept: list[NDArray[Any]] = []

    def add(self, task: Task, n_task: int, *fields: Field) -> None:
        numbers = np.array([self._number(f) for f in fields], np.int64)
        self._kept.append(numbers)
        self._rows.append((task.address, address_of(numbers), n_task))

    def address(self, array: NDArray[Any]) -> int:
        """Of an array, which need not be contiguous."""
        self._kept.append(array)
        return address_of(array)

    def extend(self, calls: "Calls") -> None:
        self._rows += calls._rows
        self._kept += calls._kept

    def play(self) -> None:
        """Do all of it, in order."""
        _play(self._table, self._counters, numba.get_num_threads())

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        return np.array(self._rows, np.int64).reshape(-1, 3)

    @cached_property
    def _counters(self) -> NDArray[np.int64]:
        """For each call, on cache lines of their own: tasks taken, tasks done."""
        return aligned(len(self._rows) * 2 * LINE).view(np.int64).reshape(-1, 2, LINE // 8)

    def _number(self, field: Field) -> int:
        if isinstance(field, np.ndarray):
            assert field.flags.c_contiguous, field.strides
            return self.address(field)
        if isinstance(field, float):
            return int.from_bytes(struct.pack("=d", field), "little")
        return int(field or 0)


class NotRepeatableError(Exception):
    """Something that `record` was given does more than calls."""


_recordings: list[Calls] = []  # the one being made, if any


def record(run: Callable[[], F32]) -> Callable[[], F32]:
    """What does again what `run` does, with what is in the arrays then; the result is new each time.

    `run` itself where it calls kernels that work on many rows, or that look at numbers to see what to do.
    """
    calls = Calls()
    _recordings.append(calls)
    try:
        out = run()
    except NotRepeatableError:
        return run
    finally:
        _recordings.pop()

    def play() -> F32:
        calls.play()
        return out.copy()

    return play


def recording() -> bool:
    """Whether calls are being recorded: a kernel then takes the way for few rows if it has one."""
    return bool(_recordings)


def not_repeatable() -> None:
    """Called by what cannot be recorded, before it does anything."""
    if _recordings:
        raise NotRepeatableError


def submit(calls: Calls) -> None:
    """Record the calls or, if nothing is being recorded, do them now."""
    if _recordings:
        _recordings[-1].extend(calls)
    else:
        calls.play()


def aligned(n_bytes: int) -> NDArray[np.uint8]:
    """Zeros that start on a cache line."""
    memory = np.zeros(n_bytes + LINE, np.uint8)
    start = -address_of(memory) % LINE
    return memory[start : start + n_bytes]


class Work:
    """Scratch memory of tasks; it grows and is kept, for fresh pages cost as much as products do."""

    def __init__(self) -> None:
        self._memory = aligned(0)

    def address(self, n_bytes: int) -> int:
        """Of at least `n_bytes`."""
        return address_of(self.take(n_bytes))

    def take(self, n_bytes: int) -> NDArray[np.uint8]:
        """At least `n_bytes`; a recording that points to them has to keep the array."""
        if n_bytes > self._memory.nbytes:
            self._memory = aligned(n_bytes)
        return self._memory


def address_of(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


WORK = Work()


@parallel_kernel
def _play(calls, counters, n_thread):  # type: ignore[no-untyped-def]
    counters[:] = 0
    for thread in prange(n_thread):
        _work(calls, counters, thread)


@inline
def _work(calls, counters, thread):  # type: ignore[no-untyped-def]
    for i in range(len(calls)):
        task, fields, n_task = calls[i, 0], calls[i, 1], calls[i, 2]
        taken, done, n = at(counters, i * (2 * LINE // 8)), at(counters, i * (2 * LINE // 8) + LINE // 8), 0
        while _seen(taken) < n_task:
            k = fetch_add(taken, 1)
            if k >= n_task:
                break
            _call(task, k, thread, fields)
            n += 1
        if n:
            _publish(done, n)
        while _seen(done) < n_task:
            _pause()


@intrinsic
def _call(ctx: Any, task: Any, i: Any, thread: Any, fields: Any) -> Any:
    """Call a task by its address."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        numbers = [context.cast(b, a, t, types.int64) for a, t in zip(args[1:], sig.args[1:])]
        b.call(b.inttoptr(args[0], ENTRY.as_pointer()), numbers)
        return context.get_dummy_value()

    return types.void(task, i, thread, fields), code


@intrinsic
def _seen(ctx: Any, address: Any) -> Any:
    """The int64 at an address, and all that was written before it was published."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return b.load_atomic(pointer(b, args[0], i64), "acquire", 8)

    return types.int64(types.intp), code


@intrinsic
def _publish(ctx: Any, address: Any, n: Any) -> Any:
    """Add n to the int64 at an address, after all that was written before."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        b.atomic_rmw("add", pointer(b, args[0], i64), args[1], "release")
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), code


@intrinsic
def _pause(ctx: Any) -> Any:
    """Let a sibling on the same core have its turn."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        if X86:
            call(b, "llvm.x86.sse2.pause", ir.VoidType(), [])
        return context.get_dummy_value()

    return types.void(), code


@intrinsic(prefer_literal=True)
def fields_of(ctx: Any, fields: Any, n: Any) -> Any:
    """The first n fields, int64 each: `x, n_in = fields_of(fields, 2)`."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        p = pointer(b, args[0], i64)
        numbers = [b.load(b.gep(p, [ir.Constant(i64, k)])) for k in range(n.literal_value)]
        return context.make_tuple(b, sig.return_type, numbers)

    return types.UniTuple(types.int64, n.literal_value)(fields, n), code


@intrinsic
def number_of(ctx: Any, field: Any) -> Any:
    """A field that holds a float, as float32."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return b.fptrunc(b.bitcast(args[0], ir.DoubleType()), ir.FloatType())

    return types.float32(types.int64), code
