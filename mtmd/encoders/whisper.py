"""Whisper's encoder: two convolutions over log-mel frames, the second of stride 2, positions, blocks.

Source: openai/whisper, model.py. The keys have no bias; the GELU is the exact one.
"""

from dataclasses import dataclass

from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.weights import Weights
from mtmd.encoders.blocks import Blocks


@dataclass(frozen=True)
class AudioHparams:
    """Keys `clip.audio.*` that every audio tower has."""

    n_embd: int = key("embedding_length")
    n_layer: int = key("block_count")
    n_head: int = key("attention.head_count")
    eps: float = key("attention.layer_norm_epsilon")
    n_mel: int = key("num_mel_bins")


class Whisper:
    """The tower under `a.` for up to twice as many frames as there are positions."""

    def __init__(self, hp: AudioHparams, w: Weights, k: Kernels) -> None:
        self.k = k
        self.conv1d_1 = w.linear("conv1d.1", shape=(hp.n_embd, 3 * hp.n_mel))
        self.conv1d_2 = w.linear("conv1d.2", shape=(hp.n_embd, 3 * hp.n_embd))
        self.position_embd = w.array("position_embd.weight")
        self.blocks = Blocks(w, k, hp.n_layer, hp.n_head, hp.eps, "gelu_erf")
        self.post_ln = w.norm("post_ln", hp.eps, n=hp.n_embd, center=True)

    def __call__(self, mel: F32, out: F32 | None = None) -> F32:
        """mel [n_frame, n_mel] -> [ceil(n_frame / 2), n_embd], written to `out` if given."""
        k = self.k
        x = k.conv1d(mel, self.conv1d_1, 3, 1, 1, act="gelu_erf")  # [n_frame, n_embd]
        x = k.conv1d(x, self.conv1d_2, 3, 2, 1, act="gelu_erf")  # [n_row, n_embd]
        x = k.add(x, self.position_embd[: len(x)], out=x)
        return k.norm(self.blocks(x), self.post_ln, out=out)
