"""Weight formats in memory: 16 rows of a matrix interleaved, so that a register holds 4 numbers of each.

A *group* is 16 rows. Its block formats are a stream of blocks of 32 columns. A number is

    scale * code + least

with codes of 4, 5, 6 or 8 bits (formats whose codes are centred on `zero` have least = -zero * scale). In a
block, byte 4 r + i of code vector q is column 4 q + i of row r: first come the low nibbles of vectors 0..3
with those of 4..7 in the high nibbles, then a bit plane for code bit 4, or 2-bit planes for bits 4 and 5;
8-bit codes stand alone. Scales follow, 16 at a time. The K formats have blocks in eights, whose float16
factors stand in front of them. Nothing is rounded: the file's numbers come out as they are.

Float formats are columns of 16 rows: float32 and float16 [n_in, 16], bfloat16 pairs [n_in / 2, 16, 2].
Source of the file formats: ggml-common.h and ggml-quants.c of llama.cpp.
"""

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from llm.gguf import BLOCK as FILE_BLOCK
from llm.gguf import GgmlType
from llm.kernels.simd import half_to_f32_ir, i1, i8, i16, i32, i64
from llm.kernels.simd_ir import U8X16, U8X64, U16X16, U32X16, Value, join

ROWS = 16  # in a group
BLOCK = 32  # columns
NIBBLES, TWOS, ONES = 0x0F0F0F0F, 0x03030303, 0x01010101  # bits of 4 codes in a word
_WORDS, _FOUR_WORDS = ir.VectorType(i32, 8), ir.VectorType(i32, 4)


def load_half(p: Value) -> Value:
    """16 float16 -> float32."""
    return p.of(half_to_f32_ir(p.b, p.load(U16X16).v))


# ---- codes of a block: eight vectors, and how they are packed from eight words (vector [8]) of row r


def _nibbles(p: Value) -> list[Value]:
    words = [(p + 64 * q).load(U32X16) for q in range(4)]
    return [w & NIBBLES for w in words] + [w >> 4 & NIBBLES for w in words]


def _unpack_4(p: Value) -> list[Value]:
    return [v.bits(U8X64) for v in _nibbles(p)]


def _unpack_5(p: Value) -> list[Value]:
    masks = [(p + 256 + 8 * q).load(i64).bits(ir.VectorType(i1, 64)) for q in range(8)]
    return [v.bits(U8X64) | m.widen_signed(U8X64) & 16 for v, m in zip(_nibbles(p), masks)]


def _unpack_6(p: Value) -> list[Value]:
    planes = [(p + 256 + 64 * i).load(U32X16) for i in (0, 1)]
    high = [plane << 4 - 2 * q if q < 3 else plane >> 2 for plane in planes for q in range(4)]
    return [(v | h & 0x30303030).bits(U8X64) for v, h in zip(_nibbles(p), high)]


def _unpack_8(p: Value) -> list[Value]:
    return [(p + 64 * q).load(U8X64) for q in range(8)]


def _put(words: Value, p: Value, step: int) -> None:
    for q in range(words.v.type.count):
        (p + step * q).store(words.lane(q))


def _pack_4(words: Value, p: Value, r: Value) -> None:
    low, high = (words & NIBBLES).halves()
    _put(low | high << 4, p + r * 4, 64)


def _pack_5(words: Value, p: Value, r: Value) -> None:
    """Four bits of a row are half a byte of a plane; the even one of two rows comes first and finds zeros."""
    _pack_4(words, p, r)
    bits = ((words >> 4 & ONES) * 0x01020408 >> 24 & 15) << ((r & 1) * 4).narrow(i32).lanes(8)
    for q in range(8):
        at = p + 256 + 8 * q + (r >> 1)
        at.store(at.load(i8) | bits.lane(q).narrow(i8))


def _pack_6(words: Value, p: Value, r: Value) -> None:
    _pack_4(words, p, r)
    for i, half in enumerate((words >> 4 & TWOS).halves()):
        plane = half.lane(0)
        for q in (1, 2, 3):
            plane = plane | half.lane(q) << 2 * q
        (p + 256 + 64 * i + r * 4).store(plane)


def _pack_8(words: Value, p: Value, r: Value) -> None:
    _put(words, p + r * 4, 64)


