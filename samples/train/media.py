"""Load the sample files as training sees them, and as plain copies for programs that read fewer formats."""

import os

import numpy as np
import soundfile as sf
from PIL import Image, ImageOps
from scipy.signal import resample_poly

import preprocess

SOUND = (".wav", ".flac", ".ogg", ".mp3")


def load_sound(path: str) -> np.ndarray:
    """Mono float32 [n] at preprocess.RATE."""
    x, rate = sf.read(path, dtype="float32", always_2d=True)
    x = x.mean(1)
    return (
        x
        if rate == preprocess.RATE
        else resample_poly(x, preprocess.RATE // 100, rate // 100).astype(np.float32)
    )


def load_picture(path: str) -> Image.Image:
    """Upright RGB picture."""
    return ImageOps.exif_transpose(Image.open(path)).convert("RGB")


def tiles_and_mels(paths: list[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(uint8 tiles [TILE, TILE, 3] of the pictures, first log-mel windows [N_MEL, frames] of the clips)."""
    tiles, mels = [], []
    for path in paths:
        if path.endswith(SOUND):
            mels.append(preprocess.mel_windows(preprocess.log_mel(load_sound(path)))[0])
        else:
            tiles.append(preprocess.tile_u8(load_picture(path)))
    return tiles, mels


def plain_copies(paths: list[str], folder: str) -> tuple[list[str], str]:
    """(paths with WebP, Ogg and rotated pictures replaced by copies in folder, a note that says so)."""
    out, via = [], []
    for path in paths:
        copy = os.path.join(folder, os.path.basename(path))
        if path.endswith(".ogg"):
            sf.write(copy + ".wav", load_sound(path), preprocess.RATE, subtype="FLOAT")
            out.append(copy + ".wav")
            via.append("wav copy")
        elif not path.endswith(SOUND) and (
            path.endswith(".webp") or Image.open(path).getexif().get(0x0112, 1) != 1
        ):
            load_picture(path).save(copy + ".png")
            out.append(copy + ".png")
            via.append("upright png copy")
        else:
            out.append(path)
    return out, ", ".join(via)
