"""Idefics3, SmolVLM: grids of 4 x 3, 4 x 4 and 2 x 4 tiles."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.mmproj import base
from tests.mmproj.base import N_EMBD, PICTURES, blocks, draw, encoder_keys, linear, norm, write

MEDIA = PICTURES
SPECIALS = (
    "<fake_token_around_image>",
    "<global-img>",
    *(f"<row_{row}_col_{col}>" for row in range(1, 5) for col in range(1, 5)),
)


def make(
    path: Path,
    types: Mapping[str, str] | None = None,
    *,
    n_embd: int = 48,
    n_ff: int = 96,
    n_layer: int = 2,
    n_head: int = 3,
    image_size: int = 32,
    longest_edge: int = 128,
    patch_size: int = 8,
    n_merge: int = 2,
    n_out: int = N_EMBD,
    fused_qkv: bool = False,
    swapped_ffn: bool = False,
    **changes: Any,
) -> Path:
    """SigLIP tower, pixel shuffle, one linear layer; `swapped_ffn` names matrices as old converters did."""
    meta = {
        "clip.has_vision_encoder": True,
        "clip.use_gelu": True,
        "clip.projector_type": "idefics3",
        **encoder_keys("vision", n_embd, n_ff, n_layer, n_head, n_out),
        "clip.vision.image_size": image_size,
        "clip.vision.preproc_image_size": longest_edge,
        "clip.vision.patch_size": patch_size,
        "clip.vision.projector.scale_factor": n_merge,
        "clip.vision.image_mean": [0.5, 0.5, 0.5],
        "clip.vision.image_std": [0.5, 0.5, 0.5],
    }
    tensors = {
        **linear("v.patch_embd", n_embd, 3, patch_size, patch_size, gain=2),
        "v.position_embd.weight": draw("v.position_embd", (image_size // patch_size) ** 2, n_embd, gain=0.5),
        **blocks("v", n_embd, n_ff, n_layer, fused_qkv=fused_qkv, swapped_ffn=swapped_ffn),
        **norm("v.post_ln", n_embd),
        **linear("mm.model.fc", n_out, n_embd * n_merge**2, bias=False),
    }
    return write(path, meta, tensors, types, **changes)


def text(path: Path) -> Path:
    return base.text(path, *SPECIALS)
