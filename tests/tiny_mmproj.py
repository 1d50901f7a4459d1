"""Tiny random projectors in files that the peer opens too, and the pictures and sounds to feed them.

Everything is drawn from seeds, so that only the peer's answers need to be stored. `changes` of a projector
are `meta`, `tensors` and `without`, as of make_text_gguf.
"""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.tiny import F32, make_text_gguf, write_gguf

N_EMBD = 64  # width of the text model that all of them fit
PICTURES = ((100, 60), (128, 128), (40, 150))  # grids of 4 x 3, 4 x 4 and 2 x 4 tiles
CLIPS = (0.5, 3.3, 31.0)  # seconds: within a slice, within a window, longer than Whisper's window
SPECIALS = (
    "<fake_token_around_image>",
    "<global-img>",
    "<|audio_start|>",
    "<|audio_end|>",
    *(f"<row_{row}_col_{col}>" for row in range(1, 5) for col in range(1, 5)),
)


def text(path: Path) -> Path:
    """A llama whose vocabulary has the control tokens of every layout; rows of a picture sway its answer."""
    return make_text_gguf(path, specials=SPECIALS, n_embd=N_EMBD, n_ctx=2048, tied=False)


def idefics3(
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
        **_encoder_keys("vision", n_embd, n_ff, n_layer, n_head, n_out),
        "clip.vision.image_size": image_size,
        "clip.vision.preproc_image_size": longest_edge,
        "clip.vision.patch_size": patch_size,
        "clip.vision.projector.scale_factor": n_merge,
        "clip.vision.image_mean": [0.5, 0.5, 0.5],
        "clip.vision.image_std": [0.5, 0.5, 0.5],
    }
    tensors = {
        **_linear("v.patch_embd", n_embd, 3, patch_size, patch_size, gain=2),
        "v.position_embd.weight": _draw("v.position_embd", (image_size // patch_size) ** 2, n_embd, gain=0.5),
        **_blocks("v", n_embd, n_ff, n_layer, fused_qkv=fused_qkv, swapped_ffn=swapped_ffn),
        **_norm("v.post_ln", n_embd),
        **_linear("mm.model.fc", n_out, n_embd * n_merge**2, bias=False),
    }
    return _write(path, meta, tensors, types, **changes)


def qwen3a(path: Path, types: Mapping[str, str] | None = None, **changes: Any) -> Path:
    """Three strided convolutions over 32 mel bands, windowed encoder, two linear layers."""
    n_mel, n_conv, n_embd, n_ff, n_layer = 32, 8, 48, 96, 2
    meta = {
        "clip.has_audio_encoder": True,
        "clip.audio.projector_type": "qwen3a",
        **_encoder_keys("audio", n_embd, n_ff, n_layer, 3, N_EMBD),
        "clip.audio.num_mel_bins": n_mel,
    }
    tensors = {
        **_linear("a.conv2d.1", n_conv, 1, 3, 3, gain=2),
        **_linear("a.conv2d.2", n_conv, n_conv, 3, 3, gain=2),
        **_linear("a.conv2d.3", n_conv, n_conv, 3, 3, gain=2),
        **_linear("a.conv_out", n_embd, n_conv * n_mel // 8, bias=False),
        "a.position_embd.weight": _draw("a.position_embd", 40, n_embd, gain=0.5),
        **_blocks("a", n_embd, n_ff, n_layer),
        **_norm("a.post_ln", n_embd),
        **_linear("mm.a.mlp.1", n_embd, n_embd),
        **_linear("mm.a.mlp.2", N_EMBD, n_embd),
    }
    return _write(path, meta, tensors, types, **changes)


def ultravox(path: Path, types: Mapping[str, str] | None = None, **changes: Any) -> Path:
    """Whisper tower of two layers over 20 mel bands, eight rows stacked, RMS norms around a SwiGLU.

    The peer's stacking pads with a bit mask; widths of 40 give the 187 rows that its count expects.
    """
    n_mel, n_embd, n_ff, n_layer, n_mid = 20, 40, 64, 2, 64
    meta = {
        "clip.has_audio_encoder": True,
        "clip.projector_type": "ultravox",
        **_encoder_keys("audio", n_embd, n_ff, n_layer, 2, N_EMBD),
        "clip.audio.num_mel_bins": n_mel,
        "clip.audio.projector.stack_factor": 8,
    }
    tensors = {
        **_linear("a.conv1d.1", n_embd, n_mel, 3, gain=2),
        **_linear("a.conv1d.2", n_embd, n_embd, 3, gain=2),
        "a.position_embd.weight": _draw("a.position_embd", 1500, n_embd, gain=0.5),
        **_blocks("a", n_embd, n_ff, n_layer, k_bias=False),
        **_norm("a.post_ln", n_embd),
        **_norm("mm.a.norm_pre", 8 * n_embd, bias=False),
        **_linear("mm.a.mlp.1", 2 * n_mid, 8 * n_embd, bias=False),
        **_norm("mm.a.norm_mid", n_mid, bias=False),
        **_linear("mm.a.mlp.2", N_EMBD, n_mid, bias=False),
    }
    for conv in ("a.conv1d.1.bias", "a.conv1d.2.bias"):
        tensors[conv] = tensors[conv][:, None]  # [n_embd, 1], as the converter writes it
    return _write(path, meta, tensors, types, **changes)


def picture(width: int, height: int) -> NDArray[np.uint8]:
    """A smooth pattern with some noise, [height, width, 3]."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 9 + y / 23), np.cos(x / 17 - y / 5), np.sin(x * y / 900 + 1)]
    noise = np.random.default_rng(width * 10_000 + height).standard_normal((height, width, 3))
    return np.clip(127 + 100 * np.stack(waves, axis=-1) + 10 * noise, 0, 255).astype(np.uint8)


def sound(seconds: float, rate: int = 16000) -> NDArray[np.int16]:
    """A chirp with a beat and some noise, mono."""
    t = np.arange(int(seconds * rate)) / rate
    wave = np.sin(2 * np.pi * (200 + 150 * np.sin(t)) * t) * (0.6 + 0.4 * np.sin(9 * t))
    noise = np.random.default_rng(len(t)).standard_normal(len(t))
    return ((0.5 * wave + 0.02 * noise) * 32767).clip(-32768, 32767).astype(np.int16)


def _write(
    path: Path,
    keys: dict[str, object],
    weights: dict[str, F32],
    types: Mapping[str, str] | None,
    meta: Mapping[str, object] | None = None,
    tensors: Mapping[str, F32] | None = None,
    without: Iterable[str] = (),
) -> Path:
    """The file, with what `without` names left out, and `meta` and `tensors` on top."""
    for name in without:
        del (keys if name in keys else weights)[name]
    keys |= meta or {}
    weights |= tensors or {}
    return write_gguf(path, "clip", keys, weights, types or {})


def _encoder_keys(
    kind: str, n_embd: int, n_ff: int, n_layer: int, n_head: int, n_out: int
) -> dict[str, object]:
    return {
        f"clip.{kind}.embedding_length": n_embd,
        f"clip.{kind}.feed_forward_length": n_ff,
        f"clip.{kind}.block_count": n_layer,
        f"clip.{kind}.projection_dim": n_out,
        f"clip.{kind}.attention.head_count": n_head,
        f"clip.{kind}.attention.layer_norm_epsilon": 1e-6,
    }


def _blocks(
    prefix: str,
    n_embd: int,
    n_ff: int,
    n_layer: int,
    *,
    k_bias: bool = True,
    fused_qkv: bool = False,
    swapped_ffn: bool = False,
) -> dict[str, F32]:
    up, down = ("ffn_down", "ffn_up") if swapped_ffn else ("ffn_up", "ffn_down")
    tensors: dict[str, F32] = {}
    for i in range(n_layer):
        blk = f"{prefix}.blk.{i}"
        q, k, v = (_linear(f"{blk}.attn_{x}", n_embd, n_embd, bias=x != "k" or k_bias) for x in "qkv")
        if fused_qkv:
            for part in ("weight", "bias"):
                rows = [t[f"{blk}.attn_{x}.{part}"] for x, t in zip("qkv", (q, k, v))]
                tensors[f"{blk}.attn_qkv.{part}"] = np.concatenate(rows)
        else:
            tensors |= q | k | v
        tensors |= _linear(f"{blk}.attn_out", n_embd, n_embd)
        tensors |= _norm(f"{blk}.ln1", n_embd) | _norm(f"{blk}.ln2", n_embd)
        tensors |= _linear(f"{blk}.{up}", n_ff, n_embd) | _linear(f"{blk}.{down}", n_embd, n_ff)
    return tensors


def _linear(name: str, n_out: int, *n_in: int, gain: float = 1, bias: bool = True) -> dict[str, F32]:
    weight = _draw(f"{name}.weight", n_out, *n_in, gain=gain / float(np.sqrt(np.prod(n_in))))
    return {f"{name}.weight": weight} | ({f"{name}.bias": _draw(f"{name}.bias", n_out)} if bias else {})


def _norm(name: str, n: int, bias: bool = True) -> dict[str, F32]:
    weight = 1 + _draw(f"{name}.weight", n)
    return {f"{name}.weight": weight} | ({f"{name}.bias": _draw(f"{name}.bias", n)} if bias else {})


def _draw(name: str, *shape: int, gain: float = 0.1) -> F32:
    """Numbers of deviation `gain`, the same for a name wherever they are drawn."""
    draw = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    return (draw * gain).astype(np.float32)
