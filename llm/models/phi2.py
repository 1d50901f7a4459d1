"""Phi 1, 1.5 and 2, and the text side of Moondream 2.

Attention and feed-forward network stand side by side: both read the same layer norm and add to the same row.
The network is down(gelu(up)), every matrix has a bias, and only the first dimensions of a head rotate, in
pairs half the rotated part apart.
"""

from dataclasses import dataclass

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32
from llm.models import register
from llm.rope import RopeTable, frequencies
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams:
    n_ctx: int = key("context_length")
    n_layer: int = key("block_count")
    n_embd: int = key("embedding_length")
    n_ff: int = key("feed_forward_length")
    n_head: int = key("attention.head_count")
    n_head_kv: int = key("attention.head_count_kv", default=lambda hp: hp.n_head)
    d_head: int = key("attention.key_length", default=lambda hp: hp.n_embd // hp.n_head)
    eps: float = key("attention.layer_norm_epsilon")
    n_rot: int = key("rope.dimension_count", default=lambda hp: hp.d_head)
    rope_base: float = key("rope.freq_base", default=10000.0)


class Block:
    """The weights of one layer."""

    def __init__(self, hp: Hparams, w: Weights) -> None:
        n_q, n_kv = hp.n_head * hp.d_head, hp.n_head_kv * hp.d_head
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd, center=True)
        self.attn_qkv = w.qkv(shape=(n_q + 2 * n_kv, hp.n_embd))
        self.attn_output = w.linear("attn_output", shape=(hp.n_embd, n_q))
        self.ffn_up = w.linear("ffn_up", shape=(hp.n_ff, hp.n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(hp.n_embd, hp.n_ff))


@register("phi2", Hparams)
class Phi2:
    n_axis, n_level = 1, 1

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        self.kv_shapes = [(hp.n_head_kv, hp.d_head)] * hp.n_layer
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [Block(hp, w[f"blk.{il}"]) for il in range(hp.n_layer)]
        self.output_norm = w.norm("output_norm", hp.eps, n=hp.n_embd, center=True)
        self.output = w.linear("output", shape=table)
        self.rope = RopeTable(frequencies(hp.n_rot, hp.rope_base), "neox")

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        k, n_head, scale = self.k, self.hp.n_head, self.hp.d_head**-0.5
        rope, visible = step.rope(self.rope), step.visible()
        last = self.blk[-1]
        for blk, kv in zip(self.blk, step.kv):
            qkv = k.linear(x, blk.attn_qkv, norm=blk.attn_norm)  # [n_tok, (n_head + 2 n_head_kv) d_head]
            q = k.qkv_to_rows(qkv, n_head, kv, step.at, rope=rope)  # [n_tok, n_head, d_head]
            if blk is last:
                x, q, visible = step.wanted(x, q, visible)
            a = k.attention(q, kv, visible, scale)  # [n_tok, n_head d_head]
            h = k.linear(x, blk.ffn_up, norm=blk.attn_norm, act="gelu")  # [n_tok, n_ff]
            x = k.linear(a, blk.attn_output, residual=x, out=x)  # [n_tok, n_embd]
            x = k.linear(h, blk.ffn_down, residual=x, out=x)  # [n_tok, n_embd]
        return x

    def logits(self, x: F32) -> F32:
        return self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
