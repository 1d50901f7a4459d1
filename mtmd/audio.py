"""Recordings cut into windows of log-mel frames, as the encoders of the Whisper family were trained on them.

One front end serves all: 16 kHz, frames of 400 samples every 160, power, Slaney bands, log10, and nothing
more than 8 decades below the loudest. What differs from family to family, and between the models' authors and
the reference (llama.cpp), are the numbers of a `Recipe`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mtmd.mel import hann, mel_power, reflect, slaney_bank

F32 = NDArray[np.float32]

RATE = 16_000
N_FFT = 400
HOP = 160


@dataclass(frozen=True)
class Recipe:
    """How a clip becomes windows. The clip is first extended by zeros, by any of the rules given."""

    window: int  # frames of a full window
    floor: float  # least power that the logarithm sees
    multiple: int = 1  # a shorter last window is filled with 0.0 to a multiple of this
    whole_hops: bool = False  # extend the clip to whole hops
    min_samples: int = 1  # extend the clip to this many samples
    n_silence: int = 0  # extend the clip by this many samples
    last_frame: bool = False  # keep the frame that is centred on the clip's end
    partial: bool = True  # keep a last window that is not full
    masked: bool = True  # filled frames are known as such; otherwise they pass for sound


WHISPER: dict[Literal["authors", "peer"], Recipe] = {
    "authors": Recipe(window=3000, floor=1e-10, whole_hops=True),
    # 30 s of silence after every clip; so from 29.99 s on a window of silence too many
    "peer": Recipe(
        window=3000, floor=2.0**-24, n_silence=30 * RATE, last_frame=True, partial=False, masked=False
    ),
}

QWEN3A: dict[Literal["authors", "peer"], Recipe] = {
    "authors": Recipe(window=800, multiple=100, floor=1e-10, min_samples=RATE // 2),
    "peer": Recipe(window=800, multiple=100, floor=2.0**-24, last_frame=True, masked=False),
}


@dataclass(frozen=True, eq=False)
class Window:
    """Log-mel frames for one run of an encoder; the first `n_valid` are sound, the others filling."""

    mel: F32  # [n_mel, n_frame]
    n_valid: int


def log_mel_windows(samples: F32, n_mel: int, recipe: Recipe) -> list[Window]:
    """Windows of a clip at 16 kHz, in order; nothing between them is lost. samples [n], n > 0."""
    mel = log_mel(samples, n_mel, recipe)  # [n_mel, n_frame]
    n_frame = mel.shape[1]
    stop = n_frame if recipe.partial else n_frame - n_frame % recipe.window
    return [_window(mel[:, i : i + recipe.window], recipe) for i in range(0, stop, recipe.window)]


def log_mel(samples: F32, n_mel: int, recipe: Recipe) -> F32:
    """Log-mel frames of a whole clip, scaled by (log10 + 4) / 4: [n] -> [n_mel, n_frame]."""
    assert len(samples), "an empty clip is refused by the loader"
    n = max(len(samples) + recipe.n_silence, recipe.min_samples)
    if recipe.whole_hops:
        n += -n % HOP
    n_frame = n // HOP + recipe.last_frame
    padded = reflect(np.pad(samples, (0, n - len(samples))), N_FFT // 2)
    power = mel_power(padded, n_frame, HOP, hann(N_FFT), slaney_bank(n_mel, N_FFT, RATE))
    mel = np.log10(np.maximum(power, np.float32(recipe.floor)), out=power)
    np.maximum(mel, mel.max() - np.float32(8), out=mel)
    return (mel + np.float32(4)) / np.float32(4)


def _window(mel: F32, recipe: Recipe) -> Window:
    n = mel.shape[1]
    filled = np.pad(mel, ((0, 0), (0, -n % recipe.multiple)))  # [n_mel, n_frame]
    return Window(filled, n if recipe.masked else filled.shape[1])
