"""Attention over cache rows: one kernel for few queries, and two for many, with and without a matrix unit."""

import numpy as np

from llm.kernels import amx, attention_amx, attention_blocks
from llm.kernels.attention_amx import ROWS, blocks_amx
from llm.kernels.attention_blocks import blocks
from llm.kernels.attention_few import attended
from llm.kernels.jit import numba
from llm.kernels.operands import F32, KvRows, Visible
from llm.kernels.reference import stretches
from llm.kernels.tasks import WORK, Calls, recording, submit

FEW = 16  # lanes in use (queries times heads of a group) from which a block of lanes is the faster way


def attention(q: F32, kv: KvRows, visible: Visible, scale: float, *, softcap: float = 0.0) -> F32:
    n_tok, n_head, d = q.shape
    out = np.empty((n_tok, n_head * d), np.float32)
    n_few = 0 if recording() else -(-FEW * len(kv.k) // n_head)  # so many are not few any more
    few = 0  # the first of some few
    for start, stop in [*stretches(visible), (n_tok, n_tok)] if n_few else [(n_tok, n_tok)]:
        if start < stop < start + n_few:
            continue
        if few < start:
            calls, rows = Calls(), slice(few, start)
            attended(calls, q[rows], kv, _of(visible, rows), scale, softcap, out[rows])
            submit(calls)
        if start < stop:
            rows = slice(start, stop)
            _attend_many(q[rows], kv, _of(visible, rows), scale, softcap, out[rows])
        few = stop
    return out


def _of(visible: Visible, rows: slice) -> Visible:
    return Visible(visible.lo[rows], visible.hi[rows])


def _attend_many(q: F32, kv: KvRows, visible: Visible, scale: float, softcap: float, out: F32) -> None:
    """Queries whose rows are about the same."""
    n_head_kv, d = len(kv.k), q.shape[2]
    n_thread = numba.config.NUMBA_NUM_THREADS  # those that may be: asking for those in use takes 1 us
    call = (q, *kv.bits, visible.lo, visible.hi, float(scale), float(softcap), out)
    if amx.available():
        first = int(visible.lo.min()) // ROWS * ROWS
        stop = max(int(visible.hi.max()), first)
        memory = WORK.address(attention_amx.work_bytes(n_head_kv, stop - first, d, n_thread))
        blocks_amx(*call, memory, n_thread, first, stop)
    else:
        blocks(*call, WORK.address(attention_blocks.work_bytes(d, n_thread)), n_thread)
