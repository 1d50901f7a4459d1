"""Intel's matrix unit: products of bfloat16 tiles [16, 32] x [32, 16] in one instruction."""

import ctypes
import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from llm.kernels.simd import FEATURES, i8, i64, pointer

TILE_BYTES = 1024
# The palette, then for each of 8 tiles how many bytes a row has, then how many rows.
TILES = np.zeros(64, np.uint8)
TILES[0] = 1
TILES[16:32].view(np.uint16)[:] = 64
TILES[48:56] = 16


IN_PROCESSOR = {"amx-tile", "amx-bf16"} <= FEATURES


@cache
def available() -> bool:
    """Whether the processor has the unit and the system grants its use (Linux wants to be asked)."""
    if not IN_PROCESSOR or platform.system() != "Linux":
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0


def _emit(b: ir.IRBuilder, name: str, *args: ir.Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [a.type for a in args])
    b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.x86.{name}"), args)


@intrinsic
def start_tiles(ctx: Any, config: Any) -> Any:
    """Set this thread's tiles up as at the address of TILES."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        _emit(b, "ldtilecfg", pointer(b, args[0], i8))
        return context.get_dummy_value()

    return types.void(types.intp), code


@intrinsic
def stop_tiles(ctx: Any) -> Any:
    """Give the tiles back, or every switch of threads saves 8 KiB more."""

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        _emit(b, "tilerelease")
        return context.get_dummy_value()

    return types.void(), code


def _store_quarter(b: ir.IRBuilder, tile: ir.Value, t: int, out: ir.Value) -> None:
    """A tile as quarter t of float32 [32, 32]."""
    p = b.add(out, ir.Constant(i64, t // 2 * 16 * 128 + t % 2 * 64))
    _emit(b, "tilestored64", tile, pointer(b, p, i8), ir.Constant(i64, 128))


@intrinsic
def multiply_tiles(ctx: Any, x: Any, next_x: Any, w0: Any, w1: Any, n_block: Any, out: Any) -> Any:
    """x [32, 32 n_block] times two groups of 16 rows -> out float32 [32, 32].

    All by address: x is two rows of tiles, `next_x` bytes apart, each tile bfloat16 [16, 32]; w0 and w1 are
    bfloat16 pairs [16 n_block, 16, 2].
    """

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, next_x, w0, w1, n_block, out = args
        step = ir.Constant(i64, TILE_BYTES)
        number = [ir.Constant(i8, t) for t in range(8)]
        for t in range(4):
            _emit(b, "tilezero", number[t])
        with cgutils.for_range(b, n_block, intp=i64) as loop:
            offset = b.mul(loop.index, step)
            for t, base in enumerate((x, b.add(x, next_x), w0, w1), 4):
                _emit(b, "tileloadd64", number[t], pointer(b, b.add(base, offset), i8), ir.Constant(i64, 64))
            for t in range(4):
                _emit(b, "tdpbf16ps", number[t], number[4 + t // 2], number[6 + t % 2])
        for t in range(4):
            _store_quarter(b, number[t], t, out)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), code


@intrinsic
def multiply_split_tiles(ctx: Any, x: Any, next_x: Any, w0: Any, w1: Any, n_block: Any, out: Any) -> Any:
    """As `multiply_tiles`, of numbers split in two, high + low: each tile is followed by that of the rest.

    Gives the sum of high high, high low and low high, all but 2^-18 of the product.
    """

    def code(context: Any, b: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, next_x, w0, w1, n_block, out = args
        step = ir.Constant(i64, TILE_BYTES)
        number = [ir.Constant(i8, t) for t in range(8)]
        bases = x, b.add(x, next_x), w0, w1

        def load(t: int, at: ir.Value) -> None:
            _emit(b, "tileloadd64", number[t], pointer(b, at, i8), ir.Constant(i64, 64))

        def multiply() -> None:
            for t in range(4):
                _emit(b, "tdpbf16ps", number[t], number[4 + t // 2], number[6 + t % 2])

        for t in range(4):
            _emit(b, "tilezero", number[t])
        with cgutils.for_range(b, n_block, intp=i64) as loop:
            high = [b.add(base, b.mul(loop.index, b.add(step, step))) for base in bases]
            low = [b.add(base, step) for base in high]
            for t in range(4):
                load(4 + t, high[t])
            multiply()
            load(6, low[2])
            load(7, low[3])
            multiply()
            load(4, low[0])
            load(5, low[1])
            load(6, high[2])
            load(7, high[3])
            multiply()
        for t in range(4):
            _store_quarter(b, number[t], t, out)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), code
