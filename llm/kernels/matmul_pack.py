"""From a file's rows to groups of 16 interleaved rows, and from these to numbers.

`quants` describes the form of a group.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from llm.kernels import operands
from llm.kernels.jit import numba
from llm.kernels.matmul_panels import panel_f32
from llm.kernels.quants import BF16, BLOCK_FORMATS, F16, F32, ROWS, group_bytes
from llm.kernels.simd import i16, i32, peek_f32, peek_i32, poke_f32, poke_i64
from llm.kernels.simd_ir import ADDRESS, Value, emitted
from llm.kernels.tasks import Calls, Task, aligned, fields_of, number_of

PANEL_BYTES = 32 * ROWS * 4  # of a block
U8 = NDArray[np.uint8]


def packed(
    calls: Calls, fmt: int, table: U8, row_bytes: int, rows: int | operands.I32, n_in: int, to: U8
) -> None:
    """Add what makes groups of rows of `n_in` numbers: the first `rows` of a table, or those named."""
    ids, n_row = (None, rows) if isinstance(rows, int) else (rows, len(rows))
    assert ids is None or ids.dtype == np.int32, rows
    size = group_bytes(fmt, -(-n_in // 32) * 32)
    calls.add(PACK, -(-n_row // ROWS), fmt, table, row_bytes, ids, n_row, n_in, to, size)


def unpacked(calls: Calls, fmt: int, groups: U8, scale: float, out: operands.F32) -> None:
    """Add what makes numbers, times `scale`, of groups -> out [n_row, n_in]."""
    n_row, n_in = out.shape
    n_block = -(-n_in // 32)
    panels = aligned(numba.config.NUMBA_NUM_THREADS * n_block * PANEL_BYTES)
    size = group_bytes(fmt, n_block * 32)
    calls.add(UNPACK, -(-n_row // ROWS), fmt, groups, size, float(scale), panels, out, n_row, n_in)


@emitted(types.void, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def pack_row(fmt: Value, row: Value, group: Value, r: Value, n_in: Value) -> None:
    """A row of the file, by address, as row r of a group; rows come in order, to a group of zeros."""
    for number, layout in BLOCK_FORMATS.items():
        with fmt.equals(number):
            layout.pack(row, group, r, n_in)
    for number, kind, n_bytes in ((F32, i32, 4), (F16, i16, 2)):
        with fmt.equals(number), n_in.times() as k:
            (group + k * (16 * n_bytes) + r * n_bytes).store((row + k * n_bytes).load(kind))
    with fmt.equals(BF16), n_in.times() as k:
        (group + (k >> 1) * 64 + r * 4 + (k & 1) * 2).store((row + k * 2).load(i16))


@Task
def PACK(g, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    fmt, table, row_bytes, ids, n_row, n_in, groups, size = fields_of(fields, 8)
    group = groups + g * size
    for i in range(0, size, 8):
        poke_i64(group + i, 0)
    for r in range(min(ROWS, n_row - g * ROWS)):
        row = g * ROWS + r
        if ids:
            row = peek_i32(ids + 4 * row)
        pack_row(fmt, table + row * row_bytes, group, r, n_in)


@Task
def UNPACK(g, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    fmt, groups, size, scale, panels, out, n_row, n_in = fields_of(fields, 8)
    n_block, factor = (n_in + 31) // 32, number_of(scale)
    panel = panels + thread * n_block * PANEL_BYTES
    panel_f32(fmt, groups + g * size, n_block, panel)
    for r in range(min(ROWS, n_row - g * ROWS)):
        for k in range(n_in):
            number = peek_f32(panel + 4 * (ROWS * k + r))
            poke_f32(out + 4 * ((g * ROWS + r) * n_in + k), number * factor)
