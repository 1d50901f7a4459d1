"""Products of many rows, as calls of tasks: what prompts and pictures are made of.

There are two tasks for each arithmetic. One brings rows of x into the form that is multiplied. The other
unpacks two groups of weights into panels and multiplies them with some rows. The table of groups is int64
[n_group, 5]: format, address, first output, number of outputs (16, fewer in a last group), address of the
biases (0: none); with `gated`, group i of the first half holds gates for outputs of group i of the second.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm.kernels.amx import TILE_BYTES, TILES, multiply_tiles, start_tiles, stop_tiles
from llm.kernels.jit import inline, numba
from llm.kernels.matmul_ends import (
    ACTS,
    INT8_BYTES,
    INT15_BYTES,
    activate,
    bf16_row,
    int8_row,
    int15_row,
    norm_row,
    put,
)
from llm.kernels.matmul_few import ENTRY_BYTES
from llm.kernels.matmul_panels import panel_bf16, panel_f32, panel_int8
from llm.kernels.matmul_tiles import (
    PANEL_INT8_BYTES,
    multiply_bf16,
    multiply_f32,
    multiply_int8,
    multiply_int8_in_halves,
    multiply_int15,
    multiply_int15_in_halves,
)
from llm.kernels.operands import F32, Act, Norm
from llm.kernels.quants import BLOCK_FORMATS
from llm.kernels.simd import load_f32, load_f32_part, peek_i64, store_f32, zeros_f32
from llm.kernels.tasks import WORK, Calls, Task, fields_of, number_of

HALVES = tuple(number for number, f in BLOCK_FORMATS.items() if f.scales.halves)
OUT_BYTES = 4096  # of a thread's area: products float32 [32, 32]; then two panels, or a row of x
PANEL_F32_BYTES = 2048
CACHED = 1 << 20  # bytes of x that a thread's cache should hold beside a panel
CHUNK = 16  # rows of x that a task brings into form


@dataclass(frozen=True)
class Arithmetic:
    """How many rows are multiplied; `few` rows and less are better multiplied with the weights as they are.

    A block of 32 numbers takes `x_bytes` of a row of x and `panel_bytes` of a panel.
    """

    prepare: Task
    multiply: Task
    x_bytes: int
    panel_bytes: int
    few: int


@inline
def _times_amx(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    multiply_tiles(x, 16 * next_x, w0, w1, n_block, out)


@inline
def _times_bf16(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    multiply_bf16(x, next_x, w0, w1, n_block, out)


@inline
def _times_int15(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    if halves:
        multiply_int15_in_halves(x, next_x, w0, w1, n_block, out)
    else:
        multiply_int15(x, next_x, w0, w1, n_block, out)


@inline
def _times_int8(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    if halves:
        multiply_int8_in_halves(x, next_x, w0, w1, n_block, out)
    else:
        multiply_int8(x, next_x, w0, w1, n_block, out)


@inline
def _times_f32(halves, x, next_x, w0, w1, n_block, out):  # type: ignore[no-untyped-def]
    multiply_f32(x, next_x, w0, w1, 32 * n_block, out)


@inline
def _put_tiled(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    bf16_row(row, n_block, rows + t // 16 * n_block * TILE_BYTES + t % 16 * 64, TILE_BYTES)


@inline
def _put_bf16(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    bf16_row(row, n_block, rows + t * n_block * 64, 64)


@inline
def _put_int15(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    int15_row(row, n_block, rows + t * n_block * INT15_BYTES)


@inline
def _put_int8(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    int8_row(row, n_block, rows + t * n_block * INT8_BYTES)


@inline
def _put_f32(row, n_block, rows, t):  # type: ignore[no-untyped-def]
    for p in range(0, n_block * 128, 64):
        store_f32(rows + t * n_block * 128 + p, load_f32(row + p))


@inline
def _put_rows(entry, act, start, n, products, residual, out, n_out):  # type: ignore[no-untyped-def]
    """Products of n rows from row `start` on with a group; each is 16 numbers, 128 bytes apart."""
    first, width, bias = peek_i64(entry + 16), peek_i64(entry + 24), peek_i64(entry + 32)
    b = load_f32_part(bias, width) if bias else zeros_f32()
    for i in range(n):
        to = 4 * ((start + i) * n_out + first)
        v = activate(act, load_f32(products + i * 128) + b)
        put(v, width, residual + to if residual else 0, out + to)


@inline
def _put_gated(gate, up, act, start, n, products, out, n_out):  # type: ignore[no-untyped-def]
    """Gates from one group, what they gate from the other."""
    first, width, bias, up_bias = (
        peek_i64(gate + 16),
        peek_i64(gate + 24),
        peek_i64(gate + 32),
        peek_i64(up + 32),
    )
    b, c = zeros_f32(), zeros_f32()
    if bias:
        b, c = load_f32_part(bias, width), load_f32_part(up_bias, width)
    for i in range(n):
        v = activate(act, load_f32(products + i * 128) + b) * (load_f32(products + i * 128 + 64) + c)
        put(v, width, 0, out + 4 * ((start + i) * n_out + first))


def _tasks(
    x_bytes: int, put_row: Any, panel_bytes: int, unpack: Any, multiply: Any, n_row: int
) -> tuple[Any, Any]:
    """What the two tasks of an arithmetic do; `n_row` rows are multiplied at once."""

    @inline
    def prepare(i, thread, fields):  # type: ignore[no-untyped-def]
        x, n_tok, n_in, weight, bias, eps, center, rows, areas, area = fields_of(fields, 10)
        row, n_block = areas + thread * area, (n_in + 31) // 32
        for t in range(i * CHUNK, min((i + 1) * CHUNK, n_tok)):
            norm_row(x + 4 * t * n_in, n_in, weight, bias, number_of(eps), center, row)
            put_row(row, n_block, rows, t)

    @inline
    def multiply_pair(i, thread, fields):  # type: ignore[no-untyped-def]
        rows, n_tok, n_block, each, groups, n_group, n_pair = fields_of(fields, 7)
        act, gated, residual, out, n_out, areas, area = fields_of(fields + 56, 7)
        pair = i % n_pair
        g = groups + ENTRY_BYTES * (pair if gated else 2 * pair)
        h = groups + ENTRY_BYTES * (pair + n_pair if gated else min(2 * pair + 1, n_group - 1))
        products = areas + thread * area
        first, second = products + OUT_BYTES, products + OUT_BYTES + n_block * panel_bytes
        for k in range(2):
            entry = h if k else g
            unpack(peek_i64(entry), peek_i64(entry + 8), n_block, second if k else first)
        halves = peek_i64(g) in HALVES or peek_i64(h) in HALVES
        start = i // n_pair * each
        for t in range(start, min(start + each, n_tok), n_row):
            multiply(
                halves, rows + t * n_block * x_bytes, n_block * x_bytes, first, second, n_block, products
            )
            n = min(n_row, n_tok - t)
            if gated:
                _put_gated(g, h, act, t, n, products, out, n_out)
            else:
                _put_rows(g, act, t, n, products, residual, out, n_out)
                if h > g:
                    _put_rows(h, act, t, n, products + 64, residual, out, n_out)

    return prepare, multiply_pair


_prepare_amx, _multiply_amx = _tasks(64, _put_tiled, TILE_BYTES, panel_bf16, _times_amx, 32)
_prepare_bf16, _multiply_bf16 = _tasks(64, _put_bf16, TILE_BYTES, panel_bf16, _times_bf16, 8)
_prepare_int15, _multiply_int15 = _tasks(
    INT15_BYTES, _put_int15, PANEL_INT8_BYTES, panel_int8, _times_int15, 2
)
_prepare_int8, _multiply_int8 = _tasks(INT8_BYTES, _put_int8, PANEL_INT8_BYTES, panel_int8, _times_int8, 4)
_prepare_f32, _multiply_f32 = _tasks(128, _put_f32, PANEL_F32_BYTES, panel_f32, _times_f32, 8)


@Task
def PREPARE_AMX(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _prepare_amx(i, thread, fields)


@Task
def MULTIPLY_AMX(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    start_tiles(peek_i64(fields + 112))
    _multiply_amx(i, thread, fields)
    stop_tiles()


@Task
def PREPARE_BF16(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _prepare_bf16(i, thread, fields)


@Task
def MULTIPLY_BF16(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _multiply_bf16(i, thread, fields)


@Task
def PREPARE_INT15(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _prepare_int15(i, thread, fields)


@Task
def MULTIPLY_INT15(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _multiply_int15(i, thread, fields)


@Task
def PREPARE_INT8(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _prepare_int8(i, thread, fields)


@Task
def MULTIPLY_INT8(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _multiply_int8(i, thread, fields)


@Task
def PREPARE_F32(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _prepare_f32(i, thread, fields)


@Task
def MULTIPLY_F32(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    _multiply_f32(i, thread, fields)


# All formats but float32, on the matrix unit and in dot products; block formats alone, with codes of x of 15
# and of 8 bits; all formats.
AMX = Arithmetic(PREPARE_AMX, MULTIPLY_AMX, 64, TILE_BYTES, 8)
BF16 = Arithmetic(PREPARE_BF16, MULTIPLY_BF16, 64, TILE_BYTES, 8)
INT15 = Arithmetic(PREPARE_INT15, MULTIPLY_INT15, INT15_BYTES, PANEL_INT8_BYTES, 8)
INT8 = Arithmetic(PREPARE_INT8, MULTIPLY_INT8, INT8_BYTES, PANEL_INT8_BYTES, 3)
EXACT = Arithmetic(PREPARE_F32, MULTIPLY_F32, 128, PANEL_F32_BYTES, 4)


def multiplied_many(
    calls: Calls,
    how: Arithmetic,
    x: F32,
    norm: Norm | None,
    groups: NDArray[np.int64],
    act: Act | None,
    gated: bool,
    residual: F32 | None,
    out: F32,
) -> None:
    """Add act(norm(x) W^T + b) + residual or, gated, act(gate) * up; x [n_tok, n_in] -> out."""
    n_tok, n_in = x.shape
    n_block, n_thread = -(-n_in // 32), numba.get_num_threads()
    row, area = n_block * how.x_bytes, OUT_BYTES + 2 * n_block * how.panel_bytes
    n_row_bytes = -(-n_tok // 32) * 32 * row
    rows = calls.address(WORK.take(n_row_bytes + n_thread * area))
    areas = rows + n_row_bytes
    before = (None, None, 0.0, False) if norm is None else (norm.weight, norm.bias, norm.eps, norm.center)
    calls.add(how.prepare, -(-n_tok // CHUNK), x, n_tok, n_in, *before, rows, areas, area)
    n_pair = len(groups) // 2 if gated else -(-len(groups) // 2)
    each = max(64, min(CACHED // row, n_tok * n_pair // (n_thread * 3)) // 32 * 32)
    table = (groups, len(groups), n_pair, ACTS[act], gated, residual, out, out.shape[1])
    calls.add(
        how.multiply, n_pair * -(-n_tok // each), rows, n_tok, n_block, each, *table, areas, area, TILES
    )
