"""A mixture of experts: of many rows those of each expert go through its matrices together, few in turn."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm.kernels.matmul import PackedLinear, gated, linear
from llm.kernels.matmul_ends import ACTS, put
from llm.kernels.matmul_few import (
    BLOCK_BYTES,
    ENTRY_BYTES,
    grain,
    group_product,
    multiplied,
    prepared,
    put_gated,
)
from llm.kernels.norm import norm as norm_rows
from llm.kernels.operands import F32, Act, Linear, Norm, Router
from llm.kernels.quants import ROWS
from llm.kernels.reference import result, route, scale
from llm.kernels.simd import fma, peek_f32, peek_i32, peek_i64, poke_f32, poke_i32, splat_f32, zeros_f32
from llm.kernels.tasks import Calls, Task, fields_of, not_repeatable, submit

NOTHING = np.float32(-3e38)  # below all scores


def experts(
    x: F32,
    router: Router,
    gate_up: Sequence[Linear],
    down: Sequence[Linear],
    act: Act,
    *,
    norm: Norm | None = None,
    residual: F32 | None = None,
    out: F32 | None = None,
) -> F32:
    first, second = gate_up[0], down[0]
    assert isinstance(router.w, PackedLinear)
    assert isinstance(first, PackedLinear) and isinstance(second, PackedLinear)
    if len(x) <= min(router.w.few, first.few, second.few) and first.in_pairs:
        out = np.empty_like(x) if out is None else out
        _each_row(x, router, gate_up, down, act, norm, residual, out)
        return out
    not_repeatable()
    y = norm_rows(x, norm) if norm else x
    logits = linear(x, router.w, norm=router.norm) if router.norm else linear(y, router.w)
    chosen, weights = route(logits, router)
    total = np.zeros_like(x)
    for e in np.unique(chosen):
        tok, place = np.nonzero(chosen == e)
        h = linear(gated(y[tok], gate_up[e], act), down[e])  # [n, n_embd]
        total[tok] += scale(h, weights[tok, place], out=h)
    return result(total, residual, out)


def _each_row(
    x: F32,
    router: Router,
    gate_up: Sequence[Linear],
    down: Sequence[Linear],
    act: Act,
    norm: Norm | None,
    residual: F32 | None,
    out: F32,
) -> None:
    n_tok, n_embd, n_used, n_ff = len(x), x.shape[1], router.n_used, gate_up[0].n_out // 2
    assert isinstance(router.w, PackedLinear)
    calls = Calls()
    rows = prepared(calls, x, norm)
    routed = prepared(calls, x, router.norm) if router.norm else rows
    logits = np.empty((n_tok, len(gate_up)), np.float32)
    multiplied(calls, routed, router.w, None, False, None, logits)
    chosen, weights = np.empty((n_tok, n_used), np.int32), np.empty((n_tok, n_used), np.float32)
    how = (router.score == "softmax", router.bias, router.normed, router.scale)
    calls.add(ROUTE, n_tok, logits, len(gate_up), n_used, *how, chosen, weights)
    h = np.empty((n_tok * n_used, n_ff), np.float32)
    n_group, each = -(-n_ff // ROWS), grain(-(-n_ff // ROWS), 2 * n_embd)
    shape = (n_group, each, rows, -(-n_embd // 32), n_used, chosen)
    calls.add(GATE, len(h) * -(-n_group // each), _tables(calls, gate_up), *shape, ACTS[act], h, n_ff)
    n_group, each = -(-n_embd // ROWS), grain(-(-n_embd // ROWS), n_used * n_ff)
    shape = (n_group, each, prepared(calls, h, None), -(-n_ff // 32), n_used, chosen)
    fields = (weights, residual, out, n_embd)
    calls.add(DOWN, n_tok * -(-n_group // each), _tables(calls, down), *shape, *fields)
    submit(calls)


def _tables(calls: Calls, ws: Sequence[Linear]) -> NDArray[np.int64]:
    """Where the table of groups of each matrix is."""
    return np.array([calls.address(w.groups) for w in ws if isinstance(w, PackedLinear)], np.int64)


@Task
def ROUTE(t, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    """As `reference.route` does it."""
    logits, n_expert, n_used, softmax, bias, normed, scale, chosen, weights = fields_of(fields, 9)
    scores, chosen, weights = logits + 4 * n_expert * t, chosen + 4 * n_used * t, weights + 4 * n_used * t
    top, total = NOTHING, np.float32(0)
    for e in range(n_expert):
        top = max(top, peek_f32(scores + 4 * e))
    for e in range(n_expert):
        x = peek_f32(scores + 4 * e)
        score = np.exp(x - top) if softmax else np.float32(1) / (np.float32(1) + np.exp(-x))
        total += score
        poke_f32(scores + 4 * e, score)
    for i in range(n_used):
        best, most = 0, NOTHING
        for e in range(n_expert):
            score = peek_f32(scores + 4 * e)
            if score >= 0:  # not chosen yet
                worth = score + peek_f32(bias + 4 * e) if bias else score
                if worth > most:
                    best, most = e, worth
        poke_i32(chosen + 4 * i, best)
        poke_f32(weights + 4 * i, peek_f32(scores + 4 * best))
        poke_f32(scores + 4 * best, np.float32(-1))
    if normed:
        total = np.float32(0)
        for i in range(n_used):
            total += peek_f32(weights + 4 * i)
    elif not softmax:
        total = np.float32(1)
    for i in range(n_used):
        factor = peek_f32(scale + 4 * peek_i32(chosen + 4 * i))
        poke_f32(weights + 4 * i, peek_f32(weights + 4 * i) / total * factor)


@Task
def GATE(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    """act(gate) * up of one choice of a row."""
    tables, n_group, each, rows, n_block, n_used, chosen, act, out, n_out = fields_of(fields, 10)
    n_part = (n_group + each - 1) // each
    choice, part = i // n_part, i % n_part
    groups = peek_i64(tables + 8 * peek_i32(chosen + 4 * choice))
    row = rows + choice // n_used * n_block * BLOCK_BYTES
    for g in range(part * each, min((part + 1) * each, n_group)):
        put_gated(groups + g * ENTRY_BYTES, n_group, act, row, n_block, out + 4 * choice * n_out)


@Task
def DOWN(i, thread, fields):  # type: ignore[no-untyped-def]  # noqa: N802
    """The sum over a row's choices."""
    tables, n_group, each, rows, n_block, n_used, chosen, weights, residual, out, n_out = fields_of(
        fields, 11
    )
    n_part = (n_group + each - 1) // each
    t, part = i // n_part, i % n_part
    for g in range(part * each, min((part + 1) * each, n_group)):
        total, entry = zeros_f32(), 0
        for choice in range(t * n_used, (t + 1) * n_used):
            entry = peek_i64(tables + 8 * peek_i32(chosen + 4 * choice)) + g * ENTRY_BYTES
            weight = splat_f32(peek_f32(weights + 4 * choice))
            total = fma(weight, group_product(entry, rows + choice * n_block * BLOCK_BYTES, n_block), total)
        to = 4 * (t * n_out + peek_i64(entry + 16))
        put(total, peek_i64(entry + 24), residual + to if residual else 0, out + to)
