"""Decoding recordings into one clean channel, and resampling them."""

import math
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llm.errors import MediaError
from mtmd import wav
from mtmd.media import F32, Audio, Limits
from mtmd.sniff import MP3, Format, mpeg_start

if TYPE_CHECKING:
    import soundfile

_BLOCK = 1 << 20  # samples of all channels decoded at a time
_RATES = (1_000, 768_000)
_SHORTFALL = 0.1  # seconds that may lack without a word: lossy formats count their frames loosely
_OVERSHOOT = 1.25  # peak up to which clipping goes without a word: lossy decoders overshoot a little


def read(data: bytes, form: Format, name: str, limits: Limits) -> Audio:
    """A recording of any format that libsndfile reads, channels averaged. Raises MediaError."""
    if form.name == "WAV" and (wave := wav.parse(data, name)):
        _check_length(len(wave.frames), wave.rate, name, limits)
        step = max(1, _BLOCK // wave.n_channel)
        blocks = [wave.mono(i, min(i + step, len(wave.frames))) for i in range(0, len(wave.frames), step)]
        return _finish(blocks, wave.rate, name, wave.note)
    if form == MP3 and not data.startswith(b"ID3"):
        data = data[mpeg_start(data) :]  # libsndfile wants no junk in front
    return _read_with_libsndfile(data, form, name, limits)


def from_array(samples: NDArray[np.generic], rate: int, name: str, limits: Limits) -> Audio:
    """Samples [n] or [n, n_channel]: floats from -1 to 1, or integers of 8 (offset), 16 or 32 bits."""
    if samples.ndim not in (1, 2) or (samples.ndim == 2 and samples.shape[1] > 32):
        raise MediaError(f"samples are [n] or [n, n_channel], found {list(samples.shape)}")
    _check_length(len(samples), rate, name, limits)
    return _finish([_mono(_floats(samples))], rate, name, "")


def resample(samples: F32, rate: int, target: int) -> F32:
    """Samples [n] at `rate` to [ceil(n * target / rate)] at `target`, low-passed where that is lower."""
    from scipy.signal import resample_poly

    if rate == target:
        return samples
    common = math.gcd(rate, target)
    result: F32 = resample_poly(samples, target // common, rate // common).astype(np.float32)
    return np.clip(result, -1, 1, out=result)  # the filter rings at full-scale edges


def _mono(samples: F32) -> F32:
    """Channels averaged: [n] or [n, n_channel] -> [n]."""
    if samples.ndim == 1:
        return samples
    mono: F32 = samples.mean(axis=1, dtype=np.float32)
    return mono


def _floats(samples: NDArray[Any]) -> F32:
    kind = samples.dtype
    if np.issubdtype(kind, np.floating):
        with np.errstate(over="ignore"):
            return samples.astype(np.float32)
    if kind == np.uint8:
        return (samples.astype(np.float32) - np.float32(128)) / np.float32(128)
    if kind in (np.int16, np.int32):
        return samples.astype(np.float32) / np.float32(1 << 8 * kind.itemsize - 1)
    raise MediaError(f"samples are floats, int16, int32 or uint8, found {kind}")


def _check_length(n: int, rate: int, name: str, limits: Limits) -> None:
    low, high = _RATES
    if not low <= rate <= high:
        raise MediaError(f"{name}: a sample rate of {rate} Hz is out of range ({low} to {high} Hz)")
    if n > limits.max_seconds * rate:
        raise MediaError(
            f"{name}: {n / rate:,.0f} seconds are longer than the limit of {limits.max_seconds:,.0f}; "
            "cut the recording or raise Limits.max_seconds"
        )


def _read_with_libsndfile(data: bytes, form: Format, name: str, limits: Limits) -> Audio:
    import soundfile

    try:
        with soundfile.SoundFile(_Stream(data)) as file:
            rate, promised = int(file.samplerate), int(file.frames)
            _check_length(0, rate, name, limits)  # the header's count may lie: the blocks are counted
            blocks = []
            n = 0
            for block in _blocks(file):
                n += len(block)
                _check_length(n, rate, name, limits)
                blocks.append(block)
    except (soundfile.SoundFileError, OSError, ValueError, TypeError) as err:
        reason = str(err).rpartition(">: ")[2].strip()  # without the name of the stream
        raise MediaError(
            f"{name}: the {form.name} recording cannot be decoded ({reason}); try: ffmpeg -i in out.wav"
        ) from err
    note = ""
    if promised < 1 << 62 and (promised - n) > _SHORTFALL * rate:
        note = f"the file ends early: its header promises {promised / rate:.1f} s, {n / rate:.1f} s are there"
    return _finish(blocks, rate, name, note)


class _Stream(BytesIO):
    """Bytes in which a seek before the start is harmless: broken files ask for it, within a C callback."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.tell() if whence == 0 and offset < 0 else super().seek(offset, whence)


def _blocks(file: "soundfile.SoundFile") -> Iterator[F32]:
    step = max(1, _BLOCK // file.channels)
    while len(block := file.read(step, dtype="float32", always_2d=True)):
        yield _mono(block)


def _finish(blocks: list[F32], rate: int, name: str, note: str) -> Audio:
    """Blocks joined, finite and within -1..1; a copy in any case."""
    samples = np.concatenate(blocks) if blocks else np.empty(0, np.float32)
    if not len(samples):
        raise MediaError(f"{name}: the recording is empty: it has no samples")
    notes: tuple[str, ...] = (note,) if note else ()
    broken = len(samples) - np.count_nonzero(np.isfinite(samples))
    if broken:
        np.nan_to_num(samples, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        notes += (f"{broken} samples that are no numbers were replaced",)
    peak = max(-float(samples.min()), float(samples.max()))
    if peak > 1:
        np.clip(samples, -1, 1, out=samples)
        if peak > _OVERSHOOT:
            notes += (f"samples beyond full scale (peak {peak:.3g}) were clipped",)
    return Audio(samples, rate, name, notes)
