"""Feed-forward networks that many architectures have, one or many of them in a layer."""

import numpy as np

from llm.errors import ModelError
from llm.kernels import Kernels
from llm.kernels.operands import F32, Norm, Router, Score
from llm.weights import Weights

_SCORES: dict[int, Score] = {1: "softmax", 2: "sigmoid"}


class Gated:
    """x + down(silu(gate) * up), gate and up of norm(x)."""

    def __init__(self, w: Weights, n_ff: int, n_embd: int, eps: float) -> None:
        self.ffn_norm = _norm(w, n_embd, eps)
        gate_up = ("ffn_gate", "ffn_up") if "ffn_gate" in w else ("ffn_up",)  # one below the other already
        self.ffn_gate_up = w.linear(*gate_up, shape=(2 * n_ff, n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(n_embd, n_ff))

    def __call__(self, k: Kernels, x: F32) -> F32:
        """x [n_tok, n_embd], overwritten."""
        h = k.gated(x, self.ffn_gate_up, "silu", norm=self.ffn_norm)  # [n_tok, n_ff]
        return k.linear(h, self.ffn_down, residual=x, out=x)


class Experts:
    """x + what the best `n_used` of many networks give, weighed by a router, + what one for all rows gives.

    `shape` is n_expert, n_ff, n_embd; `gating` says how scores come about: 1 softmax, 2 sigmoid.
    """

    def __init__(
        self,
        w: Weights,
        shape: tuple[int, int, int],
        n_used: int,
        eps: float,
        gating: int,
        scale: float,
        normed: bool,
    ) -> None:
        n_expert, n_ff, n_embd = shape
        if not 0 < n_used <= n_expert:
            raise ModelError(f"{w.path}: expert_used_count is {n_used}, expected 1 to {n_expert}")
        if gating not in _SCORES:
            raise ModelError(f"{w.path}: expert_gating_func is {gating}, expected 1 (softmax) or 2 (sigmoid)")
        self.ffn_norm = _norm(w, n_embd, eps)
        bias = w.array("exp_probs_b.bias", (n_expert,)) if "exp_probs_b.bias" in w else None
        inp = w.linear("ffn_gate_inp", shape=(n_expert, n_embd))
        scales = np.full(n_expert, scale, np.float32)
        self.ffn_gate_inp = Router(inp, n_used, scales, _SCORES[gating], bias, normed)
        both = ("ffn_gate_up_exps",) if "ffn_gate_up_exps" in w else ("ffn_gate_exps", "ffn_up_exps")
        self.ffn_gate_up_exps = w.experts(*both, shape=(n_expert, 2 * n_ff, n_embd))
        self.ffn_down_exps = w.experts("ffn_down_exps", shape=(n_expert, n_embd, n_ff))
        self.shared = None
        if "ffn_gate_shexp" in w:
            self.shared = w.linear("ffn_gate_shexp", "ffn_up_shexp"), w.linear("ffn_down_shexp")

    def __call__(self, k: Kernels, x: F32) -> F32:
        """x [n_tok, n_embd], overwritten."""
        router, gate_up, down = self.ffn_gate_inp, self.ffn_gate_up_exps, self.ffn_down_exps
        if self.shared is None:
            return k.experts(x, router, gate_up, down, "silu", norm=self.ffn_norm, residual=x, out=x)
        gate_up_shexp, down_shexp = self.shared
        h = k.gated(x, gate_up_shexp, "silu", norm=self.ffn_norm)  # [n_tok, n_ff_shared]
        x = k.experts(x, router, gate_up, down, "silu", norm=self.ffn_norm, residual=x, out=x)
        return k.linear(h, down_shexp, residual=x, out=x)


def _norm(w: Weights, n_embd: int, eps: float) -> Norm:
    """What the network reads; GLM 4.5 calls it by its place behind attention."""
    return w.norm("ffn_norm" if "ffn_norm" in w else "post_attention_norm", eps, n=n_embd)
