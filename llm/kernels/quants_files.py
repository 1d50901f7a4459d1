"""Blocks as they stand in files: sub-block j (32 columns) of a block, in the parts that packing it takes.

Codes come as words, vector [8] of four codes each. Scales are put at `to`, row r of the 16 of a group.
Source: ggml-common.h and ggml-quants.c of llama.cpp.
"""

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from llm.kernels.quants_codes import NIBBLES, ONES, TWOS, bits_of
from llm.kernels.quants_grids import fours
from llm.kernels.simd import i8, i16, i32
from llm.kernels.simd_ir import Value, join
from llm.kernels.simd_tables import stored

WORDS = ir.VectorType(i32, 8)
_FOUR_WORDS = ir.VectorType(i32, 4)
_BYTES, _SHORTS = ir.VectorType(i8, 32), ir.VectorType(i16, 32)
Codes = Callable[[Value, Value], tuple[Value, ...]]
Scales = Callable[[Value, Value, Value, Value], None]


def _lanes_of(shift: Value) -> Value:
    return shift.narrow(i32).lanes(8)


def _field(p: Value, shift: Value, mask: int) -> Value:
    """Some bits of the byte at p."""
    return p.load(i8) >> shift.narrow(i8) & mask


# ---- codes


def nibbles(qs: int, qh: int = 0, step: int = 0) -> Codes:
    """Columns 0..15 in the low nibbles at `qs`, 16..31 in the high ones, fifth bits at `qh`."""

    def words(block: Value, j: Value) -> tuple[Value]:
        both = (block + qs + j * step).load(_FOUR_WORDS)
        low = join([both & NIBBLES, both >> 4 & NIBBLES])
        return (low | (fours((block + qh).load(i32)) * 0x00204081 & ONES) << 4 if qh else low,)

    return words


def nvfp4(block: Value, j: Value) -> tuple[Value]:
    """The same by 16 columns."""
    both = (block + 4 + j * 16).load(_FOUR_WORDS)
    return (join([both & NIBBLES, both >> 4 & NIBBLES]).pick([0, 1, 4, 5, 2, 3, 6, 7]),)


def q8_0(block: Value, j: Value) -> tuple[Value]:
    return ((block + 2).load(WORDS) ^ 0x80808080,)  # signed codes become unsigned ones with zero at 128


def pairs(qs: int) -> Codes:
    """128 columns in 32 bytes, two bits each."""
    return lambda block, j: (_pairs(block + qs, j),)


def _pairs(p: Value, j: Value) -> Value:
    return (p + (j >> 2) * 32).load(WORDS) >> _lanes_of((j & 3) * 2) & TWOS


def q3_k(block: Value, j: Value) -> tuple[Value]:
    return (_pairs(block + 32, j) | (block.load(WORDS) >> _lanes_of(j) & ONES) << 2,)


def q4_k(block: Value, j: Value) -> tuple[Value]:
    return ((block + 16 + (j >> 1) * 32).load(WORDS) >> _lanes_of((j & 1) * 4) & NIBBLES,)


def q5_k(block: Value, j: Value) -> tuple[Value]:
    low = (block + 48 + (j >> 1) * 32).load(WORDS) >> _lanes_of((j & 1) * 4) & NIBBLES
    return (low | ((block + 16).load(WORDS) >> _lanes_of(j) & ONES) << 4,)


def q6_k(block: Value, j: Value) -> tuple[Value]:
    half, quarter = j >> 2, j & 3
    low = (block + half * 64 + (quarter & 1) * 32).load(WORDS) >> _lanes_of((quarter >> 1) * 4) & NIBBLES
    return (low | _pairs(block + 128, j) << 4,)


def q1_0(block: Value, j: Value) -> tuple[Value]:
    return (fours((block + 2 + j * 4).load(i32)),)


def q2_0(block: Value, j: Value) -> tuple[Value]:
    """Four columns to a byte."""
    v = (block + 2 + j * 8).load(ir.VectorType(i8, 8)).widen(WORDS)
    return ((v | v << 6 | v << 12 | v << 18) & TWOS,)


