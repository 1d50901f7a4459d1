"""Ultravox, which puts no text around a clip."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.mmproj import base
from tests.mmproj.base import CLIPS, N_EMBD, blocks, draw, encoder_keys, linear, norm, write

MEDIA = CLIPS


def make(path: Path, types: Mapping[str, str] | None = None, **changes: Any) -> Path:
    """Whisper tower of two layers over 20 mel bands, eight rows stacked, RMS norms around a SwiGLU.

    The peer's stacking pads with a bit mask; widths of 40 give the 187 rows that its count expects.
    """
    n_mel, n_embd, n_ff, n_layer, n_mid = 20, 40, 64, 2, 64
    meta = {
        "clip.has_audio_encoder": True,
        "clip.projector_type": "ultravox",
        **encoder_keys("audio", n_embd, n_ff, n_layer, 2, N_EMBD),
        "clip.audio.num_mel_bins": n_mel,
        "clip.audio.projector.stack_factor": 8,
    }
    tensors = {
        **linear("a.conv1d.1", n_embd, n_mel, 3, gain=2),
        **linear("a.conv1d.2", n_embd, n_embd, 3, gain=2),
        "a.position_embd.weight": draw("a.position_embd", 1500, n_embd, gain=0.5),
        **blocks("a", n_embd, n_ff, n_layer, k_bias=False),
        **norm("a.post_ln", n_embd),
        **norm("mm.a.norm_pre", 8 * n_embd, bias=False),
        **linear("mm.a.mlp.1", 2 * n_mid, 8 * n_embd, bias=False),
        **norm("mm.a.norm_mid", n_mid, bias=False),
        **linear("mm.a.mlp.2", N_EMBD, n_mid, bias=False),
    }
    for conv in ("a.conv1d.1.bias", "a.conv1d.2.bias"):
        tensors[conv] = tensors[conv][:, None]  # [n_embd, 1], as the converter writes it
    return write(path, meta, tensors, types, **changes)


def text(path: Path) -> Path:
    return base.text(path)