_UNPACK = {4: _unpack_4, 5: _unpack_5, 6: _unpack_6, 8: _unpack_8}
_PACK = {4: _pack_4, 5: _pack_5, 6: _pack_6, 8: _pack_8}
_CODE_BYTES = {4: 256, 5: 320, 6: 384, 8: 512}


# ---- scales of a block, with factors of eight at `head`: scales of columns 0..15 and 16..31, leasts of these

_Scales = tuple[Value, Value, Value, Value]


def _scale(p: Value, head: Value, zero: int) -> _Scales:
    s = load_half(p)
    return s, s, s * -zero, s * -zero


def _scale_and_least(p: Value, head: Value, zero: int) -> _Scales:
    s, least = load_half(p), load_half(p + 32)
    return s, s, least, least


def _scale_and_least_of_eight(p: Value, head: Value, zero: int) -> _Scales:
    s = load_half(head) * p.load(U8X16).widen(U32X16).to_f32()
    least = load_half(head + 32) * (p + 16).load(U8X16).widen(U32X16).to_f32() * -1
    return s, s, least, least


def _two_scales_of_eight(p: Value, head: Value, zero: int) -> _Scales:
    d = load_half(head)
    low, high = (d * (p + i).load(U8X16).widen_signed(U32X16).to_f32() for i in (0, 16))
    return low, high, low * -zero, high * -zero


# ---- the file's blocks: eight words of sub-block j (a vector [8] of 4 codes each), and the scales


def _file_nibbles(qs: int, qh: int = 0) -> Callable[[Value, Value], Value]:
    """Columns 0..15 in the low nibbles at `qs`, 16..31 in the high ones, fifth bits at `qh`."""

    def words(block: Value, j: Value) -> Value:
        both = (block + qs).load(_FOUR_WORDS)
        low = join([both & NIBBLES, both >> 4 & NIBBLES])
        if not qh:
            return low
        shifts = ir.Constant(_WORDS, [4 * q for q in range(8)])
        bits = (block + qh).load(i32).lanes(8) >> block.of(shifts) & 15
        return low | (bits * 0x00204081 & ONES) << 4

    return words


def _file_q8_0(block: Value, j: Value) -> Value:
    return (block + 2).load(_WORDS) ^ 0x80808080  # signed codes become unsigned ones with zero at 128


def _lanes_of(shift: Value) -> Value:
    return shift.narrow(i32).lanes(8)


def _file_q4_k(block: Value, j: Value) -> Value:
    return (block + 16 + (j >> 1) * 32).load(_WORDS) >> _lanes_of((j & 1) * 4) & NIBBLES


def _file_q5_k(block: Value, j: Value) -> Value:
    low = (block + 48 + (j >> 1) * 32).load(_WORDS) >> _lanes_of((j & 1) * 4) & NIBBLES
    return low | ((block + 16).load(_WORDS) >> _lanes_of(j) & ONES) << 4


def _file_q6_k(block: Value, j: Value) -> Value:
    half, quarter = j >> 2, j & 3
    low = (block + half * 64 + (quarter & 1) * 32).load(_WORDS) >> _lanes_of((quarter >> 1) * 4) & NIBBLES
    return low | ((block + 128 + half * 32).load(_WORDS) >> _lanes_of(quarter * 2) & TWOS) << 4


def _file_halves(at: int, n: int) -> Callable[..., None]:
    """n float16 at `at`."""

    def put(block: Value, j: Value, to: Value, r: Value) -> None:
        for i in range(n):
            (to + 32 * i + r * 2).store((block + at + 2 * i).load(i16))

    return put


def _file_scale_and_least(block: Value, j: Value, to: Value, r: Value) -> None:
    """6 bits each in 12 bytes: those of sub-blocks 0..3 leave 2 bits free, where the others' highest are."""
    q = block + 4
    late = j >> 2  # 0 or 1
    low, high = (q + j).load(i8), (q + j + 4).load(i8)
    first, second = (q + (j & 3)).load(i8), (q + 4 + (j & 3)).load(i8)
    late_scale = high & 15 | first >> 6 << 4
    late_least = high >> 4 | second >> 6 << 4
    is_late = late.b.icmp_unsigned("!=", late.v, late.constant(0).v)
    for offset, early, other in ((0, low & 63, late_scale), (16, high & 63, late_least)):
        (to + offset + r).store(late.of(late.b.select(is_late, other.v, early.v)))


