"""Llama and what shares its form: Llama 1-3, Mistral, SmolLM, TinyLlama, Vicuna.

RMS norm, then attention with grouped heads and rotary positions on adjacent pairs; RMS norm, then
down(silu(gate) * up). Some files bring biases, norms of queries and keys per head, an output matrix of their
own, experts (Mixtral), or a rotation stretched for long contexts: Llama 3 by factors per frequency, others
linearly, by YaRN, or by two sets of factors, one for contexts as long as the model was first trained for and
one for longer ("LongRoPE", arXiv 2402.13753).
Architectures that differ from this in a step or two are built on it.
"""

import math
from dataclasses import dataclass

from llm.cache import Step
from llm.errors import ModelError
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32, KvRows, Rope, RopeKind, Visible
from llm.models import register
from llm.nn import Experts, Gated
from llm.rope import RopeTable, frequencies, yarn
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams:
    n_ctx: int = key("context_length")
    n_layer: int = key("block_count")
    n_embd: int = key("embedding_length")
    n_ff: int = key("feed_forward_length")
    n_head: int = key("attention.head_count")
    n_head_kv: tuple[int, ...] = key("attention.head_count_kv", default=lambda hp: hp.n_head, per="n_layer")
    d_head: int = key("attention.key_length", default=lambda hp: hp.n_embd // hp.n_head)
    scale: float = key("attention.scale", default=lambda hp: hp.d_head**-0.5)
    eps: float = key("attention.layer_norm_rms_epsilon")
    n_rot: int = key("rope.dimension_count", default=lambda hp: hp.d_head)
    rope_base: float = key("rope.freq_base", default=10000.0)
    rope_scaling: str = key("rope.scaling.type", default="linear")
    rope_stretch: float = key("rope.scaling.factor", default=1.0)
    n_expert: int = key("expert_count", default=0)
    n_expert_used: int = key("expert_used_count", default=0)
    n_ff_expert: int = key("expert_feed_forward_length", default=lambda hp: hp.n_ff)
    expert_gating: int = key("expert_gating_func", default=1)
    expert_scale: float = key("expert_weights_scale", default=1.0)
    expert_normed: bool = key("expert_weights_norm", default=True)
    rope_magnitude: float = key("rope.scaling.attn_factor", default=1.0)
    yarn_fast: float = key("rope.scaling.yarn_beta_fast", default=32.0)
    yarn_slow: float = key("rope.scaling.yarn_beta_slow", default=1.0)
    yarn_log: float = key("rope.scaling.yarn_log_multiplier", default=0.0)
    n_ctx_orig: int = key("rope.scaling.original_context_length", default=lambda hp: hp.n_ctx)


class Block:
    """The weights of one layer."""

    def __init__(self, hp: Hparams, n_head_kv: int, w: Weights) -> None:
        n_q, n_kv = hp.n_head * hp.d_head, n_head_kv * hp.d_head
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd)
        self.attn_qkv = w.qkv(shape=(n_q + 2 * n_kv, hp.n_embd))
        self.attn_q_norm, self.attn_k_norm = (
            w.norm(name, hp.eps, n=hp.d_head) if name in w else None
            for name in ("attn_q_norm", "attn_k_norm")
        )
        self.attn_output = w.linear("attn_output", shape=(hp.n_embd, n_q))
        self.ffn: Gated | Experts
        if "ffn_gate_inp" in w:
            shape = hp.n_expert, hp.n_ff_expert, hp.n_embd
            how = hp.expert_gating, hp.expert_scale, hp.expert_normed
            self.ffn = Experts(w, shape, hp.n_expert_used, hp.eps, *how)
        else:
            self.ffn = Gated(w, hp.n_ff, hp.n_embd, hp.eps)


@register("llama", Hparams)
class Llama:
    n_axis, n_level = 1, 1
    rope_kind: RopeKind = "norm"
    block = Block

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        self.kv_shapes = [(n, hp.d_head) for n in hp.n_head_kv]
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [self.block(hp, n, w[f"blk.{il}"]) for il, n in enumerate(hp.n_head_kv)]
        self.output_norm = w.norm("output_norm", hp.eps, n=hp.n_embd)
        self.output = w.linear("output" if "output" in w else "token_embd", shape=table)
        self.rope = self.rope_long = self.rotation(w, "rope_freqs")
        if "rope_factors_long" in w:
            self.rope = self.rotation(w, "rope_factors_short")
            self.rope_long = self.rotation(w, "rope_factors_long")

    def rotation(self, w: Weights, factors: str) -> RopeTable:
        """Of queries and keys, its frequencies divided by the tensor `factors` where the file has it."""
        hp = self.hp
        divisors = w.array(f"{factors}.weight", (hp.n_rot // 2,)) if factors in w else None
        freqs, magnitude = frequencies(hp.n_rot, hp.rope_base, factors=divisors), hp.rope_magnitude
        match hp.rope_scaling:
            case "none" | "longrope":
                return RopeTable(freqs, self.rope_kind, magnitude)
            case "linear":
                return RopeTable(freqs / hp.rope_stretch, self.rope_kind, magnitude)
            case "yarn":
                freqs = yarn(freqs, hp.rope_stretch, hp.n_ctx_orig, hp.yarn_fast, hp.yarn_slow)
                growth = 0.1 * math.log(hp.rope_stretch)
                magnitude *= (1 + growth) / (1 + hp.yarn_log * growth)
                return RopeTable(freqs, self.rope_kind, magnitude)
        known = "none, linear, yarn or longrope"
        raise ModelError(f"{w.path}: rope.scaling.type is {hp.rope_scaling!r}, expected {known}")

    def turns(self, step: Step) -> Rope:
        """The rotation at a step's positions, with the factors for the size of the context.

        If it were that of the text so far, keys in the cache would turn wrong when the text grows.
        """
        return step.rope(self.rope_long if step.n_ctx > self.hp.n_ctx_orig else self.rope)

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        rope, visible = self.turns(step), step.visible()
        for blk, kv in zip(self.blk, step.kv):
            x = self.layer(blk, x, step, kv, rope, visible)
        return x

    def layer(self, blk: Block, x: F32, step: Step, kv: KvRows, rope: Rope | None, visible: Visible) -> F32:
        """One block; after the last, only the rows that want an output are left."""
        k, n_head = self.k, self.hp.n_head
        qkv = k.linear(x, blk.attn_qkv, norm=blk.attn_norm)  # [n_tok, (n_head + 2 n_head_kv) d_head]
        q = k.qkv_to_rows(
            qkv, n_head, kv, step.at, rope=rope, q_norm=blk.attn_q_norm, k_norm=blk.attn_k_norm
        )  # [n_tok, n_head, d_head]
        q = self.queries(q, blk, step)
        if blk is self.blk[-1]:
            x, q, visible = step.wanted(x, q, visible)
        a = k.attention(q, kv, visible, self.hp.scale)  # [n_tok, n_head d_head]
        x = k.linear(a, blk.attn_output, residual=x, out=x)  # [n_tok, n_embd]
        return blk.ffn(k, x)

    def queries(self, q: F32, blk: Block, step: Step) -> F32:
        """What queries [n_tok, n_head, d_head] go through after they have turned: nothing more."""
        return q

    def logits(self, x: F32) -> F32:
        return self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
