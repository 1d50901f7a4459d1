"""Codes of a block in memory: eight vectors of 64 bytes; byte 4 r + i of vector q is column 4 q + i of row r.

Narrow codes are split in planes: low nibbles (vectors 0..3, and 4..7 in the high ones), pairs of bits (four
vectors to a byte), single bits (64 of a vector in 8 bytes). `pack` gets a row's codes as words of four.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from llm.kernels.simd import FEATURES, i1, i8, i32
from llm.kernels.simd_ir import U8X64, U32X16, Value
from llm.kernels.simd_tables import byte_of

NIBBLES, TWOS, ONES = 0x0F0F0F0F, 0x03030303, 0x01010101  # bits of 4 codes in a word
PLANE_BYTES = 64  # of single bits


@dataclass(frozen=True)
class Codes:
    """One way to keep codes: `unpack(p)` gives vectors, `pack(p, r, *words)` puts row r in zeroed memory."""

    n_bytes: int
    unpack: Callable[[Value], list[Value]]
    pack: Callable[..., None]


def _nibbles(p: Value) -> list[Value]:
    words = [(p + 64 * q).load(U32X16) for q in range(4)]
    return [w & NIBBLES for w in words] + [w >> 4 & NIBBLES for w in words]


def _pairs(p: Value, place: int) -> list[Value]:
    """Two bits each, shifted to bit `place`."""
    planes, mask = [(p + 64 * i).load(U32X16) for i in (0, 1)], TWOS << place
    return [_shifted(plane, place - 2 * q) & mask for plane in planes for q in range(4)]


def _shifted(v: Value, n: int) -> Value:
    return v << n if n >= 0 else v >> -n


def bits(p: Value) -> list[Value]:
    """Bytes of all ones where a plane has a bit."""
    planes = [(p + 8 * q).load(ir.VectorType(i8, 8)) for q in range(8)]
    if "avx512bw" in FEATURES:  # which has masks; elsewhere LLVM would take bit for bit
        return [plane.bits(ir.VectorType(i1, 64)).widen_signed(U8X64) for plane in planes]
    places = p.of(ir.Constant(U8X64, [1 << i % 8 for i in range(64)]))
    spread = [plane.pick([i // 8 for i in range(64)]) & places for plane in planes]
    return [v.of(v.b.icmp_unsigned("==", v.v, places.v)).widen_signed(U8X64) for v in spread]


def put_bits(p: Value, r: Value, four: Value) -> None:
    """Bits of row r, four in each of eight lanes: half a byte of a plane. Even rows come before odd."""
    placed = four << ((r & 1) * 4).narrow(i32).lanes(8)
    for q in range(8):
        at = p + 8 * q + (r >> 1)
        at.store(at.load(i8) | placed.lane(q).narrow(i8))


def bits_of(words: Value) -> Value:
    """The lowest bits of the four bytes of words, side by side."""
    return (words & ONES) * 0x01020408 >> 24 & 15


def _put_nibbles(p: Value, r: Value, words: Value) -> None:
    low, high = (words & NIBBLES).halves()
    _put_words(p, r, low | high << 4)


def _put_pairs(p: Value, r: Value, words: Value) -> None:
    for i, half in enumerate((words & TWOS).halves()):
        plane = half.lane(0)
        for q in (1, 2, 3):
            plane = plane | half.lane(q) << 2 * q
        (p + 64 * i + r * 4).store(plane)


def _put_words(p: Value, r: Value, words: Value) -> None:
    for q in range(words.v.type.count):
        (p + 64 * q + r * 4).store(words.lane(q))


def _as_bytes(words: Sequence[Value]) -> list[Value]:
    return [w.bits(U8X64) for w in words]


def _unpack_1(p: Value) -> list[Value]:
    return [mask & 2 for mask in bits(p)]


def _unpack_2(p: Value) -> list[Value]:
    return _as_bytes(_pairs(p, 0))


def _unpack_3(p: Value) -> list[Value]:
    return [low | high & 4 for low, high in zip(_unpack_2(p), bits(p + 128))]


def _unpack_4(p: Value) -> list[Value]:
    return _as_bytes(_nibbles(p))


def _unpack_5(p: Value) -> list[Value]:
    return [low | high & 16 for low, high in zip(_unpack_4(p), bits(p + 256))]


def _unpack_6(p: Value) -> list[Value]:
    return _as_bytes([low | high for low, high in zip(_nibbles(p), _pairs(p + 256, 4))])


def _unpack_8(p: Value) -> list[Value]:
    return [(p + 64 * q).load(U8X64) for q in range(8)]


def _pack_3(p: Value, r: Value, words: Value) -> None:
    _put_pairs(p, r, words)
    put_bits(p + 128, r, bits_of(words >> 2))


def _pack_5(p: Value, r: Value, words: Value) -> None:
    _put_nibbles(p, r, words)
    put_bits(p + 256, r, bits_of(words >> 4))


def _pack_6(p: Value, r: Value, words: Value) -> None:
    _put_nibbles(p, r, words)
    _put_pairs(p + 256, r, words >> 4)


BITS = {
    1: Codes(64, _unpack_1, put_bits),  # 0 and 2
    2: Codes(128, _unpack_2, _put_pairs),
    3: Codes(192, _unpack_3, _pack_3),
    4: Codes(256, _unpack_4, _put_nibbles),
    5: Codes(320, _unpack_5, _pack_5),
    6: Codes(384, _unpack_6, _pack_6),
    8: Codes(512, _unpack_8, _put_words),
}


def of_table(numbers: Sequence[int]) -> Codes:
    """Nibbles that stand for one of 16 numbers, which come out with 128 added."""
    table = [128 + n for n in numbers]
    return Codes(256, lambda p: [byte_of(table, v) for v in _unpack_4(p)], _put_nibbles)
