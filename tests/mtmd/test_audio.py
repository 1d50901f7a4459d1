"""Log-mel windows against a slow transform written from its definition, and the sample's training."""

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mtmd.audio import HOP, N_FFT, QWEN3A, RATE, WHISPER, Recipe, log_mel, log_mel_windows
from mtmd.mel import hann, hann_symmetric, htk_bank, mel_power, reflect, slaney_bank

SHORT = [1, 2, 159, 160, 161, 399, 400, 401]
RECIPES = [*WHISPER.values(), *QWEN3A.values()]


@pytest.fixture(scope="module")
def training(samples: Path) -> ModuleType:
    """The preprocessing that the embedded model was trained with."""
    spec = importlib.util.spec_from_file_location("preprocess", samples / "train" / "preprocess.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sound(n: int, seed: int = 0, level: float = 0.1) -> np.ndarray:
    """Noise with a chirp in it, f32 [n]."""
    t = np.arange(n) / RATE
    chirp = np.sin(2 * np.pi * (200 + 1500 * t) * t)
    noise = np.random.default_rng(seed).standard_normal(n)
    return (level * (chirp + 0.1 * noise)).astype(np.float32)


# Filter banks and windows


def triangle_area(bank: np.ndarray, n_fft: int) -> np.ndarray:
    return bank.sum(axis=1) * RATE / n_fft


def test_slaney_bank_has_unit_areas_and_log_spaced_peaks() -> None:
    bank = slaney_bank(80, 4096, RATE)
    np.testing.assert_allclose(triangle_area(bank, 4096), 1, rtol=0.02)
    peaks = bank.argmax(axis=1) * RATE / 4096
    low = peaks[peaks < 900]
    np.testing.assert_allclose(np.diff(low), np.diff(low).mean(), atol=2 * RATE / 4096)  # linear to 1 kHz
    high = np.log(peaks[peaks > 1200])
    np.testing.assert_allclose(np.diff(high), np.diff(high).mean(), atol=0.01)  # logarithmic above


def test_slaney_bank_of_whisper_by_known_values() -> None:
    """Values of librosa.filters.mel(sr=16000, n_fft=400, n_mels=80), as openai/whisper ships them."""
    bank = slaney_bank(80, 400, RATE)
    assert bank.shape == (80, 201) and bank.dtype == np.float32 and (bank >= 0).all() and not bank[:, 0].any()
    np.testing.assert_allclose(bank[0, 1], 0.02486259, atol=1e-7)
    np.testing.assert_allclose(bank[1, 1:3], [0.00199082, 0.02287177], atol=1e-7)


def test_htk_bank() -> None:
    bank = htk_bank(40, 4096, RATE)
    np.testing.assert_allclose(bank.max(axis=1), 1, atol=0.15)
    edges = 2595 * np.log10(1 + 8000 / 700) * np.arange(1, 41) / 41
    np.testing.assert_allclose(bank.argmax(axis=1) * RATE / 4096, 700 * (10 ** (edges / 2595) - 1), atol=4)
    inner = slice(np.flatnonzero(bank[0]).max(), np.flatnonzero(bank[-1]).min())
    np.testing.assert_allclose(bank.sum(axis=0)[inner], 1, atol=1e-5)  # neighbours add up to one


def test_banks_are_shared_and_cannot_be_changed() -> None:
    assert slaney_bank(80, 400, RATE) is slaney_bank(80, 400, RATE)
    with pytest.raises(ValueError, match="read-only"):
        slaney_bank(80, 400, RATE)[0, 0] = 1


def test_hann_windows() -> None:
    np.testing.assert_allclose(hann(400), np.hanning(401)[:400], atol=1e-7)
    np.testing.assert_allclose(hann_symmetric(400), np.hanning(400), atol=1e-7)


def test_reflect() -> None:
    x = np.arange(1, 6, dtype=np.float32)
    np.testing.assert_array_equal(reflect(x, 3), np.pad(x, 3, mode="reflect"))
    assert reflect(x[:2], 3).tolist() == [0, 0, 2, 1, 2, 1, 0, 0]
    assert reflect(x[:1], 2).tolist() == [0, 0, 1, 0, 0]


# Log-mel


def slow_log_mel(samples: np.ndarray, n_mel: int, recipe: Recipe) -> np.ndarray:
    """From the definition, in double precision: a Fourier sum for every bin, frame by frame."""
    n = max(len(samples) + recipe.n_silence, recipe.min_samples)
    n = -(-n // HOP) * HOP if recipe.whole_hops else n
    at = np.arange(-(N_FFT // 2), n + N_FFT // 2)
    at = np.where(at < 0, -at, np.where(at >= n, 2 * (n - 1) - at, at))  # mirrored about the ends
    x = np.where((at >= 0) & (at < len(samples)), samples[np.clip(at, 0, len(samples) - 1)], 0.0)
    angle = -2j * np.pi * np.outer(np.arange(N_FFT // 2 + 1), np.arange(N_FFT)) / N_FFT
    fourier = np.exp(angle) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT))
    frames = [x[i * HOP : i * HOP + N_FFT] for i in range(n // HOP + recipe.last_frame)]
    power = np.abs(np.array(frames) @ fourier.T) ** 2  # [n_frame, n_bin]
    bank = slaney_bank(n_mel, N_FFT, RATE).astype(np.float64)
    mel = np.log10(np.maximum(power @ bank.T, recipe.floor))
    return ((np.maximum(mel, mel.max() - 8) + 4) / 4).T


@pytest.mark.parametrize("recipe", QWEN3A.values(), ids=QWEN3A)
@pytest.mark.parametrize("n", [*SHORT, 16000, 23456])
def test_log_mel_is_that_of_the_definition_b130_b131(n: int, recipe: Recipe) -> None:
    samples = sound(n, seed=n)
    np.testing.assert_allclose(log_mel(samples, 128, recipe), slow_log_mel(samples, 128, recipe), atol=1e-5)


def test_whisper_log_mel_is_that_of_the_definition_b130() -> None:
    samples = sound(9999)
    expected = slow_log_mel(samples, 80, WHISPER["authors"])
    np.testing.assert_allclose(log_mel(samples, 80, WHISPER["authors"]), expected, atol=1e-5)
    whole = log_mel(samples, 80, WHISPER["peer"])
    assert whole.shape == (80, 9999 // HOP + 3001)
    # alike but for the reference's floor and the frames that meet the silence after the clip
    np.testing.assert_allclose(whole[:, :60], expected[:, :60], atol=1e-5)
    assert (whole[:, 70:] == whole.min()).all()


def test_quiet_bands_beside_a_loud_tone_keep_their_digits() -> None:
    t = np.arange(RATE) / RATE
    samples = (0.9 * np.sin(2 * np.pi * 3000 * t) + 1e-4 * np.sin(2 * np.pi * 500 * t)).astype(np.float32)
    recipe = QWEN3A["authors"]
    np.testing.assert_allclose(log_mel(samples, 128, recipe), slow_log_mel(samples, 128, recipe), atol=1e-3)


@pytest.mark.parametrize("recipe", RECIPES)
def test_silence_stays_silent_and_finite(recipe: Recipe) -> None:
    for window in log_mel_windows(np.zeros(RATE, np.float32), 80, recipe):
        assert np.isfinite(window.mel).all()
        sounding = window.mel[:, : window.n_valid][:, : RATE // HOP]
        assert (sounding == sounding[0, 0]).all() and sounding[0, 0] < 0


def test_the_embedded_model_hears_what_it_was_trained_on(training: ModuleType) -> None:
    for n in [*SHORT, 16000, 47111, 200_000]:
        samples = sound(n, seed=n)
        expected = training.mel_windows(training.log_mel(samples))
        found = log_mel_windows(samples, training.N_MEL, QWEN3A["peer"])
        assert len(found) == len(expected)
        for window, mel in zip(found, expected, strict=True):
            np.testing.assert_allclose(window.mel, mel, atol=1e-5)


# Windows


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("n", SHORT)
def test_short_clips_b126(n: int, recipe: Recipe) -> None:
    (window,) = log_mel_windows(sound(n), 80, recipe)
    assert np.isfinite(window.mel).all() and 1 <= window.n_valid <= window.mel.shape[1]
    assert window.mel.dtype == np.float32


@pytest.mark.parametrize("recipe", WHISPER.values(), ids=WHISPER)
def test_the_tail_is_heard_b127(recipe: Recipe) -> None:
    samples = np.zeros(round(30.5 * RATE), np.float32)
    samples[-round(0.3 * RATE) :] = np.sin(2 * np.pi * 440 * np.arange(round(0.3 * RATE)) / RATE)
    windows = log_mel_windows(samples, 80, recipe)
    assert len(windows) == 2
    loud = windows[1].mel.max(axis=0) > 0.5
    assert loud[22:49].all() and not loud[:18].any() and not (windows[0].mel > 0).any()


@pytest.mark.parametrize("recipe", QWEN3A.values(), ids=QWEN3A)
def test_every_part_of_a_long_clip_is_heard(recipe: Recipe) -> None:
    for second in range(21):
        samples = np.zeros(21 * RATE, np.float32)
        samples[second * RATE + 4000 : second * RATE + 12000] = sound(8000)
        windows = log_mel_windows(samples, 64, recipe)
        whole = np.concatenate([w.mel for w in windows], axis=1)
        loud = np.flatnonzero(whole[:, :2100].max(axis=0) > 0)
        assert second * 100 + 20 < loud.min() and loud.max() < second * 100 + 80


@pytest.mark.parametrize(
    ("seconds", "authors", "peer"),
    [
        (1.0, [100], [3000]),
        (29.98, [2998], [3000]),
        (29.99, [2999], [3000, 3000]),  # the reference's extra window of silence
        (30.0, [3000], [3000, 3000]),
        (31.0, [3000, 100], [3000, 3000]),
        (65.005, [3000, 3000, 501], [3000, 3000, 3000]),
    ],
)
def test_whisper_windows(seconds: float, authors: list[int], peer: list[int]) -> None:
    samples = sound(round(seconds * RATE))
    found = log_mel_windows(samples, 80, WHISPER["authors"])
    assert [w.n_valid for w in found] == [w.mel.shape[1] for w in found] == authors
    assert [w.n_valid for w in log_mel_windows(samples, 80, WHISPER["peer"])] == peer


@pytest.mark.parametrize(
    ("n", "authors", "peer", "filled"),
    [
        (1, [50], [100], [100]),  # the authors' least clip is half a second
        (16000, [100], [200], [100]),
        (16159, [100], [200], [100]),
        (16160, [101], [200], [200]),
        (128000, [800], [800, 100], [800]),
        (200000, [800, 450], [800, 500], [800, 500]),
    ],
)
def test_qwen3a_windows(n: int, authors: list[int], peer: list[int], filled: list[int]) -> None:
    samples = sound(n)
    found = log_mel_windows(samples, 128, QWEN3A["authors"])
    assert [w.n_valid for w in found] == authors and [w.mel.shape for w in found] == [
        (128, f) for f in filled
    ]
    assert not any(w.mel[:, w.n_valid :].any() for w in found)
    assert [w.n_valid for w in log_mel_windows(samples, 128, QWEN3A["peer"])] == peer


def test_one_scale_serves_the_whole_clip() -> None:
    """The range is cut below the loudest value of the clip, not of a window."""
    samples = np.concatenate([sound(RATE * 9, level=1e-5), sound(RATE * 9, level=0.9)])
    first = log_mel_windows(samples, 80, QWEN3A["authors"])[0]
    alone = log_mel_windows(samples[: RATE * 9], 80, QWEN3A["authors"])[0]
    assert first.mel.min() > alone.mel.min()


def test_mel_power_takes_blocks_without_seams() -> None:
    samples = sound(HOP * 5000 + N_FFT)
    window, bank = hann(N_FFT), slaney_bank(40, N_FFT, RATE)
    whole = mel_power(samples, 5000, HOP, window, bank)
    for i in (0, 2047, 2048, 4095, 4096, 4999):
        alone = mel_power(samples[i * HOP : i * HOP + N_FFT], 1, HOP, window, bank)
        np.testing.assert_allclose(whole[:, i : i + 1], alone, rtol=1e-5)


def test_ten_minutes_take_seconds_at_most() -> None:
    """Under a second on an idle machine; the bound leaves room for a busy one."""
    samples = np.tile(sound(RATE * 10), 60)
    start = time.perf_counter()
    assert sum(w.n_valid for w in log_mel_windows(samples, 128, QWEN3A["authors"])) == 60_000
    assert time.perf_counter() - start < 5
