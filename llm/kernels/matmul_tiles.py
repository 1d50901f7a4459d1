"""Inner loops of products with many rows: a few rows of x times two groups of 16 weight rows.

Each exists once, for weights unpacked into panels (see `matmul_panels`), with all its sums in registers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from llm.kernels.matmul_ends import INT8_BYTES, INT15_BYTES
from llm.kernels.simd import i32
from llm.kernels.simd_dot import dot2_bf16, dot4
from llm.kernels.simd_ir import ADDRESS, F32X16, U8X64, U32X16, Value, Variable, emitted

PANEL_INT8_BYTES = 768  # of a block of 32: codes [8, 16, 4], two scales f32 [16], two leasts f32 [16]
Sums = list[list[Variable]]


def _multiply(n_row: int, x_step: int, w_step: int, block: Callable[..., None]) -> Any:
    """A function of `n_row` rows of x, `next_x` bytes apart, and two panels; it leaves float32 [n_row, 32].

    A block is `x_step` bytes of a row and `w_step` of a panel; `block(sums, rows, panels)` adds its products.
    """

    @emitted(types.void, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
    def multiply(x: Value, next_x: Value, w0: Value, w1: Value, n_block: Value, out: Value) -> None:
        sums = [[Variable(x.constant(0, F32X16)) for _ in (w0, w1)] for _ in range(n_row)]
        rows = [x + next_x * i for i in range(n_row)]
        with n_block.times() as kb:
            block(sums, [r + kb * x_step for r in rows], [w + kb * w_step for w in (w0, w1)])
        for i, row in enumerate(sums):
            for j, total in enumerate(row):
                (out + 128 * i + 64 * j).store(total.get())

    return multiply


def _f32_column(sums: Sums, rows: list[Value], panels: list[Value]) -> None:
    """x float32, panel float32 [16]."""
    w = [p.load(F32X16) for p in panels]
    for i, row in enumerate(rows):
        x = row.spread()
        for j in (0, 1):
            sums[i][j].add(x, w[j])


def _bf16_block(sums: Sums, rows: list[Value], panels: list[Value]) -> None:
    """x bfloat16 [32], panel bfloat16 pairs [16, 16, 2]."""
    for k in range(16):
        w = [(p + 64 * k).load(U8X64) for p in panels]
        for i, row in enumerate(rows):
            x = (row + 4 * k).spread(i32).bits(U8X64)
            for j in (0, 1):
                total = sums[i][j]
                total.set(dot2_bf16(total.get(), w[j], x))


def _int_block(n_part: int, halves: bool, sums: Sums, rows: list[Value], panels: list[Value]) -> None:
    """x as `int8_row` leaves it, or in two parts as `int15_row`; with `halves` of columns scaled apart."""
    dots = _dots(n_part, rows, panels)
    scales, leasts = ([[(p + at + 64 * h).load(F32X16) for h in (0, 1)] for p in panels] for at in (512, 640))
    for i, row in enumerate(rows):
        x_scale, *x_sums, x_sum = ((row + 32 * n_part + at).spread() for at in (0, 4, 8, 12))
        for j in (0, 1):
            if halves:
                for h in (0, 1):
                    sums[i][j].add(dots[i][j][h].to_f32(), scales[j][h] * x_scale)
                    sums[i][j].add(leasts[j][h], x_sums[h])
            else:
                low, high = dots[i][j]
                sums[i][j].add((low + high).to_f32(), scales[j][0] * x_scale)
                sums[i][j].add(leasts[j][0], x_sum)


def _dots(n_part: int, rows: list[Value], panels: list[Value]) -> list[list[list[Value]]]:
    """[row][panel][half of the columns]."""
    dots = [[[[r.constant(0, U32X16)] * n_part for _ in (0, 1)] for _ in panels] for r in rows]
    for q in range(8):
        w = [(p + 64 * q).load(U8X64) for p in panels]
        for i, row in enumerate(rows):
            for part in range(n_part):
                x = (row + 32 * part + 4 * q).spread(i32).bits(U8X64)
                for j in (0, 1):
                    parts = dots[i][j][q // 4]
                    parts[part] = dot4(parts[part], w[j], x)
    return [
        [[(h[0] << 7) + h[1] if n_part == 2 else h[0] for h in of_panel] for of_panel in of_row]
        for of_row in dots
    ]


multiply_f32 = _multiply(8, 4, 64, _f32_column)  # a block is a column here
multiply_bf16 = _multiply(8, 64, 1024, _bf16_block)
multiply_int8 = _multiply(4, INT8_BYTES, PANEL_INT8_BYTES, partial(_int_block, 1, False))
multiply_int8_in_halves = _multiply(4, INT8_BYTES, PANEL_INT8_BYTES, partial(_int_block, 1, True))
multiply_int15 = _multiply(2, INT15_BYTES, PANEL_INT8_BYTES, partial(_int_block, 2, False))
multiply_int15_in_halves = _multiply(2, INT15_BYTES, PANEL_INT8_BYTES, partial(_int_block, 2, True))
