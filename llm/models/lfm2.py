"""LFM2, dense and with experts: the text side of LFM2-VL and LFM2-Audio.

Some layers attend, with queries and keys normed per head; the others, without heads for keys, convolve:
b | c | x = in_proj(norm(row)), and c * conv(b * x) goes through out_proj. The convolution sees its own row
and two before, and treats each column by itself. It reads b * x of earlier rows from the cache, where they
stay like keys, so that going back is no more than forgetting rows. After the first layers, feed-forward
networks may be experts, picked by a sigmoid plus a learned bias. (arXiv 2511.23404)
"""

from dataclasses import dataclass

from llm.cache import Step
from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32, I32, KvRows, Rope, Visible
from llm.models import register
from llm.nn import Experts, Gated
from llm.rope import RopeTable, frequencies
from llm.weights import Weights


@dataclass(frozen=True)
class Hparams:
    n_ctx: int = key("context_length")
    n_layer: int = key("block_count")
    n_embd: int = key("embedding_length")
    n_ff: int = key("feed_forward_length")
    n_head: int = key("attention.head_count")
    n_head_kv: tuple[int, ...] = key("attention.head_count_kv", per="n_layer", least=0)
    d_head: int = key("attention.key_length", default=lambda hp: hp.n_embd // hp.n_head)
    eps: float = key("attention.layer_norm_rms_epsilon")
    window: int = key("attention.sliding_window", default=0)
    n_conv: int = key("shortconv.l_cache")
    rope_base: float = key("rope.freq_base", default=10000.0)
    n_expert: int = key("expert_count", default=0)
    n_expert_used: int = key("expert_used_count", default=0)
    n_ff_expert: int = key("expert_feed_forward_length", default=lambda hp: hp.n_ff)
    expert_gating: int = key("expert_gating_func", default=2)
    expert_scale: float = key("expert_weights_scale", default=1.0)


class Attention:
    """The first half of a layer that attends."""

    def __init__(self, hp: Hparams, n_head_kv: int, w: Weights) -> None:
        n_q, n_kv = hp.n_head * hp.d_head, n_head_kv * hp.d_head
        self.n_head, self.scale = hp.n_head, hp.d_head**-0.5
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd)
        self.attn_qkv = w.qkv(shape=(n_q + 2 * n_kv, hp.n_embd))
        self.attn_q_norm = w.norm("attn_q_norm", hp.eps, n=hp.d_head)
        self.attn_k_norm = w.norm("attn_k_norm", hp.eps, n=hp.d_head)
        self.output = w.linear("attn_output", shape=(hp.n_embd, n_q))

    def __call__(self, k: Kernels, x: F32, kv: KvRows, step: Step, rope: Rope, visible: Visible) -> F32:
        """[n_tok, n_embd], before the output matrix."""
        qkv = k.linear(x, self.attn_qkv, norm=self.attn_norm)  # [n_tok, (n_head + 2 n_head_kv) d_head]
        q = k.qkv_to_rows(
            qkv, self.n_head, kv, step.at, rope=rope, q_norm=self.attn_q_norm, k_norm=self.attn_k_norm
        )  # [n_tok, n_head, d_head]
        return k.attention(q, kv, visible, self.scale)


class Convolution:
    """The first half of a layer that convolves."""

    def __init__(self, hp: Hparams, w: Weights) -> None:
        self.attn_norm = w.norm("attn_norm", hp.eps, n=hp.n_embd)
        self.in_proj = w.linear("shortconv.in_proj", shape=(3 * hp.n_embd, hp.n_embd))
        self.conv = w.array("shortconv.conv.weight", (hp.n_embd, hp.n_conv))
        self.output = w.linear("shortconv.out_proj", shape=(hp.n_embd, hp.n_embd))

    def __call__(self, k: Kernels, x: F32, kv: KvRows, step: Step, rope: Rope, visible: Visible) -> F32:
        """[n_tok, n_embd], before the output matrix."""
        bcx = k.linear(x, self.in_proj, norm=self.attn_norm)  # [n_tok, 3 n_embd]
        return k.short_conv(bcx, self.conv, kv, step.at, step.lo)


class Block:
    """The weights of one layer."""

    def __init__(self, hp: Hparams, n_head_kv: int, w: Weights) -> None:
        self.mix = Attention(hp, n_head_kv, w) if n_head_kv else Convolution(hp, w)
        self.ffn: Gated | Experts
        if "ffn_gate_inp" in w:
            shape = hp.n_expert, hp.n_ff_expert, hp.n_embd
            self.ffn = Experts(w, shape, hp.n_expert_used, hp.eps, hp.expert_gating, hp.expert_scale, True)
        else:
            self.ffn = Gated(w, hp.n_ff, hp.n_embd, hp.eps)


@register("lfm2moe", Hparams)
@register("lfm2", Hparams)
class Lfm2:
    n_axis, n_level = 1, 1

    def __init__(self, hp: Hparams, w: Weights, k: Kernels) -> None:
        self.hp, self.k = hp, k
        self.n_ctx_train, self.n_embd = hp.n_ctx, hp.n_embd
        self.n_vocab = w.shape("token_embd.weight")[0]
        self.kv_shapes = [(n, hp.d_head) if n else hp.n_embd for n in hp.n_head_kv]
        table = (self.n_vocab, hp.n_embd)
        self.token_embd = w.embedding("token_embd", table)
        self.blk = [Block(hp, n, w[f"blk.{il}"]) for il, n in enumerate(hp.n_head_kv)]
        self.output_norm = w.norm(
            "token_embd_norm", hp.eps, n=hp.n_embd
        )  # named for its input once, and left
        self.output = w.linear("output" if "output" in w else "token_embd", shape=table)
        self.rope = RopeTable(frequencies(hp.d_head, hp.rope_base), "neox")

    def embed(self, ids: I32) -> F32:
        return self.k.embed(self.token_embd, ids)  # [n_tok, n_embd]

    def forward(self, x: F32, step: Step) -> F32:
        k = self.k
        rope, visible = step.rope(self.rope), step.visible(self.hp.window)
        for blk, kv in zip(self.blk, step.kv):
            y = blk.mix(k, x, kv, step, rope, visible)  # [n_tok, n_embd]
            if blk is self.blk[-1]:
                x, y = x[-step.n_want :], y[-step.n_want :]
            x = k.linear(y, blk.mix.output, residual=x, out=x)  # [n_tok, n_embd]
            x = blk.ffn(k, x)
        return x

    def logits(self, x: F32) -> F32:
        return self.k.linear(x, self.output, norm=self.output_norm)  # [n, n_vocab]
