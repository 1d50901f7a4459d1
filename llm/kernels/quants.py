"""Weight formats in memory: 16 rows of a matrix interleaved, so that a register holds 4 numbers of each.

A *group* is 16 rows. Its block formats are a stream of blocks of 32 columns. A number is

    scale * code + least

where least is -zero * scale in formats whose codes are centred on `zero`. A block is its codes (see
`quants_codes`), then its scales, 16 at a time. Formats of wider blocks in the file have the factors that
belong to these at the head of as many blocks of 32. Nothing is rounded: the file's numbers come out as they
are, from memory that is at most a fifth larger.

Float formats are columns of 16 rows: float32 and float16 [n_in, 16], bfloat16 pairs [n_in / 2, 16, 2].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from llvmlite import ir
from numba.core import cgutils

from llm.gguf import BLOCK as FILE_BLOCK
from llm.gguf import GgmlType
from llm.kernels import quants_files as files
from llm.kernels.quants_codes import BITS, Codes, of_table
from llm.kernels.quants_grids import of_grid
from llm.kernels.simd import FEATURES, half_to_f32_ir, i64
from llm.kernels.simd_ir import F32X16, U8X16, U8X64, U16X16, U32X16, Value

ROWS = 16  # in a group
BLOCK = 32  # columns
Parts = tuple[Value, Value, Value, Value]  # of a block: scales of columns 0..15 and 16..31, leasts of these


def load_half(p: Value) -> Value:
    """16 float16 -> float32."""
    return p.of(half_to_f32_ir(p.b, p.load(U16X16).v))


def _whole(p: Value) -> Value:
    """16 bytes as float32."""
    return p.load(U8X16).widen(U32X16).to_f32()


def _whole_signed(p: Value) -> Value:
    return p.load(U8X16).widen_signed(U32X16).to_f32()


def _centred(low: Value, high: Value, zero: int) -> Parts:
    return low, high, low * -zero, high * -zero


def _one(p: Value, head: Value, zero: int) -> Parts:
    s = load_half(p)
    return _centred(s, s, zero)


def _one_and_least(p: Value, head: Value, zero: int) -> Parts:
    s, least = load_half(p), load_half(p + 32)
    return s, s, least, least


def _power(p: Value, head: Value, zero: int) -> Parts:
    """2 to the power of a byte less 128, for codes that are doubled; 2^-128 becomes 0."""
    s = (p.load(U8X16).widen(U32X16) << 23).bits(F32X16) * 0.5
    return _centred(s, s, zero)


def _two_of_8_bits(p: Value, head: Value, zero: int) -> Parts:
    """Float8 of 4 bits of exponent and 3 of fraction, a float16 without its last bits; codes are doubled."""
    low, high = (p.of(half_to_f32_ir(p.b, ((p + i).load(U8X16).widen(U16X16) << 7).v)) * 128 for i in (0, 16))
    return _centred(low, high, zero)


def _of_head(p: Value, head: Value, zero: int) -> Parts:
    s = load_half(head)
    return _centred(s, s, zero)


def _signed(p: Value, head: Value, zero: int) -> Parts:
    s = load_half(head) * _whole_signed(p)
    return _centred(s, s, zero)


def _two_signed(p: Value, head: Value, zero: int) -> Parts:
    d = load_half(head)
    return _centred(d * _whole_signed(p), d * _whole_signed(p + 16), zero)


def _scale_and_least(p: Value, head: Value, zero: int) -> Parts:
    s, least = load_half(head) * _whole(p), load_half(head + 32) * _whole(p + 16) * -1
    return s, s, least, least


def _two_scales_and_leasts(p: Value, head: Value, zero: int) -> Parts:
    """Nibbles: scale and least of each half."""
    d, m = load_half(head), load_half(head + 32) * -1
    both = [(p + i).load(U8X16).widen(U32X16) for i in (0, 16)]
    low, high = (d * (v & 15).to_f32() for v in both)
    least_low, least_high = (m * (v >> 4).to_f32() for v in both)
    return low, high, least_low, least_high


def _two_odd(p: Value, head: Value, zero: int, *, unit: float) -> Parts:
    """Nibbles n that stand for (2 n + 1) `unit`."""
    d, both = load_half(head) * unit, p.load(U8X16).widen(U32X16)
    return _centred(d * ((both & 15) * 2 + 1).to_f32(), d * ((both >> 4) * 2 + 1).to_f32(), zero)


@dataclass(frozen=True)
class Scales:
    """One way to keep scales: bytes at the head and of a block, and how they are read (p, head, zero)."""

    head: int
    n_bytes: int
    read: Callable[[Value, Value, int], Parts]
    halves: bool = False  # whether columns 16..31 have scales of their own


ONE, ONE_AND_LEAST = Scales(0, 32, _one), Scales(0, 64, _one_and_least)
POWER, TWO_OF_8_BITS = Scales(0, 16, _power), Scales(0, 32, _two_of_8_bits, halves=True)
OF_HEAD, SIGNED, TWO_SIGNED = (
    Scales(32, 0, _of_head),
    Scales(32, 16, _signed),
    Scales(32, 32, _two_signed, True),
)
SCALE_AND_LEAST = Scales(64, 32, _scale_and_least)
TWO_SCALES_AND_LEASTS = Scales(64, 32, _two_scales_and_leasts, halves=True)
QUARTERS, EIGHTHS, WHOLE = (Scales(32, 16, partial(_two_odd, unit=unit), True) for unit in (1 / 4, 1 / 8, 1))


@dataclass(frozen=True)
class BlockFormat:
    """A block format in memory, and how the file's blocks come to it."""

    type: GgmlType
    codes: Codes
    zero: int
    scales: Scales
    file_codes: files.Codes
    file_scales: files.Scales = files.none
    file_head: files.Scales = files.none

    @property
    def block_bytes(self) -> int:
        return self.codes.n_bytes + self.scales.n_bytes

    @property
    def span(self) -> int:
        """Blocks of 32 columns in a block of the file."""
        return FILE_BLOCK[self.type][0] // BLOCK

    @property
    def span_bytes(self) -> int:
        return self.span * self.block_bytes + self.scales.head

    def read(self, group: Value, kb: Value) -> tuple[list[Value], Parts]:
        """Block kb: code vectors and scales."""
        head = group + (kb >> self.span.bit_length() - 1) * self.span_bytes
        p = head + (kb & self.span - 1) * self.block_bytes + self.scales.head
        return self.codes.unpack(p), self.scales.read(p + self.codes.n_bytes, head, self.zero)

    def pack(self, row: Value, group: Value, r: Value, n_in: Value) -> None:
        """A row of the file as row r of a group, which is zeros before row 0."""
        columns, n_bytes = FILE_BLOCK[self.type]
        with (n_in >> columns.bit_length() - 1).times() as i:
            block, head = row + i * n_bytes, group + i * self.span_bytes
            self.file_head(block, i, head, r)
            with i.constant(self.span).times() as j:
                p = head + self.scales.head + j * self.block_bytes
                self.codes.pack(p, r, *self.file_codes(block, j))
                self.file_scales(block, j, p + self.codes.n_bytes, r)


