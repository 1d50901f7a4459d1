"""Spectra on the mel scale: filter banks, windows, and the power of overlapping frames in each band."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_BLOCK = 2048  # frames transformed at a time


@lru_cache(maxsize=16)
def slaney_bank(n_mel: int, n_fft: int, rate: int) -> F32:
    """Slaney's mel scale (linear to 1 kHz, then logarithmic), unit area: [n_mel, n_fft // 2 + 1]."""
    step = np.log(6.4) / 27

    def to_mel(hz: float) -> float:
        return hz * 3 / 200 if hz < 1000 else float(15 + np.log(hz / 1000) / step)

    def to_hz(mel: F64) -> F64:
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((np.maximum(mel, 15) - 15) * step))

    edges = to_hz(np.linspace(0, to_mel(rate / 2), n_mel + 2))
    return _frozen(_triangles(edges, n_fft, rate) * (2 / (edges[2:] - edges[:-2]))[:, None])


@lru_cache(maxsize=16)
def htk_bank(n_mel: int, n_fft: int, rate: int) -> F32:
    """HTK's mel scale, unit height: [n_mel, n_fft // 2 + 1]."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + rate / 1400), n_mel + 2) / 2595) - 1)
    return _frozen(_triangles(edges, n_fft, rate))


def _triangles(edges: F64, n_fft: int, rate: int) -> F64:
    """Triangles that rise from edge i to i + 1 and fall to i + 2, sampled at the bins' frequencies."""
    hz = np.arange(n_fft // 2 + 1) * (rate / n_fft)
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0, np.minimum((hz - left) / (middle - left), (right - hz) / (right - middle)))


def _frozen(bank: F64) -> F32:
    result = bank.astype(np.float32)
    result.flags.writeable = False  # shared by all callers
    return result


def hann(n: int) -> F32:
    """The periodic Hann window [n], whose n + 1st value would be 0 again: the one for spectra."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)).astype(np.float32)


def hann_symmetric(n: int) -> F32:
    """The symmetric Hann window [n], 0 at both ends."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / (n - 1))).astype(np.float32)


def reflect(samples: F32, n: int) -> F32:
    """`samples` with `n` more at each end, mirrored about the first and last; zeros where none are left."""
    head, tail = samples[1 : n + 1][::-1], samples[-2 : -n - 2 : -1]
    return np.concatenate(
        [np.zeros(n - len(head), np.float32), head, samples, tail, np.zeros(n - len(tail), np.float32)]
    )


def mel_power(samples: F32, n_frame: int, hop: int, window: F32, bank: F32) -> F32:
    """Power in each mel band: frame i starts at sample i * hop. [n] -> [n_mel, n_frame]."""
    n_fft = len(window)
    assert len(samples) >= (n_frame - 1) * hop + n_fft, (len(samples), n_frame)
    frames = np.lib.stride_tricks.sliding_window_view(samples, n_fft)[::hop]
    result = np.empty((bank.shape[0], n_frame), np.float32)
    for i in range(0, n_frame, _BLOCK):
        # Double precision: a quiet bin beside a loud one keeps its digits, which the logarithm shows
        spectrum = np.fft.rfft(frames[i : min(i + _BLOCK, n_frame)] * window.astype(np.float64), axis=1)
        power = spectrum.real**2 + spectrum.imag**2
        result[:, i : i + _BLOCK] = bank @ power.T.astype(np.float32)
    return result
