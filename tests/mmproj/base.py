"""What tiny projectors are made of: random tensors under GGUF names, keys, media, the text model beside them.

Everything is drawn from seeds, so that only the answers of the peer and of the authors need to be stored.
`changes` of a projector are `meta`, `tensors` and `without`, as of make_text_gguf.
"""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtmd.media import Audio, Image
from tests.tiny import F32, make_text_gguf, write_gguf

N_EMBD = 64  # width of the text model that all of them fit, unless they bring their own
PICTURES = ("100x60", "128x128", "40x150")
CLIPS = ("0.5", "3.3", "31.0")  # seconds: within a slice, within a window, longer than Whisper's window


def text(path: Path, *specials: str, arch: str = "llama", **options: Any) -> Path:
    """A text model with these control tokens; rows of a medium sway its answer."""
    return make_text_gguf(path, arch, specials=specials, n_embd=N_EMBD, n_ctx=2048, tied=False, **options)


def medium(name: str) -> Image | Audio:
    """The picture "100x60" (width, height) or the clip "3.3" (seconds)."""
    if is_picture(name):
        return Image(picture(*map(int, name.split("x"))), name)
    return clip(float(name))


def is_picture(name: str) -> bool:
    return "x" in name


def clip(seconds: float) -> Audio:
    return Audio((sound(seconds) / np.float32(32768)).astype(np.float32), 16000, str(seconds))


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


def write(
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


def encoder_keys(
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


def blocks(
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
        q, k, v = (linear(f"{blk}.attn_{x}", n_embd, n_embd, bias=x != "k" or k_bias) for x in "qkv")
        if fused_qkv:
            for part in ("weight", "bias"):
                rows = [t[f"{blk}.attn_{x}.{part}"] for x, t in zip("qkv", (q, k, v))]
                tensors[f"{blk}.attn_qkv.{part}"] = np.concatenate(rows)
        else:
            tensors |= q | k | v
        tensors |= linear(f"{blk}.attn_out", n_embd, n_embd)
        tensors |= norm(f"{blk}.ln1", n_embd) | norm(f"{blk}.ln2", n_embd)
        tensors |= linear(f"{blk}.{up}", n_ff, n_embd) | linear(f"{blk}.{down}", n_embd, n_ff)
    return tensors


def linear(name: str, n_out: int, *n_in: int, gain: float = 1, bias: bool = True) -> dict[str, F32]:
    weight = draw(f"{name}.weight", n_out, *n_in, gain=gain / float(np.sqrt(np.prod(n_in))))
    return {f"{name}.weight": weight} | ({f"{name}.bias": draw(f"{name}.bias", n_out)} if bias else {})


def norm(name: str, n: int, bias: bool = True) -> dict[str, F32]:
    weight = 1 + draw(f"{name}.weight", n)
    return {f"{name}.weight": weight} | ({f"{name}.bias": draw(f"{name}.bias", n)} if bias else {})


def draw(name: str, *shape: int, gain: float = 0.1) -> F32:
    """Numbers of deviation `gain`, the same for a name wherever they are drawn."""
    draw = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    return (draw * gain).astype(np.float32)