_IQ4 = of_table([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
_FP4 = of_table([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])  # doubled
_D, _D_AND_M = files.halves(0, 1), files.halves(0, 2)
T = GgmlType
_COMMON = [
    BlockFormat(T.Q4_0, BITS[4], 8, ONE, files.nibbles(2), _D),
    BlockFormat(T.Q4_1, BITS[4], 0, ONE_AND_LEAST, files.nibbles(4), _D_AND_M),
    BlockFormat(T.Q5_0, BITS[5], 16, ONE, files.nibbles(6, 2), _D),
    BlockFormat(T.Q5_1, BITS[5], 0, ONE_AND_LEAST, files.nibbles(8, 4), _D_AND_M),
    BlockFormat(T.Q8_0, BITS[8], 128, ONE, files.q8_0, _D),
    BlockFormat(
        T.Q2_K, BITS[2], 0, TWO_SCALES_AND_LEASTS, files.pairs(16), files.two_bytes(0), files.halves(80, 2)
    ),
    BlockFormat(T.Q3_K, BITS[3], 4, TWO_SIGNED, files.q3_k, files.q3_k_scales, files.halves(108, 1)),
    BlockFormat(T.Q4_K, BITS[4], 0, SCALE_AND_LEAST, files.q4_k, files.scales_and_leasts, _D_AND_M),
    BlockFormat(T.Q5_K, BITS[5], 0, SCALE_AND_LEAST, files.q5_k, files.scales_and_leasts, _D_AND_M),
    BlockFormat(T.Q6_K, BITS[6], 32, TWO_SIGNED, files.q6_k, files.two_bytes(192), files.halves(208, 1)),
    BlockFormat(T.IQ4_NL, _IQ4, 128, ONE, files.nibbles(2), _D),
    BlockFormat(T.IQ4_XS, _IQ4, 128, SIGNED, files.nibbles(8, step=16), files.iq4_xs_scales, _D),
    BlockFormat(T.MXFP4, _FP4, 128, POWER, files.nibbles(1), files.byte(0)),
]
_GRIDS = {
    T.IQ1_S: of_grid("IQ1_S", 4, 4, signed=False),
    T.IQ2_XXS: of_grid("IQ2_XXS", 4, 0, signed=True),
    T.IQ2_XS: of_grid("IQ2_XS", 4, 1, signed=True),
    T.IQ2_S: of_grid("IQ2_S", 4, 2, signed=True),
    T.IQ3_XXS: of_grid("IQ3_XXS", 8, 0, signed=True),
    T.IQ3_S: of_grid("IQ3_S", 8, 1, signed=True),
}
_RARE = [
    BlockFormat(T.IQ1_S, _GRIDS[T.IQ1_S], 128, EIGHTHS, files.iq1_s, files.iq1_s_scales, _D),
    BlockFormat(T.IQ1_M, _GRIDS[T.IQ1_S], 128, EIGHTHS, files.iq1_m, files.iq1_m_scales, files.iq1_m_head),
    BlockFormat(T.IQ2_XXS, _GRIDS[T.IQ2_XXS], 128, EIGHTHS, files.iq2_xxs, files.iq2_xxs_scales, _D),
    BlockFormat(T.IQ2_XS, _GRIDS[T.IQ2_XS], 128, EIGHTHS, files.iq2_xs, files.byte(66), _D),
    BlockFormat(T.IQ2_S, _GRIDS[T.IQ2_S], 128, EIGHTHS, files.iq2_s, files.byte(74), _D),
    BlockFormat(T.IQ3_XXS, _GRIDS[T.IQ3_XXS], 128, QUARTERS, files.iq3_xxs, files.iq3_xxs_scales, _D),
    BlockFormat(T.IQ3_S, _GRIDS[T.IQ3_S], 128, WHOLE, files.iq3_s, files.iq3_s_scales, _D),
    BlockFormat(T.TQ1_0, BITS[2], 1, OF_HEAD, files.tq1_0, file_head=files.halves(52, 1)),
    BlockFormat(T.TQ2_0, BITS[2], 1, OF_HEAD, files.pairs(0), file_head=files.halves(64, 1)),
    BlockFormat(T.NVFP4, _FP4, 128, TWO_OF_8_BITS, files.nvfp4, files.nvfp4_scales),
    BlockFormat(T.Q1_0, BITS[1], 1, OF_HEAD, files.q1_0, file_head=_D),
    BlockFormat(T.Q2_0, BITS[2], 1, OF_HEAD, files.q2_0, file_head=_D),
]
BLOCK_FORMATS: dict[int, BlockFormat] = {int(f.type): f for f in _COMMON + _RARE}
F32, F16, BF16 = (int(t) for t in (T.F32, T.F16, T.BF16))
COLUMN_BYTES = {F32: 64, F16: 32, BF16: 32}  # of a group


def group_bytes(fmt: int, n_in: int) -> int:
    """Size of 16 rows of `n_in` (a multiple of 32) numbers."""
    if fmt in COLUMN_BYTES:
        return n_in * COLUMN_BYTES[fmt]
    layout = BLOCK_FORMATS[fmt]
    return n_in // BLOCK // layout.span * layout.span_bytes


@dataclass(frozen=True)
class Reader:
    """How kernels read a block of some formats: `read(fmt, group, kb)`."""

    formats: Sequence[int]
    halves: bool
    read: Callable[[Value, Value, Value], tuple[list[Value], Parts]]


def _through_memory(formats: Sequence[BlockFormat]) -> Reader:
    """One function for all of them, as kernels would get too long with a loop for each."""

    def read(fmt: Value, group: Value, kb: Value) -> tuple[list[Value], Parts]:
        b, name = group.b, "read_block"
        if name not in b.module.globals:
            _emit_reader(ir.Function(b.module, ir.FunctionType(ir.VoidType(), [i64] * 4), name), formats)
        block = b.ptrtoint(cgutils.alloca_once(b, ir.ArrayType(U8X64, 12)), i64)
        b.call(b.module.globals[name], [fmt.v, group.v, kb.v, block])
        vectors = [(group.of(block) + 64 * i).load(U8X64) for i in range(12)]
        low, high, least_low, least_high = (v.bits(F32X16) for v in vectors[8:])
        return vectors[:8], (low, high, least_low, least_high)

    return Reader([int(f.type) for f in formats], True, read)


def _emit_reader(function: ir.Function, formats: Sequence[BlockFormat]) -> None:
    """Leaves codes and scales of block kb one after the other."""
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block())
    fmt, group, kb, to = (Value(b, a) for a in function.args)
    for layout in formats:
        with fmt.equals(int(layout.type)):
            codes, parts = layout.read(group, kb)
            for i, vector in enumerate([*codes, *(part.bits(U8X64) for part in parts)]):
                (to + 64 * i).store(vector)
    b.ret_void()


def _inline(layout: BlockFormat) -> Reader:
    return Reader([int(layout.type)], layout.scales.halves, lambda fmt, group, kb: layout.read(group, kb))


if FEATURES & {"avx2", "neon"}:
    READERS = [*map(_inline, _COMMON), _through_memory(_RARE)]
else:  # nothing is fast there, so that it may as well be short
    READERS = [_through_memory(_COMMON + _RARE)]
