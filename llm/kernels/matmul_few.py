"""Products of few rows, as calls of tasks: what decoding is made of.

The rows are brought into the form that is multiplied, then the groups of weights are taken in turn; the table
of groups is the one that `matmul_many` describes, here by address.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from llm.kernels.jit import inline, numba
from llm.kernels.matmul_ends import ACTS, INT15_BYTES, activate, int15_row, norm_row, put
from llm.kernels.matmul_rows import TOGETHER, product, products
from llm.kernels.operands import F32, Act, Norm
from llm.kernels.quants import ROWS
from llm.kernels.simd import load_f32, load_f32_part, peek_i64, store_f32
from llm.kernels.tasks import Calls, Task, aligned, fields_of, number_of

if TYPE_CHECKING:
    from llm.kernels.matmul import PackedLinear

BLOCK_BYTES = 128 + INT15_BYTES  # of 32 numbers of a prepared row: float32, then (after all of these) 15 bits
SUMS_BYTES = 2 * TOGETHER * 64  # of a thread
ENTRY_BYTES = 40  # of the table of groups
GRAIN = 24_000  # products of a task, a microsecond of work; but
MOST = 32  # tasks are enough


def prepared(calls: Calls, x: F32, norm: Norm | None) -> NDArray[np.uint8]:
    """Add what makes rows for `multiply` of norm(x), x [n_tok, n_in]."""
    n_tok, n_in = x.shape
    rows = aligned(n_tok * (-(-n_in // 32) * BLOCK_BYTES))
    if norm is None:
        calls.add(PREPARE, n_tok, x, n_in, None, None, 0.0, False, rows)
    else:
        calls.add(PREPARE, n_tok, x, n_in, norm.weight, norm.bias, norm.eps, norm.center, rows)
    return rows


def grain(n_group: int, n_in: int) -> int:
    """How many of `n_group` groups a task takes, each of them times `n_in` numbers."""
    return max(1, GRAIN // (n_in * ROWS), n_group // MOST)


def multiplied(
    calls: Calls,
    rows: NDArray[np.uint8],
    w: "PackedLinear",
    act: Act | None,
    gated: bool,
    residual: F32 | None,
    out: F32,
) -> None:
    """Add the product of prepared rows, [n_tok, n_out] or, gated, [n_tok, n_out / 2]."""
    n_tok, n_block = len(out), -(-w.n_in // 32)
    n_group = len(w.groups) // 2 if gated else len(w.groups)
    each = grain(n_group, n_tok * w.n_in)
    task = MULTIPLY_GATED if gated else MULTIPLY
    scratch = aligned(numba.config.NUMBA_NUM_THREADS * SUMS_BYTES)
    fields = (w.groups, n_group, each, rows, n_tok, n_block, ACTS[act], residual, out, out.shape[1])
    calls.add(task, -(-n_group // each), *fields, scratch)


@Task
def PREPARE(t, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    x, n_in, weight, bias, eps, center, rows = fields_of(fields, 7)
    n_block = (n_in + 31) // 32
    row = rows + t * n_block * BLOCK_BYTES
    norm_row(x + 4 * t * n_in, n_in, weight, bias, number_of(eps), center, row)
    int15_row(row, n_block, row + n_block * 128)


@Task
def MULTIPLY(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    groups, n_group, each, rows, n_tok, n_block, act, residual, out, n_out, scratch = fields_of(fields, 11)
    sums, row_bytes = scratch + SUMS_BYTES * thread, n_block * BLOCK_BYTES
    for g in range(i * each, min((i + 1) * each, n_group)):
        entry = groups + g * ENTRY_BYTES
        first, width = peek_i64(entry + 16), peek_i64(entry + 24)
        for t in range(0, n_tok // TOGETHER * TOGETHER, TOGETHER):
            _group_products(entry, rows + t * row_bytes, n_block, sums)
            for k in range(TOGETHER):
                v, to = activate(act, load_f32(sums + 64 * k)), 4 * ((t + k) * n_out + first)
                put(v, width, residual + to if residual else 0, out + to)
        for t in range(n_tok // TOGETHER * TOGETHER, n_tok):
            v, to = (
                activate(act, group_product(entry, rows + t * row_bytes, n_block)),
                4 * (t * n_out + first),
            )
            put(v, width, residual + to if residual else 0, out + to)


@Task
def MULTIPLY_GATED(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    groups, n_group, each, rows, n_tok, n_block, act, _, out, n_out, scratch = fields_of(fields, 11)
    sums, row_bytes = scratch + SUMS_BYTES * thread, n_block * BLOCK_BYTES
    for g in range(i * each, min((i + 1) * each, n_group)):
        gate = groups + g * ENTRY_BYTES
        first, width = peek_i64(gate + 16), peek_i64(gate + 24)
        for t in range(0, n_tok // TOGETHER * TOGETHER, TOGETHER):
            for half in range(2):  # gate, and up
                entry = gate + half * n_group * ENTRY_BYTES
                _group_products(entry, rows + t * row_bytes, n_block, sums + 64 * TOGETHER * half)
            for k in range(TOGETHER):
                v = activate(act, load_f32(sums + 64 * k)) * load_f32(sums + 64 * (TOGETHER + k))
                put(v, width, 0, out + 4 * ((t + k) * n_out + first))
        for t in range(n_tok // TOGETHER * TOGETHER, n_tok):
            put_gated(gate, n_group, act, rows + t * row_bytes, n_block, out + 4 * t * n_out)


@inline
def put_gated(gate, n_group, act, row, n_block, out):  # type: ignore[no-untyped-def]
    """act(gate) * up to their places in the row at `out`; up stands n_group entries after gate."""
    up = gate + n_group * ENTRY_BYTES
    v = activate(act, group_product(gate, row, n_block)) * group_product(up, row, n_block)
    put(v, peek_i64(gate + 24), 0, out + 4 * peek_i64(gate + 16))


@inline
def group_product(entry, row, n_block):  # type: ignore[no-untyped-def]
    """16 products of a prepared row with the group of a table entry, and their biases."""
    v = product(peek_i64(entry), peek_i64(entry + 8), row, n_block)
    bias = peek_i64(entry + 32)
    return v + load_f32_part(bias, peek_i64(entry + 24)) if bias else v


@inline
def _group_products(entry, row, n_block, sums):  # type: ignore[no-untyped-def]
    """The same of TOGETHER rows that stand together -> [TOGETHER, 16]."""
    products(peek_i64(entry), peek_i64(entry + 8), row, n_block * BLOCK_BYTES, n_block, sums)
    bias = peek_i64(entry + 32)
    if bias:
        b = load_f32_part(bias, peek_i64(entry + 24))
        for k in range(TOGETHER):
            store_f32(sums + 64 * k, load_f32(sums + 64 * k) + b)
