"""Unpacking a group of weights into a panel, the form that the inner loops of `matmul_tiles` multiply.

A panel is float32 [n_in, 16], bfloat16 pairs [n_in / 2, 16, 2], or for int8 PANEL_INT8_BYTES for each block.
"""

from collections.abc import Callable

from numba import types

from llm.kernels.matmul_rows import float_columns
from llm.kernels.matmul_tiles import PANEL_INT8_BYTES
from llm.kernels.quants import BF16, F16, F32, READERS, Reader
from llm.kernels.simd_dot import pack_bf16
from llm.kernels.simd_ir import ADDRESS, U8X64, U32X16, Value, emitted


def _put_f32(four: list[Value], to: Value) -> None:
    for i, column in enumerate(four):
        (to + 64 * i).store(column)


def _put_bf16(four: list[Value], to: Value) -> None:
    for i in (0, 1):
        (to + 64 * i).store(pack_bf16(four[2 * i], four[2 * i + 1]))


def _numbers(
    reader: Reader, put: Callable[..., None], step: int, fmt: Value, group: Value, n: Value, panel: Value
) -> None:
    """Blocks as numbers; four columns are `step` bytes of the panel."""
    with n.times() as kb:
        codes, (low, high, least_low, least_high) = reader.read(fmt, group, kb)
        for q, code in enumerate(codes):
            scale, least = (low, least_low) if q < 4 else (high, least_high)
            words = code.bits(U32X16)
            four = [(words >> 8 * i & 255).to_f32().fma(scale, least) for i in range(4)]
            put(four, panel + kb * (8 * step) + q * step)


def _float_numbers(
    fmt: int, put: Callable[..., None], step: int, group: Value, n: Value, panel: Value
) -> None:
    with (n << 3).times() as i:
        put(float_columns(fmt, group + i * (256 if fmt == F32 else 128)), panel + i * step)


@emitted(types.void, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def panel_f32(fmt: Value, group: Value, n_block: Value, panel: Value) -> None:
    for reader in READERS:
        with fmt.equals(*reader.formats):
            _numbers(reader, _put_f32, 256, fmt, group, n_block, panel)
    for number in (F32, F16, BF16):
        with fmt.equals(number):
            _float_numbers(number, _put_f32, 256, group, n_block, panel)


@emitted(types.void, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def panel_bf16(fmt: Value, group: Value, n_block: Value, panel: Value) -> None:
    """Formats but float32."""
    for reader in READERS:
        with fmt.equals(*reader.formats):
            _numbers(reader, _put_bf16, 128, fmt, group, n_block, panel)
    for number in (F16, BF16):
        with fmt.equals(number):
            _float_numbers(number, _put_bf16, 128, group, n_block, panel)


@emitted(types.void, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def panel_int8(fmt: Value, group: Value, n_block: Value, panel: Value) -> None:
    """Block formats alone."""
    for reader in READERS:
        with fmt.equals(*reader.formats), n_block.times() as kb:
            codes, scales = reader.read(fmt, group, kb)
            to = panel + kb * PANEL_INT8_BYTES
            for i, vector in enumerate([*codes, *(s.bits(U8X64) for s in scales)]):
                (to + 64 * i).store(vector)
