"""Attention over cache rows: few queries and many are two kernels, chosen by how many there are."""

import numpy as np

from llm.kernels import attention_blocks, attention_few, half
from llm.kernels.attention_blocks import blocks
from llm.kernels.attention_few import few
from llm.kernels.jit import numba
from llm.kernels.operands import F32, KvRows, Visible

FEW = 16  # lanes in use (queries times heads of a group) from which a block of lanes is the faster way


def attention(q: F32, kv: KvRows, visible: Visible, scale: float, *, softcap: float = 0.0) -> F32:
    n_tok, n_head, d = q.shape
    n_head_kv = len(kv.k)
    n_thread = numba.config.NUMBA_NUM_THREADS  # those that may be: asking for those in use takes 1 us
    sizes = (n_tok, n_head, n_head_kv, d, n_thread)
    if n_tok * n_head < FEW * n_head_kv:
        kernel, n_scratch = few, attention_few.scratch_size(*sizes)
    else:
        kernel, n_scratch = blocks, attention_blocks.scratch_size(*sizes)
    out = np.empty((n_tok, n_head * d), np.float32)
    scratch = np.empty(n_scratch, np.float32)
    rows = (half.bits(kv.k), half.bits(kv.v), kv.k.itemsize)
    kernel(q, *rows, visible.lo, visible.hi, float(scale), float(softcap), out, scratch, n_thread)
    return out
