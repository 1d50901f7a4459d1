"""From a file's rows to groups of 16 interleaved rows; `quants` describes the form that comes out."""

from numba import types

from llm.kernels.quants import BF16, BLOCK_FORMATS, F16, F32
from llm.kernels.simd import i16, i32
from llm.kernels.simd_ir import ADDRESS, Value, emitted


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
