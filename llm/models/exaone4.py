"""EXAONE 4 and the text side of EXAONE 4.5.

Norms come only behind each branch, and per head on queries and keys. The large ones see a sliding window in
three of four layers; there rows rotate, and in layers that see everything they know nothing of their places.
The small one rotates everywhere, stretched as Llama 3 is. (arXiv 2507.11407)
"""

from dataclasses import dataclass
from typing import Any

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32
from llm.models import register
from llm.rope import RopeTable, frequencies
from llm.weights import Weights


def _three_of_four(hp: Any) -> list[bool]:
    return [(il + 1) % 4 != 0 for il in range(hp.n_layer)]


@dataclass(frozen=True)
class Hparams:
    n_ctx: int = key("context_length")
    n_layer: int = key("block_count")
    n_further: int = key("nextn_predict_layers", default=0)
    n_embd: int = key("embedding_length")
    n_ff: int = key("feed_forward_length")
    n_head: int = key("attention.head_count")
    n_head_kv: int = key("attention.head_count_kv", default=lambda hp: hp.n_head)
    d_head: int = key("attention.key_length", default=lambda hp: hp.n_embd // hp.n_head)
    eps: float = key("attention.layer_norm_rms_epsilon")
    window: int = key("attention.sliding_window", default=0)
    local: tuple[bool, ...] = key("attention.sliding_window_pattern", default=_three_of_four, per="n_layer")
    rope_base: float = key("rope.freq_base", default=10000.0)

    def is_local(self, il: int) -> bool:
        return self.window > 0 and self.local[il]


class Block:
    """The weights of one layer."""

    def __init__(self, hp: Hparams, is_local: bool, w: Weights) -> None:
        n_q, n_kv = hp.n_head * hp.d_head, hp.n_head_kv * hp.d_head
        self.is_local = is_local
        self.attn_qkv = w.qkv(shape=(n_q + 2 * n_kv, hp.n_embd))
        self.attn_q_norm = w.norm("attn_q_norm", hp.eps, n=hp.d_head)
        self.attn_k_norm = w.norm("attn_k_norm", hp.eps, n=hp.d_head)
        self.attn_output = w.linear("attn_output", shape=(hp.n_embd, n_q))
        self.post_attention_norm = w.norm("post_attention_norm", hp.eps, n=hp.n_embd)
        self.ffn_gate_up = w.linear("ffn_gate", "ffn_up", shape=(2 * hp.n_ff, hp.n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(hp.n_embd, hp.n_ff))
        self.post_ffw_norm = w.norm("post_ffw_norm", hp.eps, n=hp.n_embd)


@register("exaone4", Hparams)
class Exaone4:
    n_axis, n_level = 1, 1

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        n_layer = hp.n_layer - hp.n_further
        self.kv_shapes = [(hp.n_head_kv, hp.d_head)] * n_layer
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [Block(hp, hp.is_local(il), w[f"blk.{il}"]) for il in range(n_layer)]
        for il in range(n_layer, hp.n_layer):
            w[f"blk.{il}"].skip()
        self.output_norm = w.norm("output_norm", hp.eps, n=hp.n_embd)
        self.output = w.linear("output" if "output" in w else "token_embd", shape=table)
        factors = w.array("rope_freqs.weight", (hp.d_head // 2,)) if "rope_freqs" in w else None
        self.rope = RopeTable(frequencies(hp.d_head, hp.rope_base, factors=factors), "neox")

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        k, n_head, scale = self.k, self.hp.n_head, self.hp.d_head**-0.5
        rope = step.rope(self.rope)
        local = rope, step.visible(self.hp.window)
        everything = None if self.hp.window else rope, step.visible()
        last = self.blk[-1]
        for blk, kv in zip(self.blk, step.kv):
            turn, visible = local if blk.is_local else everything
            qkv = k.linear(x, blk.attn_qkv)  # [n_tok, (n_head + 2 n_head_kv) d_head]
            q = k.qkv_to_rows(
                qkv, n_head, kv, step.at, rope=turn, q_norm=blk.attn_q_norm, k_norm=blk.attn_k_norm
            )  # [n_tok, n_head, d_head]
            if blk is last:
                x, q, visible = step.wanted(x, q, visible)
            a = k.attention(q, kv, visible, scale)  # [n_tok, n_head d_head]
            a = k.linear(a, blk.attn_output)  # [n_tok, n_embd]
            x = k.norm(a, blk.post_attention_norm, residual=x, out=x)
            h = k.gated(x, blk.ffn_gate_up, "silu")  # [n_tok, n_ff]
            h = k.linear(h, blk.ffn_down)  # [n_tok, n_embd]
            x = k.norm(h, blk.post_ffw_norm, residual=x, out=x)
        return x

    def logits(self, x: F32) -> F32:
        return self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
