"""Qwen3-ASR."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.mmproj import base
from tests.mmproj.base import CLIPS, N_EMBD, blocks, draw, encoder_keys, linear, norm, write

MEDIA = CLIPS
SPECIALS = ("<|audio_start|>", "<|audio_end|>")


def make(path: Path, types: Mapping[str, str] | None = None, **changes: Any) -> Path:
    """Three strided convolutions over 32 mel bands, windowed encoder, two linear layers."""
    n_mel, n_conv, n_embd, n_ff, n_layer = 32, 8, 48, 96, 2
    meta = {
        "clip.has_audio_encoder": True,
        "clip.audio.projector_type": "qwen3a",
        **encoder_keys("audio", n_embd, n_ff, n_layer, 3, N_EMBD),
        "clip.audio.num_mel_bins": n_mel,
    }
    tensors = {
        **linear("a.conv2d.1", n_conv, 1, 3, 3, gain=2),
        **linear("a.conv2d.2", n_conv, n_conv, 3, 3, gain=2),
        **linear("a.conv2d.3", n_conv, n_conv, 3, 3, gain=2),
        **linear("a.conv_out", n_embd, n_conv * n_mel // 8, bias=False),
        "a.position_embd.weight": draw("a.position_embd", 40, n_embd, gain=0.5),
        **blocks("a", n_embd, n_ff, n_layer),
        **norm("a.post_ln", n_embd),
        **linear("mm.a.mlp.1", n_embd, n_embd),
        **linear("mm.a.mlp.2", N_EMBD, n_embd),
    }
    return write(path, meta, tensors, types, **changes)


def text(path: Path) -> Path:
    return base.text(path, *SPECIALS)
