"""One row of x times a group of 16 weight rows, straight from their packed form: what decoding is made of."""

from llm.kernels.matmul_ends import INT15_BYTES
from llm.kernels.quants import BF16, F16, F32, READERS, Reader, load_half
from llm.kernels.simd import F32 as F32_VECTOR
from llm.kernels.simd import i32
from llm.kernels.simd_dot import dot4
from llm.kernels.simd_ir import ADDRESS, F32X16, U8X64, U32X16, Value, Variable, emitted


def _blocks(reader: Reader, fmt: Value, group: Value, x: Value, n_block: Value, sums: list[Variable]) -> None:
    with n_block.times() as kb:
        codes, (low, high, least_low, least_high) = reader.read(fmt, group, kb)
        p = x + kb * INT15_BYTES
        dots = [[group.constant(0, U32X16)] * 2 for _ in range(4)]  # four, or each would wait for the last
        for q, code in enumerate(codes):
            for part in (0, 1):
                word = (p + 32 * part + 4 * q).spread(i32).bits(U8X64)
                dots[q // 2][part] = dot4(dots[q // 2][part], code, word)
        first, second = ((a[0] + b[0] << 7) + a[1] + b[1] for a, b in (dots[:2], dots[2:]))
        scale, of_low, of_high, of_all = ((p + at).spread() for at in (64, 68, 72, 76))
        if reader.halves:
            sums[0].add(first.to_f32(), low * scale)
            sums[1].add(second.to_f32(), high * scale)
            sums[2].add(least_low, of_low)
            sums[3].add(least_high, of_high)
        else:
            sums[0].add((first + second).to_f32(), low * scale)
            sums[1].add(least_low, of_all)


def float_columns(fmt: int, p: Value) -> list[Value]:
    """Four columns of a float format as float32."""
    if fmt == F32:
        return [(p + 64 * i).load(F32X16) for i in range(4)]
    if fmt == F16:
        return [load_half(p + 32 * i) for i in range(4)]
    pairs = [(p + 64 * i).load(U32X16) for i in (0, 1)]
    return [v.bits(F32X16) for pair in pairs for v in (pair << 16, pair & 0xFFFF0000)]


def _columns(fmt: int, n_bytes: int, group: Value, x: Value, n_block: Value, sums: list[Variable]) -> None:
    with (n_block << 3).times() as i:
        for k, column in enumerate(float_columns(fmt, group + i * n_bytes)):
            sums[k].add(column, (x + i * 16 + 4 * k).spread())


@emitted(F32_VECTOR, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
def product(fmt: Value, group: Value, x: Value, x_int15: Value, n_block: Value) -> Value:
    """16 sums; x by address in the two forms that formats take: float32, and as `int15_row` leaves it."""
    sums = [Variable(group.constant(0, F32X16)) for _ in range(4)]
    for reader in READERS:
        with fmt.equals(*reader.formats):
            _blocks(reader, fmt, group, x_int15, n_block, sums)
    for number, n_bytes in ((F32, 256), (F16, 128), (BF16, 128)):
        with fmt.equals(number):
            _columns(number, n_bytes, group, x, n_block, sums)
    return sums[0].get() + sums[1].get() + (sums[2].get() + sums[3].get())
