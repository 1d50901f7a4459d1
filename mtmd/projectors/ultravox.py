"""Ultravox: Whisper tower, eight rows stacked into one, a SwiGLU layer between RMS norms.

Source: fixie-ai/ultravox, ultravox_model.py and ultravox_processing.py.
"""

from dataclasses import dataclass

import numpy as np

from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.weights import Weights
from mtmd import audio
from mtmd.encoders.whisper import AudioHparams, Whisper
from mtmd.media import Audio
from mtmd.projector import Compat, Projector, Tile, register

EPS = 1e-6  # of the RMS norms, whatever the file says about the tower


@dataclass(frozen=True)
class Hparams(AudioHparams):
    n_stack: int = key("projector.stack_factor")


@dataclass(frozen=True)
class Recipe:
    """How a clip is cut, and whether the last group of rows counts when it is not full."""

    mel: audio.Recipe
    partial_group: bool


RECIPES = {
    "authors": Recipe(audio.WHISPER["authors"], partial_group=True),
    "peer": Recipe(audio.WHISPER["peer"], partial_group=False),
}


@register("ultravox", Hparams)
class Ultravox(Projector[Audio]):
    kind = "audio"

    def __init__(self, hp: Hparams, w: Weights, k: Kernels, compat: Compat) -> None:
        self.hp, self.k, self.recipe = hp, k, RECIPES[compat]
        mm = w["mm.a"]
        self.whisper = Whisper(hp, w["a"], k)
        self.norm_pre = mm.norm("norm_pre", EPS, n=hp.n_stack * hp.n_embd)
        self.mlp_1 = mm.up_gate("mlp.1")  # SwiGLU with the gate in the second half
        self.norm_mid = mm.norm("norm_mid", EPS)
        self.mlp_2 = mm.linear("mlp.2")
        self.n_embd = self.mlp_2.n_out

    def preprocess(self, media: Audio) -> list[Tile]:
        samples = media.at(audio.RATE).samples
        return [self._tile(w) for w in audio.log_mel_windows(samples, self.hp.n_mel, self.recipe.mel)]

    def encode(self, tile: Tile) -> F32:
        """tile.x [n_frame, n_mel]."""
        k, n_stack = self.k, self.hp.n_stack
        n_row, n_embd = -(-len(tile.x) // 2), self.hp.n_embd
        rows = np.zeros((-(-n_row // n_stack) * n_stack, n_embd), np.float32)  # zeros fill the last group
        self.whisper(tile.x, out=rows[:n_row])
        x = rows.reshape(-1, n_stack * n_embd)[: tile.n_tok]  # [n_tok, n_stack n_embd]
        x = k.gated(x, self.mlp_1, "silu", norm=self.norm_pre)  # [n_tok, n_mid]
        return k.linear(x, self.mlp_2, norm=self.norm_mid)  # [n_tok, n_out]

    def _tile(self, window: audio.Window) -> Tile:
        n_row, n_stack = -(-window.n_valid // 2), self.hp.n_stack
        n_tok = -(-n_row // n_stack) if self.recipe.partial_group else n_row // n_stack
        return Tile(np.ascontiguousarray(window.mel.T), n_tok)
