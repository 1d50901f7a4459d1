"""Gemma 4: E2B, E4B, 26B-A4B, 31B, and the Unified ones.

Gemma 3's block, with these differences. Scores are not scaled; values are normed too, without a weight, and
may be the keys before their norm. Layers with a window have narrower heads than those that see everything,
which rotate a part of theirs only: frequencies of the rest are divided to nothing. The last layers may have
no keys and values of their own and read those of the last layer of their kind that has. In E2B and E4B each
layer adds something that comes from the token and from the row as it entered; in 26B-A4B there are experts
beside the feed-forward network. Each layer's output has a scale. Rows of a picture see each other in layers
with a window only.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32, Norm, Router
from llm.models import register
from llm.rope import RopeTable, frequencies
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams:
    n_ctx: int = key("context_length")
    n_layer: int = key("block_count")
    n_embd: int = key("embedding_length")
    n_ff: tuple[int, ...] = key("feed_forward_length", per="n_layer")
    n_head: int = key("attention.head_count")
    n_head_kv: tuple[int, ...] = key("attention.head_count_kv", default=lambda hp: hp.n_head, per="n_layer")
    n_kvless: int = key("attention.shared_kv_layers", default=0)
    d_head: int = key("attention.key_length")
    d_head_local: int = key("attention.key_length_swa")
    eps: float = key("attention.layer_norm_rms_epsilon")
    window: int = key("attention.sliding_window")
    is_local: tuple[bool, ...] = key("attention.sliding_window_pattern", per="n_layer")
    n_rot: int = key("rope.dimension_count", default=lambda hp: hp.d_head)
    n_rot_local: int = key("rope.dimension_count_swa", default=lambda hp: hp.d_head_local)
    rope_base: float = key("rope.freq_base", default=1e6)
    rope_base_local: float = key("rope.freq_base_swa", default=1e4)
    n_per_layer: int = key("embedding_length_per_layer_input", default=0)
    n_expert: int = key("expert_count", default=0)
    n_expert_used: int = key("expert_used_count", default=0)
    n_ff_expert: int = key("expert_feed_forward_length", default=0)
    softcap: float = key("final_logit_softcapping", default=0.0)


class Experts:
    """Many networks beside the one for all rows; each side is normed before they are added."""

    def __init__(self, hp: Hparams, w: Weights) -> None:
        n, n_embd = hp.n_expert, hp.n_embd
        self.post_ffw_norm_1 = w.norm("post_ffw_norm_1", hp.eps, n=n_embd)
        self.pre_ffw_norm_2 = w.norm("pre_ffw_norm_2", hp.eps, n=n_embd)
        self.post_ffw_norm_2 = w.norm("post_ffw_norm_2", hp.eps, n=n_embd)
        norm = Norm(w.array("ffn_gate_inp.scale", (n_embd,)) / np.float32(math.sqrt(n_embd)), hp.eps)
        scale = "ffn_down_exps.scale"
        scales = w.array(scale, (n,)) if scale in w else np.ones(n, np.float32)
        inp = w.linear("ffn_gate_inp", shape=(n, n_embd))
        self.ffn_gate_inp = Router(inp, hp.n_expert_used, scales, norm=norm)
        both = ("ffn_gate_up_exps",) if "ffn_gate_up_exps" in w else ("ffn_gate_exps", "ffn_up_exps")
        self.ffn_gate_up_exps = w.experts(*both, shape=(n, 2 * hp.n_ff_expert, n_embd))
        self.ffn_down_exps = w.experts("ffn_down_exps", shape=(n, n_embd, hp.n_ff_expert))

    def __call__(self, k: Kernels, x: F32, h: F32) -> F32:
        """norm(h), the side for all rows, + norm(experts(x)), all [n_tok, n_embd]; h is overwritten."""
        router, gate_up, down = self.ffn_gate_inp, self.ffn_gate_up_exps, self.ffn_down_exps
        h = k.norm(h, self.post_ffw_norm_1, out=h)
        y = k.experts(x, router, gate_up, down, "gelu", norm=self.pre_ffw_norm_2)
        return k.norm(y, self.post_ffw_norm_2, residual=h, out=h)


class Block:
    """The weights of one layer, and which layer's keys and values it reads (`il_kv`)."""

    def __init__(self, hp: Hparams, il: int, w: Weights) -> None:
        n_own = hp.n_layer - hp.n_kvless
        self.is_local = hp.is_local[il]
        self.d_head = hp.d_head_local if self.is_local else hp.d_head
        self.n_head_kv = hp.n_head_kv[il] if il < n_own else 0
        self.il_kv = il if il < n_own else n_own - (2 if self.is_local else 1)
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd)
        n_q, n_kv = hp.n_head * self.d_head, self.n_head_kv * self.d_head
        self.attn_qkv = w.linear(*_qkv(self.n_head_kv > 0, w), shape=(n_q + 2 * n_kv, hp.n_embd))
        self.head_norm = Norm(np.ones(self.d_head, np.float32), hp.eps)
        self.attn_q_norm = w.norm("attn_q_norm", hp.eps, n=self.d_head)
        self.attn_k_norm = w.norm("attn_k_norm", hp.eps, n=self.d_head) if self.n_head_kv else None
        self.attn_output = w.linear("attn_output", shape=(hp.n_embd, n_q))
        self.post_attention_norm = w.norm("post_attention_norm", hp.eps, n=hp.n_embd)
        self.ffn_norm = w.norm("ffn_norm", hp.eps, n=hp.n_embd)
        self.ffn_gate_up = w.linear("ffn_gate", "ffn_up", shape=(2 * hp.n_ff[il], hp.n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(hp.n_embd, hp.n_ff[il]))
        self.post_ffw_norm = w.norm("post_ffw_norm", hp.eps, n=hp.n_embd)
        self.experts = Experts(hp, w) if "ffn_gate_inp" in w else None
        if hp.n_per_layer:
            self.inp_gate = w.linear("inp_gate", shape=(hp.n_per_layer, hp.n_embd))
            self.proj = w.linear("proj", shape=(hp.n_embd, hp.n_per_layer))
            self.post_norm = w.norm("post_norm", hp.eps, n=hp.n_embd)
        scale = "layer_output_scale.weight"
        self.layer_output_scale = w.array(scale, (1,)) if scale in w else np.ones(1, np.float32)


@register("gemma4", Hparams)
class Gemma4:
    n_axis, n_level = 1, 1

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [Block(hp, il, w[f"blk.{il}"]) for il in range(hp.n_layer)]
        self.kv_shapes = [(blk.n_head_kv, blk.d_head) for blk in self.blk]
        self.output_norm = w.norm("output_norm", hp.eps, n=hp.n_embd)
        self.output = w.linear("output" if "output" in w else "token_embd", shape=table)
        factors = w.array("rope_freqs.weight", (hp.n_rot // 2,)) if "rope_freqs" in w else None
        self.rope = RopeTable(frequencies(hp.n_rot, hp.rope_base, factors=factors), "neox")
        self.rope_local = RopeTable(frequencies(hp.n_rot_local, hp.rope_base_local), "neox")
        if hp.n_per_layer:
            n = hp.n_layer * hp.n_per_layer
            self.per_layer_token_embd = w.embedding("per_layer_token_embd", (self.n_vocab, n))
            self.per_layer_model_proj = w.linear("per_layer_model_proj", shape=(n, hp.n_embd))
            norm = w.norm("per_layer_proj_norm", hp.eps * hp.n_embd, n=hp.n_per_layer)
            self.per_layer_proj_norm = replace(norm, weight=norm.weight / np.float32(math.sqrt(2)))

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids, scale=self.n_embd**0.5)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        k, n_head = self.k, self.hp.n_head
        local = step.rope(self.rope_local), step.visible(self.hp.window)
        everything = step.rope(self.rope), step.earlier()
        per_layer = self._per_layer(x, step.ids) if self.hp.n_per_layer else None
        last = self.blk[-1]
        for il, blk in enumerate(self.blk):
            rope, visible = local if blk.is_local else everything
            qkv = k.linear(x, blk.attn_qkv, norm=blk.attn_norm)  # [n_tok, (n_head + 2 n_head_kv) d_head]
            heads = k.norm(qkv.reshape(-1, blk.d_head), blk.head_norm)  # q and k are normed again: no matter
            heads = heads.reshape(len(x), -1)
            q = k.qkv_to_rows(
                heads,
                n_head,
                step.kv[il],
                step.at,
                rope=rope,
                q_norm=blk.attn_q_norm,
                k_norm=blk.attn_k_norm,
            )  # [n_tok, n_head, d_head]
            if blk is last:
                x, q, visible = step.wanted(x, q, visible)
            a = k.attention(q, step.kv[blk.il_kv], visible, 1.0)  # [n_tok, n_head d_head]
            a = k.linear(a, blk.attn_output)  # [n_tok, n_embd]
            x = k.norm(a, blk.post_attention_norm, residual=x, out=x)
            h = k.gated(x, blk.ffn_gate_up, "gelu", norm=blk.ffn_norm)  # [n_tok, n_ff]
            h = k.linear(h, blk.ffn_down)  # [n_tok, n_embd]
            if blk.experts is not None:
                h = blk.experts(k, x, h)
            x = k.norm(h, blk.post_ffw_norm, residual=x, out=x)
            if per_layer is not None:
                h = k.linear(x, blk.inp_gate, act="gelu")  # [n_tok, n_per_layer]
                h = k.mul(h, per_layer[-len(x) :, il], out=h)
                h = k.linear(h, blk.proj)  # [n_tok, n_embd]
                x = k.norm(h, blk.post_norm, residual=x, out=x)
            x = k.scale(x, np.repeat(blk.layer_output_scale, len(x)), out=x)
        return x

    def logits(self, x: F32) -> F32:
        y = self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
        return self.k.softcap(y, self.hp.softcap) if self.hp.softcap else y

    def _per_layer(self, x: F32, ids: I32) -> F32:
        """What the layers get of rows x [n_tok, n_embd] and their tokens -> [n_tok, n_layer, n_per_layer]."""
        k, n = self.k, self.hp.n_per_layer
        of_tokens = k.embed(self.per_layer_token_embd, ids, scale=math.sqrt(n / 2))  # [n_tok, n_layer n]
        of_rows = k.linear(x, self.per_layer_model_proj)  # [n_tok, n_layer n]
        y = k.norm(of_rows.reshape(-1, n), self.per_layer_proj_norm, residual=of_tokens.reshape(-1, n))
        return y.reshape(len(x), self.hp.n_layer, n)


def _qkv(has_kv: bool, w: Weights) -> tuple[str, ...]:
    """The names of the matrices of queries, keys and values; without their own, values are keys."""
    if "attn_qkv" in w:
        return ("attn_qkv",)
    if has_kv:
        return "attn_q", "attn_k", "attn_v" if "attn_v" in w else "attn_k"
    for name in ("attn_k", "attn_v", "attn_k_norm"):
        w[name].skip()
    return ("attn_q",)
