"""Looking numbers up: bytes in tables of 16 by a shuffle, words in long ones that stand beside the code."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from llm.kernels.simd import FEATURES, call, i1, i8, i32, i64, pointer
from llm.kernels.simd_ir import U32X16, Value, join

# The widest shuffle within parts of 16 bytes: feature, LLVM's name, bytes.
_SHUFFLES = [
    ("avx512bw", "llvm.x86.avx512.pshuf.b.512", 64),
    ("avx2", "llvm.x86.avx2.pshuf.b", 32),
    ("ssse3", "llvm.x86.ssse3.pshuf.b.128", 16),
    ("neon", "llvm.aarch64.neon.tbl1.v16i8", 16),
]
_SHUFFLE = next(((name, n) for feature, name, n in _SHUFFLES if feature in FEATURES), None)


def byte_of(table: Sequence[int], index: Value) -> Value:
    """table[index] of 16 bytes, index 0..15."""
    if _SHUFFLE is None:
        return _chosen(table, index)
    name, width = _SHUFFLE
    if index.v.type.count > width:
        return join([byte_of(table, half) for half in index.halves()])
    kind = index.v.type
    return index.of(call(index.b, name, kind, [ir.Constant(kind, list(table) * (width // 16)), index.v]))


def _chosen(table: Sequence[int], index: Value) -> Value:
    """Halves the table with each bit of the index."""
    level = [index.constant(n) for n in table]
    for bit in range(4):
        mask = index.constant(0) - (index >> bit & 1)
        level = [even ^ (even ^ odd) & mask for even, odd in zip(level[::2], level[1::2])]
    return level[0]


def stored(b: ir.IRBuilder, name: str, table: NDArray[Any]) -> ir.Value:
    """Address of a constant copy of `table`, words or bytes, in the module that is being compiled."""
    module = b.module
    if name not in module.globals:
        element = ir.IntType(8 * table.itemsize)
        kind = ir.ArrayType(element, table.size)
        constant = ir.GlobalVariable(module, kind, name)
        constant.linkage, constant.global_constant, constant.align = "internal", True, 64
        constant.initializer = ir.Constant(kind, [ir.Constant(element, int(n)) for n in table.reshape(-1)])
    return b.ptrtoint(module.globals[name], i64)


def words_of(name: str, table: NDArray[np.uint32], index: Value) -> list[Value]:
    """Rows `index` [16] of `table` [n, width], as vectors [width][16]."""
    width = table.shape[1]
    base = index.of(stored(index.b, name, table))
    if "avx512f" not in FEATURES:
        lanes = [base + index.lane(i).widen(i64) * (4 * width) for i in range(16)]
        return [_joined([lane + 4 * k for lane in lanes]) for k in range(width)]
    scale, all_lanes = ir.Constant(i32, 4 * width), ir.Constant(ir.VectorType(i1, 16), [1] * 16)
    out = []
    for k in range(width):
        from_ = pointer(index.b, (base + 4 * k).v, i8)
        operands = [index.constant(0).v, from_, index.v, all_lanes, scale]
        out.append(index.of(call(index.b, "llvm.x86.avx512.mask.gather.dpi.512", U32X16, operands)))
    return out


def _joined(addresses: Sequence[Value]) -> Value:
    """The words at 16 addresses."""
    v = addresses[0].of(ir.Constant(U32X16, ir.Undefined))
    for i, address in enumerate(addresses):
        v = v.of(v.b.insert_element(v.v, address.load(i32).v, ir.Constant(i32, i)))
    return v
