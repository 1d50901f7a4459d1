"""Few rows of x times a group of 16 weight rows, straight from their packed form: decoding is made of it."""

from collections.abc import Sequence
from functools import reduce

from numba import types

from llm.kernels.matmul_ends import INT15_BYTES
from llm.kernels.quants import BF16, F16, F32, READERS, Reader, load_half
from llm.kernels.simd import F32 as F32_VECTOR
from llm.kernels.simd import i32
from llm.kernels.simd_dot import dot4
from llm.kernels.simd_ir import ADDRESS, F32X16, U8X64, U32X16, Value, Variable, emitted

TOGETHER = 4  # rows of x
Sums = list[list[Variable]]  # of each row of x four, to be added up


def _blocks(
    reader: Reader, fmt: Value, group: Value, rows: Sequence[Value], n_block: Value, sums: Sums
) -> None:
    with n_block.times() as kb:
        codes, (low, high, least_low, least_high) = reader.read(fmt, group, kb)
        for x, total in zip(rows, sums):
            p = x + kb * INT15_BYTES
            first, second = (_half(p + at, codes[at // 4 : at // 4 + 4], len(rows)) for at in (0, 16))
            scale, of_low, of_high, of_all = ((p + at).spread() for at in (64, 68, 72, 76))
            if reader.halves:
                total[0].add(first.to_f32(), low * scale)
                total[1].add(second.to_f32(), high * scale)
                total[2].add(least_low, of_low)
                total[3].add(least_high, of_high)
            else:
                total[0].add((first + second).to_f32(), low * scale)
                total[1].add(least_low, of_all)


def _half(p: Value, codes: Sequence[Value], n_row: int) -> Value:
    """Sums of 16 columns, 128 times the high parts of x at p and the low ones 32 bytes on."""
    zero = p.constant(0, U32X16)
    words = [[(p + 32 * part + 4 * q).spread(i32).bits(U8X64) for q in range(4)] for part in (0, 1)]
    if n_row > 1:  # other rows are worked on while each sum waits for the last
        high = reduce(lambda total, q: dot4(total, codes[q], words[0][q]), range(4), zero)
        return reduce(lambda total, q: dot4(total, codes[q], words[1][q]), range(4), high << 7)
    sums = [[dot4(dot4(zero, codes[q], w[q]), codes[q + 1], w[q + 1]) for w in words] for q in (0, 2)]
    (a, b), (c, d) = sums
    return (a + c << 7) + b + d


def float_columns(fmt: int, p: Value) -> list[Value]:
    """Four columns of a float format as float32."""
    if fmt == F32:
        return [(p + 64 * i).load(F32X16) for i in range(4)]
    if fmt == F16:
        return [load_half(p + 32 * i) for i in range(4)]
    pairs = [(p + 64 * i).load(U32X16) for i in (0, 1)]
    return [v.bits(F32X16) for pair in pairs for v in (pair << 16, pair & 0xFFFF0000)]


def _columns(fmt: int, n_bytes: int, group: Value, rows: Sequence[Value], n_block: Value, sums: Sums) -> None:
    with (n_block << 3).times() as i:
        for k, column in enumerate(float_columns(fmt, group + i * n_bytes)):
            for x, total in zip(rows, sums):
                total[k].add(column, (x + i * 16 + 4 * k).spread())


def _products(fmt: Value, group: Value, x: Value, next_x: Value, n_block: Value, n_row: int) -> list[Value]:
    """16 sums for each of `n_row` rows of x, `next_x` bytes apart.

    A row is there in the two forms that formats take: float32, and then as `int15_row` leaves it.
    """
    sums = [[Variable(group.constant(0, F32X16)) for _ in range(4)] for _ in range(n_row)]
    rows = [x + next_x * i for i in range(n_row)]
    for reader in READERS:
        with fmt.equals(*reader.formats):
            _blocks(reader, fmt, group, [row + n_block * 128 for row in rows], n_block, sums)
    for number, n_bytes in ((F32, 256), (F16, 128), (BF16, 128)):
        with fmt.equals(number):
            _columns(number, n_bytes, group, rows, n_block, sums)
    return [a.get() + b.get() + (c.get() + d.get()) for a, b, c, d in sums]


@emitted(F32_VECTOR, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def product(fmt: Value, group: Value, x: Value, n_block: Value) -> Value:
    """16 sums of one row."""
    return _products(fmt, group, x, x, n_block, 1)[0]


@emitted(types.void, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def products(fmt: Value, group: Value, x: Value, next_x: Value, n_block: Value, out: Value) -> None:
    """16 sums of each of TOGETHER rows -> float32 [TOGETHER, 16]: the weights are unpacked once for them."""
    for i, total in enumerate(_products(fmt, group, x, next_x, n_block, TOGETHER)):
        (out + 64 * i).store(total)
