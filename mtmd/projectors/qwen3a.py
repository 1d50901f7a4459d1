"""Qwen3-ASR, the audio of Qwen3-Omni: strided convolutions over the mel picture, windowed blocks, two layers.

A clip is cut into windows of 8 s, in which rows see each other, and these into slices of 1 s, which give 13
rows each. Source: QwenLM/Qwen3-ASR, modeling_qwen3_asr.py.
"""

from dataclasses import dataclass

import numpy as np

from llm.hparams import key
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.weights import Weights
from mtmd import audio
from mtmd.encoders.blocks import Blocks
from mtmd.encoders.whisper import AudioHparams
from mtmd.media import Audio
from mtmd.projector import Compat, Projector, Tile, register

N_SLICE = 100  # frames that the convolutions see at once


@dataclass(frozen=True)
class Hparams(AudioHparams):
    """`recipe`, a key of ours, is "llama.cpp" where the model learned from windows cut as it cuts them."""

    recipe: str = key("recipe", default="")


@register("qwen3a", Hparams)
class Qwen3A(Projector[Audio]):
    kind = "audio"
    begin, end = "<|audio_start|>", "<|audio_end|>"

    def __init__(self, hp: Hparams, w: Weights, k: Kernels, compat: Compat) -> None:
        self.hp, self.k = hp, k
        self.recipe = audio.QWEN3A["peer" if hp.recipe == "llama.cpp" else compat]
        a, mlp = w["a"], w["mm.a.mlp"]
        self.conv2d = [a.linear(f"conv2d.{i}") for i in (1, 2, 3)]
        self.conv_out = a.linear("conv_out", shape=(hp.n_embd, self.conv2d[2].n_out * -(-hp.n_mel // 8)))
        self.position_embd = a.array("position_embd.weight")
        self.blocks = Blocks(a, k, hp.n_layer, hp.n_head, hp.eps, "gelu_erf")
        self.post_ln = a.norm("post_ln", hp.eps, center=True)
        self.fc1, self.fc2 = mlp.linear("1"), mlp.linear("2")
        self.n_embd = self.fc2.n_out

    def preprocess(self, media: Audio) -> list[Tile]:
        samples = media.at(audio.RATE).samples
        return [_tile(w) for w in audio.log_mel_windows(samples, self.hp.n_mel, self.recipe)]

    def encode(self, tile: Tile) -> F32:
        """tile.x [n_slice, n_mel, N_SLICE]."""
        k = self.k
        x = np.empty((tile.n_tok, self.conv_out.n_out), np.float32)
        row = 0
        for mel in tile.x:
            y = mel[:, :, None]  # [n_mel, N_SLICE, 1]
            for conv in self.conv2d:
                y = k.conv2d(y, conv, 3, 2, 1, act="gelu_erf")
            n_bin, n_row, n_conv = y.shape
            y = y.transpose(1, 2, 0).reshape(n_row, n_conv * n_bin)[: tile.n_tok - row]
            pos = self.position_embd[: len(y)]
            k.linear(y, self.conv_out, residual=pos, out=x[row : row + len(y)])
            row += len(y)
        return k.linear(k.linear(self.blocks(x), self.fc1, norm=self.post_ln, act="gelu_erf"), self.fc2)


def _tile(window: audio.Window) -> Tile:
    """[n_mel, n_frame] as slices [n_slice, n_mel, N_SLICE]. Three strides of 2 leave a row for 8 frames."""
    n_mel = len(window.mel)
    x = window.mel.reshape(n_mel, -1, N_SLICE).transpose(1, 0, 2)
    n_full, n_rest = divmod(window.n_valid, N_SLICE)
    return Tile(np.ascontiguousarray(x), n_full * -(-N_SLICE // 8) + -(-n_rest // 8))
