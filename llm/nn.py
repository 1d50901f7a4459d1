"""Feed-forward networks that many architectures have, one or many of them in a layer."""

from llm.errors import ModelError
from llm.kernels import Kernels
from llm.kernels.operands import F32, Router, Score
from llm.weights import Weights


class Gated:
    """x + down(silu(gate) * up), gate and up of norm(x)."""

    def __init__(self, w: Weights, n_ff: int, n_embd: int, eps: float) -> None:
        self.ffn_norm = w.norm("ffn_norm", eps, n=n_embd)
        gate_up = ("ffn_gate", "ffn_up") if "ffn_gate" in w else ("ffn_up",)  # one below the other already
        self.ffn_gate_up = w.linear(*gate_up, shape=(2 * n_ff, n_embd))
        self.ffn_down = w.linear("ffn_down", shape=(n_embd, n_ff))

    def __call__(self, k: Kernels, x: F32) -> F32:
        """x [n_tok, n_embd], overwritten."""
        h = k.gated(x, self.ffn_gate_up, "silu", norm=self.ffn_norm)  # [n_tok, n_ff]
        return k.linear(h, self.ffn_down, residual=x, out=x)


class Experts:
    """x + what the best `n_used` of many networks give, weighed by a router.

    `shape` is n_expert, n_ff, n_embd.
    """

    def __init__(
        self,
        w: Weights,
        shape: tuple[int, int, int],
        n_used: int,
        eps: float,
        score: Score = "softmax",
        scale: float = 1.0,
    ) -> None:
        n_expert, n_ff, n_embd = shape
        if not 0 < n_used <= n_expert:
            raise ModelError(f"expert_used_count is {n_used}, expected 1 to {n_expert}")
        self.ffn_norm = w.norm("ffn_norm", eps, n=n_embd)
        bias = w.array("exp_probs_b.bias", (n_expert,)) if "exp_probs_b.bias" in w else None
        inp = w.linear("ffn_gate_inp", shape=(n_expert, n_embd))
        self.ffn_gate_inp = Router(inp, n_used, score, bias, scale)
        self.ffn_gate_up_exps = w.experts("ffn_gate_exps", "ffn_up_exps", shape=(n_expert, 2 * n_ff, n_embd))
        self.ffn_down_exps = w.experts("ffn_down_exps", shape=(n_expert, n_embd, n_ff))

    def __call__(self, k: Kernels, x: F32) -> F32:
        """x [n_tok, n_embd], overwritten."""
        gate_up, down = self.ffn_gate_up_exps, self.ffn_down_exps
        return k.experts(x, self.ffn_gate_inp, gate_up, down, "silu", norm=self.ffn_norm, residual=x, out=x)
