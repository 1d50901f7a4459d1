"""Gemma 3, text side: 270M, 1B, 4B, 12B, 27B.

Every branch is normed before and after ("sandwich"), queries and keys are normed per head, the gate is a tanh
GELU. Five of six layers see a sliding window and rotate with base 1e4; the sixth sees everything and rotates
with base 1e6, stretched linearly from 4B on. Rows of tokens, not of pictures, are scaled by sqrt(n_embd), and
the head is the embedding table. A picture is one block whose rows all see each other. (arXiv 2503.19786)
"""

import math
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
    d_head: int = key("attention.key_length", default=256)
    eps: float = key("attention.layer_norm_rms_epsilon")
    window: int = key("attention.sliding_window", default=0)
    pattern: int = key("attention.sliding_window_pattern", default=6)
    rope_base: float = key("rope.freq_base", default=1e6)
    rope_base_local: float = key("rope.freq_base_swa", default=1e4)
    rope_stretch: float = key("rope.scaling.factor", default=1.0)
    attn_softcap: float = key("attn_logit_softcapping", default=0.0)
    softcap: float = key("final_logit_softcapping", default=0.0)

    @property
    def scale(self) -> float:
        """query_pre_attn_scalar ** -0.5, which is not in the file: d_head, but for 27B (62 layers)."""
        return 1 / math.sqrt(self.n_embd / self.n_head if self.n_layer == 62 else self.d_head)

    def is_local(self, il: int) -> bool:
        return self.window > 0 and (il + 1) % self.pattern != 0


class Block:
    """The weights of one layer."""

    def __init__(self, hp: Hparams, is_local: bool, w: Weights) -> None:
        n_q, n_kv = hp.n_head * hp.d_head, hp.n_head_kv * hp.d_head
        self.is_local = is_local
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd)
        self.attn_qkv = w.qkv(shape=(n_q + 2 * n_kv, hp.n_embd))
        self.attn_q_norm, self.attn_k_norm = (
            w.norm(name, hp.eps, n=hp.d_head) if name in w else None
            for name in ("attn_q_norm", "attn_k_norm")
        )
        self.attn_output = w.linear("attn_output", shape=(hp.n_embd, n_q))
        self.post_attention_norm = w.norm("post_attention_norm", hp.eps, n=hp.n_embd)
        self.ffn_norm = w.norm("ffn_norm", hp.eps, n=hp.n_embd)
        self.ffn_gate_up = w.linear("ffn_gate", "ffn_up", shape=(2 * hp.n_ff, hp.n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(hp.n_embd, hp.n_ff))
        self.post_ffw_norm = w.norm("post_ffw_norm", hp.eps, n=hp.n_embd)


@register("gemma3", Hparams)
class Gemma3:
    n_axis, n_level = 1, 1

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        self.kv_shapes = [(hp.n_head_kv, hp.d_head)] * hp.n_layer
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [Block(hp, hp.is_local(il), w[f"blk.{il}"]) for il in range(hp.n_layer)]
        self.output_norm = w.norm("output_norm", hp.eps, n=hp.n_embd)
        self.output = w.linear("output" if "output" in w else "token_embd", shape=table)
        self.rope_local = RopeTable(frequencies(hp.d_head, hp.rope_base_local), "neox")
        self.rope = RopeTable(frequencies(hp.d_head, hp.rope_base, stretch=hp.rope_stretch), "neox")

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids, scale=self.n_embd**0.5)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        k, n_head, scale, softcap = self.k, self.hp.n_head, self.hp.scale, self.hp.attn_softcap
        local = step.rope(self.rope_local), step.visible(self.hp.window)
        everything = step.rope(self.rope), step.visible()
        last = self.blk[-1]
        for blk, kv in zip(self.blk, step.kv):
            rope, visible = local if blk.is_local else everything
            qkv = k.linear(x, blk.attn_qkv, norm=blk.attn_norm)  # [n_tok, (n_head + 2 n_head_kv) d_head]
            q = k.qkv_to_rows(
                qkv, n_head, kv, step.at, rope=rope, q_norm=blk.attn_q_norm, k_norm=blk.attn_k_norm
            )  # [n_tok, n_head, d_head]
            if blk is last:
                x, q, visible = step.wanted(x, q, visible)
            a = k.attention(q, kv, visible, scale, softcap=softcap)  # [n_tok, n_head d_head]
            a = k.linear(a, blk.attn_output)  # [n_tok, n_embd]
            x = k.norm(a, blk.post_attention_norm, residual=x, out=x)
            h = k.gated(x, blk.ffn_gate_up, "gelu", norm=blk.ffn_norm)  # [n_tok, n_ff]
            h = k.linear(h, blk.ffn_down)  # [n_tok, n_embd]
            x = k.norm(h, blk.post_ffw_norm, residual=x, out=x)
        return x

    def logits(self, x: F32) -> F32:
        y = self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
        return self.k.softcap(y, self.hp.softcap) if self.hp.softcap else y