def _file_two_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    for i in (0, 1):
        (to + 16 * i + r).store((block + 192 + i + j * 2).load(i8))


@dataclass(frozen=True)
class BlockFormat:
    """A block format in memory, and how the file's blocks come to it."""

    type: GgmlType
    bits: int
    zero: int
    scale_bytes: int  # of a block
    head: int  # bytes in front of eight blocks; 0: the file's blocks are of 32 columns
    scales: Callable[[Value, Value, int], _Scales]
    file_words: Callable[[Value, Value], Value]
    file_scales: Callable[..., None]
    file_head: Callable[..., None] | None = None
    halves: bool = False  # whether columns 16..31 have scales of their own

    @property
    def block_bytes(self) -> int:
        return _CODE_BYTES[self.bits] + self.scale_bytes

    def bytes_of(self, n_in: int) -> int:
        """Of a group."""
        n_block = n_in // BLOCK
        return n_block * self.block_bytes + n_block // 8 * self.head

    def read(self, group: Value, kb: Value) -> tuple[list[Value], _Scales]:
        """Block kb: code vectors and scales."""
        head = group + (kb >> 3) * (8 * self.block_bytes + self.head) if self.head else group
        p = head + self.head + (kb & 7) * self.block_bytes if self.head else group + kb * self.block_bytes
        return _UNPACK[self.bits](p), self.scales(p + _CODE_BYTES[self.bits], head, self.zero)

    def pack(self, row: Value, group: Value, r: Value, n_in: Value) -> None:
        """A row of the file as row r of a group, which is zeros before row 0."""
        each = 8 if self.head else 1
        block_bytes = FILE_BLOCK[self.type][1]
        with (n_in >> (8 if self.head else 5)).times() as i:
            block, head = row + i * block_bytes, group + i * (each * self.block_bytes + self.head)
            if self.file_head:
                self.file_head(block, i, head, r)
            with i.constant(each).times() as j:
                p = head + self.head + j * self.block_bytes
                _PACK[self.bits](self.file_words(block, j), p, r)
                self.file_scales(block, j, p + _CODE_BYTES[self.bits], r)


_K = {
    "scales": _scale_and_least_of_eight,
    "file_scales": _file_scale_and_least,
    "file_head": _file_halves(0, 2),
}
_FORMATS = [
    BlockFormat(GgmlType.Q4_0, 4, 8, 32, 0, _scale, _file_nibbles(2), _file_halves(0, 1)),
    BlockFormat(GgmlType.Q4_1, 4, 0, 64, 0, _scale_and_least, _file_nibbles(4), _file_halves(0, 2)),
    BlockFormat(GgmlType.Q5_0, 5, 16, 32, 0, _scale, _file_nibbles(6, 2), _file_halves(0, 1)),
    BlockFormat(GgmlType.Q5_1, 5, 0, 64, 0, _scale_and_least, _file_nibbles(8, 4), _file_halves(0, 2)),
    BlockFormat(GgmlType.Q8_0, 8, 128, 32, 0, _scale, _file_q8_0, _file_halves(0, 1)),
    BlockFormat(GgmlType.Q4_K, 4, 0, 32, 64, file_words=_file_q4_k, **_K),  # type: ignore[arg-type]
    BlockFormat(GgmlType.Q5_K, 5, 0, 32, 64, file_words=_file_q5_k, **_K),  # type: ignore[arg-type]
    BlockFormat(
        GgmlType.Q6_K,
        6,
        32,
        32,
        32,
        _two_scales_of_eight,
        _file_q6_k,
        _file_two_scales,
        _file_halves(208, 1),
        True,
    ),
]
BLOCK_FORMATS: dict[int, BlockFormat] = {int(f.type): f for f in _FORMATS}
F32, F16, BF16 = (int(t) for t in (GgmlType.F32, GgmlType.F16, GgmlType.BF16))
COLUMN_BYTES = {F32: 64, F16: 32, BF16: 32}  # of a group


def group_bytes(fmt: int, n_in: int) -> int:
    """Size of 16 rows of `n_in` (a multiple of 32) numbers."""
    return BLOCK_FORMATS[fmt].bytes_of(n_in) if fmt in BLOCK_FORMATS else n_in * COLUMN_BYTES[fmt]
