"""GLM 4 (0414): 9B and 32B; with axes of positions, the text side of GLM-4.1V, GLM-4.6V Flash and GLM-OCR.

Every branch is normed before and after; gate and up are one matrix, and q, k, v have biases in some files.
Half of a head rotates, in adjacent pairs; in the vision models pairs are half the rotated part apart, and
each section of them turns by one axis of the position, as in Qwen 2-VL. Last layers that predict further
tokens are left out.
"""

from dataclasses import dataclass

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32
from llm.models import register
from llm.rope import RopeTable, by_section, frequencies
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
    eps: float = key("attention.layer_norm_rms_epsilon")
    n_rot: int = key("rope.dimension_count", default=lambda hp: hp.d_head)
    rope_base: float = key("rope.freq_base", default=10000.0)
    n_further: int = key("nextn_predict_layers", default=0)
    sections: tuple[int, ...] = key("rope.dimension_sections", default=())


class Block:
    """The weights of one layer."""

    def __init__(self, hp: Hparams, w: Weights) -> None:
        n_q, n_kv = hp.n_head * hp.d_head, hp.n_head_kv * hp.d_head
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd)
        self.attn_qkv = w.qkv(shape=(n_q + 2 * n_kv, hp.n_embd))
        self.attn_output = w.linear("attn_output", shape=(hp.n_embd, n_q))
        self.post_attention_norm = w.norm("post_attention_norm", hp.eps, n=hp.n_embd)
        self.ffn_norm = w.norm("ffn_norm", hp.eps, n=hp.n_embd)
        self.ffn_gate_up = w.linear("ffn_up", shape=(2 * hp.n_ff, hp.n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(hp.n_embd, hp.n_ff))
        self.post_ffw_norm = w.norm("post_ffw_norm", hp.eps, n=hp.n_embd)


@register("glm4", Hparams)
class Glm4:
    n_level = 1

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        n_layer = hp.n_layer - hp.n_further
        self.kv_shapes = [(hp.n_head_kv, hp.d_head)] * n_layer
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [Block(hp, w[f"blk.{il}"]) for il in range(n_layer)]
        for il in range(n_layer, hp.n_layer):
            w[f"blk.{il}"].skip()
        self.output_norm = w.norm("output_norm", hp.eps, n=hp.n_embd)
        self.output = w.linear("output" if "output" in w else "token_embd", shape=table)
        freqs = frequencies(hp.n_rot, hp.rope_base)
        self.n_axis, self.rope = 1, RopeTable(freqs, "norm")
        if any(hp.sections):
            self.n_axis, self.rope = 4, RopeTable(freqs, "neox", axes=by_section(hp.sections, len(freqs)))

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
            a = k.linear(a, blk.attn_output)  # [n_tok, n_embd]
            x = k.norm(a, blk.post_attention_norm, residual=x, out=x)
            h = k.gated(x, blk.ffn_gate_up, "silu", norm=blk.ffn_norm)  # [n_tok, n_ff]
            h = k.linear(h, blk.ffn_down)  # [n_tok, n_embd]
            x = k.norm(h, blk.post_ffw_norm, residual=x, out=x)
        return x

    def logits(self, x: F32) -> F32:
        return self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
