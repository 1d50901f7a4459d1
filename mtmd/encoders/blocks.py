"""The transformer blocks that vision and audio towers share: layer norm first, every row sees every row."""

import numpy as np

from llm.kernels import Kernels
from llm.kernels.operands import F32, I32, Act, KvRows, Visible
from llm.weights import Weights


class Block:
    """x + attn_out(attention(ln1 x)), then x + ffn_down(act(ffn_up(ln2 x)))."""

    def __init__(self, w: Weights, k: Kernels, n_head: int, eps: float, act: Act) -> None:
        self.k, self.n_head, self.act = k, n_head, act
        self.ln1 = w.norm("ln1", eps, center=True)
        parts = ["attn_qkv"] if "attn_qkv" in w else ["attn_q", "attn_k", "attn_v"]
        self.attn_qkv = w.linear(*parts)  # q | k | v
        self.attn_out = w.linear("attn_out")
        self.ln2 = w.norm("ln2", eps, center=True)
        n_embd, up, down = self.attn_out.n_out, "ffn_up", "ffn_down"
        if w.shape("ffn_down.weight")[1] == n_embd != w.shape("ffn_up.weight")[1]:
            up, down = down, up  # old converters gave the two each other's names
        self.ffn_up = w.linear(up)
        self.ffn_down = w.linear(down)

    def __call__(self, x: F32, kv: KvRows, at: I32, visible: Visible) -> F32:
        """x [n_row, n_embd] is overwritten by the result; `kv` is scratch for keys and values, rows `at`."""
        k = self.k
        qkv = k.linear(x, self.attn_qkv, norm=self.ln1)  # [n_row, 3 n_embd]
        q = k.qkv_to_rows(qkv, self.n_head, kv, at)  # [n_row, n_head, d_head]
        y = k.attention(q, kv, visible, q.shape[2] ** -0.5)  # [n_row, n_embd]
        x = k.linear(y, self.attn_out, residual=x, out=x)
        y = k.linear(x, self.ffn_up, norm=self.ln2, act=self.act)  # [n_row, n_ff]
        return k.linear(y, self.ffn_down, residual=x, out=x)


class Blocks:
    """`n_layer` blocks, blk.0 and so on."""

    def __init__(self, w: Weights, k: Kernels, n_layer: int, n_head: int, eps: float, act: Act) -> None:
        self.blk = [Block(w[f"blk.{i}"], k, n_head, eps, act) for i in range(n_layer)]
        self.n_head = n_head

    def __call__(self, x: F32) -> F32:
        """x [n_row, n_embd] is overwritten by the result."""
        n_row, n_embd = x.shape
        shape = (self.n_head, n_row, n_embd // self.n_head)
        kv = KvRows(np.empty(shape, np.float32), np.empty(shape, np.float32))
        at = np.arange(n_row, dtype=np.int32)
        visible = Visible(np.zeros(n_row, np.int32), np.full(n_row, n_row, np.int32))
        for block in self.blk:
            x = block(x, kv, at, visible)
        return x