def tq1_0(block: Value, j: Value) -> tuple[Value]:
    """Five digits of base 3 to a byte, as a fraction; 32 bytes hold 160 columns, 16 bytes 80, 4 bytes 16."""
    first, second, third = ((block + at).load(ir.VectorType(i8, 16)) for at in (0, 16, 32))
    last = (block + 48).load(i32).lanes(4).bits(third.v.type)
    low, high = j.below(5, first, third), j.below(5, second, j.below(7, third, last))
    digit = [[n] * 32 for n in range(5)] + [[0] * 16 + [1] * 16, [2] * 16 + [3] * 16]
    digit.append([4] * 16 + [i // 4 for i in range(16)])
    powers = block.of(stored(block.b, "powers_of_3", 3 ** np.array(digit, np.uint8)))
    fraction = (join([low, high]) * (powers + j * 32).load(_BYTES)).widen(_SHORTS)
    return ((fraction * 3 >> 8).narrow(_BYTES).bits(WORDS),)


# ---- indices of patterns, further bits of them, signs


def iq2_xxs(block: Value, j: Value) -> tuple[Value, Value]:
    p = block + 2 + j * 8
    return p.load(i32), _all_signs((p + 4).load(i32))


def iq2_xs(block: Value, j: Value) -> tuple[Value, Value, Value]:
    """9 bits of index and 7 of sign, four times."""
    four = (block + 2 + j * 8).load(ir.VectorType(i16, 4))
    low, more, signs = ((four >> n).narrow(ir.VectorType(i8, 4)).bits(i32) for n in (0, 8, 9))
    return low, bits_of(more), _with_parity(signs)


def iq2_s(block: Value, j: Value) -> tuple[Value, Value, Value]:
    p = block + 2 + j * 4
    return p.load(i32), (block + 66 + j).load(i8).widen(i32), (p + 32).load(i32)


def iq3_xxs(block: Value, j: Value) -> tuple[Value, Value, Value]:
    p = block + 2 + j * 8
    return p.load(i32), (p + 4).load(i32), _all_signs((block + 66 + j * 4).load(i32))


def iq3_s(block: Value, j: Value) -> tuple[Value, Value, Value, Value]:
    p = block + 2 + j * 8
    more, signs = (block + 66 + j).load(i8).widen(i32), (block + 74 + j * 4).load(i32)
    return p.load(i32), (p + 4).load(i32), more, signs


def iq1_s(block: Value, j: Value) -> tuple[Value, Value]:
    """The fourth further bit, whether an eighth is added or taken, is one for all four patterns."""
    high = (block + 34 + j * 2).load(i16).widen(i32)
    more = (high & 7) | (high & 7 << 3) << 1 | (high & 7 << 6) << 2 | (high & 7 << 9) << 3
    return (block + 2 + j * 4).load(i32), more | (high >> 15) * 0x8888


def iq1_m(block: Value, j: Value) -> tuple[Value, Value]:
    return (block + j * 4).load(i32), (block + 32 + j * 2).load(i16).widen(i32)


def _all_signs(word: Value) -> Value:
    """Four times eight signs of four times seven bits."""
    spread = [word & 0x7F, word << 1 & 0x7F00, word << 2 & 0x7F0000, word << 3 & 0x7F000000]
    return _with_parity(spread[0] | spread[1] | spread[2] | spread[3])


def _with_parity(word: Value) -> Value:
    """The number of minus signs in eight is even, so that the last is not stored."""
    fold = word ^ word >> 4
    fold = fold ^ fold >> 2
    return (word & 0x7F7F7F7F) | ((fold ^ fold >> 1) & ONES) << 7


# ---- scales


def none(block: Value, j: Value, to: Value, r: Value) -> None:
    """All are at the head."""


def halves(at: int, n: int) -> Scales:
    """n float16 at `at`."""

    def put(block: Value, j: Value, to: Value, r: Value) -> None:
        for i in range(n):
            (to + 32 * i + r * 2).store((block + at + 2 * i).load(i16))

    return put


def byte(at: int) -> Scales:
    return lambda block, j, to, r: (to + r).store((block + at + j).load(i8))


def two_bytes(at: int) -> Scales:
    def put(block: Value, j: Value, to: Value, r: Value) -> None:
        for i in (0, 1):
            (to + 16 * i + r).store((block + at + i + j * 2).load(i8))

    return put


def q3_k_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    """6 bits each of sixteen: the low four in 8 bytes, the high two in 4 bytes."""
    for half in (0, 1):
        i = j * 2 + half
        low = _field(block + 96 + (i & 7), (i >> 3) * 4, 15)
        high = _field(block + 104 + (i & 3), (i >> 2) * 2, 3)
        (to + 16 * half + r).store((low | high << 4) - 32)


def scales_and_leasts(block: Value, j: Value, to: Value, r: Value) -> None:
    """6 bits each in 12 bytes: those of sub-blocks 0..3 leave 2 bits free, where the others' highest are."""
    q = block + 4
    low, high = (q + j).load(i8), (q + j + 4).load(i8)
    first, second = (q + (j & 3)).load(i8), (q + 4 + (j & 3)).load(i8)
    late_scale = high & 15 | first >> 6 << 4
    late_least = high >> 4 | second >> 6 << 4
    (to + r).store(j.below(4, low & 63, late_scale))
    (to + 16 + r).store(j.below(4, high & 63, late_least))


def iq4_xs_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    low = _field(block + 4 + (j >> 1), (j & 1) * 4, 15)
    high = _field(block + 2 + (j >> 2), (j & 3) * 2, 3)
    (to + r).store((low | high << 4) - 32)


def nvfp4_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    """Positive float8, of which 127 stands for 0."""
    for i in (0, 1):
        x = (block + i + j * 2).load(i8) & 127
        (to + 16 * i + r).store(x.below(127, x, x.constant(0)))


def iq2_xxs_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    (to + r).store(((block + 9 + j * 8).load(i8) >> 4) * 0x11)


def iq3_xxs_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    (to + r).store(((block + 69 + j * 4).load(i8) >> 4) * 0x11)


def iq3_s_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    (to + r).store(_field(block + 106 + (j >> 1), (j & 1) * 4, 15) * 0x11)


def iq1_s_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    (to + r).store(_field(block + 35 + j * 2, j.constant(4), 7) * 0x11)


def iq1_m_scales(block: Value, j: Value, to: Value, r: Value) -> None:
    """Three bits each, four in 12 bits."""
    both = (block + 48 + (j >> 1) * 2).load(i16) >> ((j & 1) * 6).narrow(i16)
    (to + r).store((both & 7 | (both & 7 << 3) << 1).narrow(i8))


def iq1_m_head(block: Value, j: Value, to: Value, r: Value) -> None:
    """A float16 in the highest four bits of each of four words."""
    words = [(block + 48 + 2 * i).load(i16) & 0xF000 for i in range(4)]
    (to + r * 2).store(words[0] >> 12 | words[1] >> 8 | words[2] >> 4 | words[3])
