"""Codes of the IQ formats of 1 to 3 bits: rows of a fixed table of patterns, mostly with signs of their own.

In memory: the low bytes of the indices, four to a word [16]; their further bits, if there are more than 256
patterns, those of a row side by side; a plane of signs. The tables come from the gguf package when a kernel
is compiled, and stand in the compiled code. Codes come out with 128 added.
"""

from functools import cache

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from llm.kernels.quants_codes import PLANE_BYTES, Codes, bits, put_bits
from llm.kernels.simd import i32
from llm.kernels.simd_ir import U8X16, U8X64, U16X16, U32X16, Value
from llm.kernels.simd_tables import words_of

_FOURS = [4 * q for q in range(8)]


@cache
def _patterns(name: str) -> NDArray[np.uint32]:
    """[n, words]: magnitudes, four to a word; of IQ1 128 + 8 numbers + 1, or from 2048 on - 1."""
    from gguf import GGMLQuantizationType, quants  # slow to import, and most files never need it

    kind = quants._type_traits[GGMLQuantizationType[name]]
    kind.init_grid()  # type: ignore[no-untyped-call]
    assert kind.grid is not None
    numbers = kind.grid.reshape(kind.grid_shape)
    if name.startswith("IQ1"):
        numbers = 128 + np.concatenate([8 * numbers + 1, 8 * numbers - 1])
    return np.ascontiguousarray(numbers.astype(np.uint8)).view(np.uint32)


def of_grid(name: str, n_index: int, more_bits: int, signed: bool) -> Codes:
    """`n_index` indices of 8 + `more_bits` bits in a block; `pack` takes words of them, more bits, signs."""
    more_at = 16 * n_index
    wide = U16X16 if n_index * more_bits > 8 else U8X16
    signs_at = more_at + (2 * wide.element.width if more_bits else 0)

    def unpack(p: Value) -> list[Value]:
        codes = []
        more = (p + more_at).load(wide).widen(U32X16) if more_bits else None
        for q in range(n_index):
            index = (p + 64 * (q // 4)).load(U32X16) >> q % 4 * 8 & 255
            if more is not None:
                index = index | (more >> more_bits * q & (1 << more_bits) - 1) << 8
            codes += [v.bits(U8X64) for v in words_of(name, _patterns(name), index)]
        if not signed:
            return codes
        return [(code ^ sign) - sign + 128 for code, sign in zip(codes, bits(p + signs_at))]

    def pack(p: Value, r: Value, *parts: Value) -> None:
        indices, rest = parts[: n_index // 4], parts[n_index // 4 :]
        for i, index in enumerate(indices):
            (p + 64 * i + r * 4).store(index)
        if more_bits:
            more = rest[0].narrow(wide.element)
            (p + more_at + r * (wide.element.width // 8)).store(more)
        if signed:
            put_bits(p + signs_at, r, fours(rest[-1]))

    return Codes(signs_at + PLANE_BYTES * signed, unpack, pack)


def fours(word: Value) -> Value:
    """32 bits as eight lanes of four."""
    return word.lanes(8) >> word.of(ir.Constant(ir.VectorType(i32, 8), _FOURS)) & 15
