"""Recordings of every kind through the loader: case ids as in the project's list of field cases."""

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import soundfile

from llm.errors import MediaError
from mtmd.media import Limits, load_audio, load_media
from mtmd.recording import resample

RATES = [8000, 11025, 22050, 44100, 48000]
SUBTYPES = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"]


def tone(rate: int, seconds: float = 0.5, hz: float = 440.0, n_channel: int = 1) -> np.ndarray:
    t = np.arange(round(rate * seconds)) / rate
    mono = 0.5 * np.sin(2 * np.pi * hz * t)
    return np.repeat(mono[:, None], n_channel, axis=1)


def encode(samples: np.ndarray, rate: int, form: str, subtype: str | None = None) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, subtype=subtype, format=form)
    return buffer.getvalue()


def wav(data: bytes, **changes: Any) -> bytes:
    """A WAV by hand: header fields may be changed at will, chunks put before and after."""
    f = {
        "codec": 1,
        "n_channel": 1,
        "rate": 16000,
        "bits": 16,
        "size": len(data),
        "before": b"",
        "after": b"",
    }
    f |= changes
    block = f.get("block", f["n_channel"] * ((f["bits"] + 7) // 8))
    fmt = struct.pack("<HHIIHH", f["codec"], f["n_channel"], f["rate"], 0, block, f["bits"])
    body = b"WAVE" + f["before"] + b"fmt " + struct.pack("<I", len(fmt)) + fmt
    body += b"data" + struct.pack("<I", f["size"]) + data + f["after"]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pitch(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 1 << 18))
    return float(np.argmax(spectrum) * rate / (1 << 18))


# Formats, depths and rates


@pytest.mark.parametrize("n_channel", [1, 2])
@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("rate", RATES)
def test_440_hz_stays_440_hz_b133(rate: int, subtype: str, n_channel: int) -> None:
    audio = load_audio(encode(tone(rate, n_channel=n_channel), rate, "WAV", subtype), 16000)
    assert abs(audio.seconds - 0.5) < 1e-3 and audio.rate == 16000
    assert abs(pitch(audio.samples, 16000) - 440) < 1
    assert abs(np.sqrt(np.mean(audio.samples**2)) - 0.5 / np.sqrt(2)) < 0.01


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("form", ["WAV", "WAVEX"])
def test_wav_samples_are_those_of_libsndfile_b133(form: str, subtype: str) -> None:
    samples = np.random.default_rng(3).uniform(-0.99, 0.99, (500, 2))
    data = encode(samples, 16000, form, subtype)
    expected = soundfile.read(io.BytesIO(data), dtype="float32")[0]
    np.testing.assert_allclose(load_audio(data).samples, expected.mean(axis=1), atol=1e-7)


def test_every_code_of_g711() -> None:
    for codec, subtype in ((7, "ULAW"), (6, "ALAW")):
        data = wav(bytes(range(256)), codec=codec, bits=8)
        expected = soundfile.read(io.BytesIO(encode(np.zeros(256), 16000, "WAV", subtype)), dtype="float32")[
            0
        ]
        expected = soundfile.read(
            io.BytesIO(bytes(range(256))),
            dtype="float32",
            samplerate=16000,
            channels=1,
            format="RAW",
            subtype=subtype,
        )[0]
        np.testing.assert_array_equal(load_audio(data).samples, expected)


@pytest.mark.parametrize(
    ("form", "subtype"),
    [
        ("FLAC", "PCM_16"),
        ("FLAC", "PCM_24"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", None),
        ("AIFF", None),
        ("AU", None),
        ("CAF", None),
        ("RF64", None),
        ("WAV", "IMA_ADPCM"),
        ("WAV", "MS_ADPCM"),
        ("WAV", "GSM610"),
    ],
)
@pytest.mark.parametrize("n_channel", [1, 2])
def test_compressed_formats_b134(form: str, subtype: str | None, n_channel: int) -> None:
    if subtype == "GSM610" and n_channel == 2:
        pytest.skip("GSM has one channel")
    audio = load_audio(encode(tone(48000, n_channel=n_channel), 48000, form, subtype), 16000)
    assert abs(audio.seconds - 0.5) < 0.06  # coders pad to whole frames
    assert abs(pitch(audio.samples, 16000) - 440) < 1


def mp3() -> bytes:
    return encode(tone(44100, 1.0), 44100, "MP3")


def id3(size: int) -> bytes:
    return (
        b"ID3\4\0\0" + bytes([size >> 21 & 127, size >> 14 & 127, size >> 7 & 127, size & 127]) + bytes(size)
    )


@pytest.mark.parametrize(
    "front",
    [b"", id3(10), id3(5000), b"junk" * 99, bytes(1000), b"\xff\xfb\x90" * 20],
    ids=["none", "id3", "long id3", "junk", "zeros", "syncs"],
)
def test_mp3_with_tag_without_and_after_junk(front: bytes) -> None:
    audio = load_audio(front + mp3(), 16000)
    assert abs(audio.seconds - 1) < 0.06 and abs(pitch(audio.samples, 16000) - 440) < 1


def test_mp3_without_its_info_frame() -> None:
    data = mp3()
    start = data.index(b"\xff\xfb", 200) if b"Info" in data[:200] or b"Xing" in data[:200] else 0
    assert abs(pitch(load_audio(data[start:]).samples, 44100) - 440) < 1


# Arrays


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.int32, np.uint8])
@pytest.mark.parametrize("n_channel", [None, 1, 2])
def test_arrays_of_samples(dtype: type, n_channel: int | None) -> None:
    mono = tone(16000)[:, 0]
    scale, offset = {np.int16: (32768, 0), np.int32: (1 << 31, 0), np.uint8: (128, 128)}.get(dtype, (1, 0))
    samples = (mono * scale + offset).astype(dtype)
    if n_channel:
        samples = np.repeat(samples[:, None], n_channel, axis=1)
    np.testing.assert_allclose(load_audio((samples, 16000)).samples, mono, atol=1 / 128)


@pytest.mark.parametrize(
    ("samples", "rate", "words"),
    [
        (np.zeros((2, 48000)), 16000, r"found \[2, 48000\]"),
        (np.zeros((2, 2, 2)), 16000, r"found \[2, 2, 2\]"),
        (np.zeros(5, np.int64), 16000, "found int64"),
        (np.zeros(5), 0, "0 Hz"),
        (np.zeros(5), -16000, "-16000 Hz"),
        (np.zeros(5), 10**9, "out of range"),
        (np.zeros(0), 16000, "empty"),
    ],
)
def test_arrays_that_are_no_recordings(samples: np.ndarray, rate: int, words: str) -> None:
    with pytest.raises(MediaError, match=words):
        load_audio((samples, rate))


def test_the_callers_samples_stay_writeable_and_apart() -> None:
    samples = tone(16000)[:, 0].astype(np.float32)
    audio = load_audio((samples, 16000))
    samples[:] = 0
    assert audio.samples.any()


def test_channels_are_averaged() -> None:
    left_only = np.array([[0.5, 0.0], [0.5, -0.5]])
    assert load_audio(encode(left_only, 16000, "WAV", "FLOAT")).samples.tolist() == [0.25, 0.0]
    many = np.arange(5)[:, None] * np.ones((5, 8)) / 8
    np.testing.assert_allclose(
        load_audio(encode(many, 16000, "WAV", "PCM_16")).samples, many[:, 0], atol=1e-4
    )


# Values


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_broken_floats_are_mended_and_noted_b133(subtype: str) -> None:
    samples = np.array([0.5, np.nan, np.inf, -np.inf, 3.0, -0.5])
    audio = load_audio(encode(samples, 16000, "WAV", subtype))
    assert audio.samples.tolist() == [0.5, 0, 1, -1, 1, -0.5]
    assert "3 samples that are no numbers" in audio.notes[0] and "peak 3" in audio.notes[1]
    assert load_audio((np.array([1e300, 0.5]), 16000)).samples.tolist() == [1, 0.5]


@pytest.mark.parametrize("n", [1, 2, 159, 160, 161, 399, 400, 401])
@pytest.mark.parametrize("rate", [16000, 44100])
def test_short_clips_b126(n: int, rate: int) -> None:
    data = wav(np.full(n, 1000, "<i2").tobytes(), rate=rate)
    audio = load_audio(data, 16000)
    assert len(audio.samples) == -(-n * 16000 // rate) and np.isfinite(audio.samples).all()


def test_empty_clips_b126() -> None:
    for data in (wav(b""), wav(b"\1"), encode(np.zeros(0), 16000, "WAV"), encode(np.zeros(0), 16000, "FLAC")):
        with pytest.raises(MediaError, match="empty"):
            load_media(data)


# Headers that lie


PCM = (np.arange(1, 1001) * 7).astype("<i2").tobytes()
SAMPLES = np.arange(1, 1001) * 7 / 32768
LIST = b"LIST" + struct.pack("<I", 26) + b"INFOISFT\x0e\0\0\0Lavf58.29.100\0"
ODD = b"note" + struct.pack("<I", 3) + b"abc\0"


@pytest.mark.parametrize(
    "data",
    [
        wav(PCM, size=0xFFFFFFFF),
        wav(PCM, size=0),
        wav(PCM, size=1 << 30),
        wav(PCM, before=LIST),
        wav(PCM, after=LIST),
        wav(PCM, before=ODD),
        wav(PCM, block=0),
        wav(PCM, block=7),
        wav(PCM, bits=12),
        b"RIFF\xff\xff\xff\xff" + wav(PCM)[8:],
        b"RIFF\0\0\0\0" + wav(PCM, size=0)[8:],
    ],
    ids=[
        "streamed",
        "zero",
        "beyond the end",
        "list first",
        "list last",
        "odd chunk",
        "block 0",
        "block 7",
        "12 bits",
        "riff -1",
        "riff 0",
    ],
)
def test_lying_headers_give_the_samples_that_are_there_b137(data: bytes) -> None:
    audio = load_audio(data)
    np.testing.assert_allclose(audio.samples, SAMPLES, atol=1e-7)


def test_cut_wav_says_what_is_missing_b137() -> None:
    audio = load_audio(wav(PCM)[:-1000])
    np.testing.assert_allclose(audio.samples, SAMPLES[:500], atol=1e-7)
    assert "2,000 bytes" in audio.notes[0] and "1,000 are there" in audio.notes[0]
    assert not load_audio(wav(PCM, size=0xFFFFFFFF)).notes


def test_odd_number_of_bytes_b137() -> None:
    assert len(load_audio(wav(PCM + b"\1")).samples) == 1000
    assert len(load_audio(wav(PCM[:-1], size=1999)).samples) == 999


def test_header_alone_with_a_huge_size_b137() -> None:
    with pytest.raises(MediaError, match="empty"):
        load_audio(wav(b"", size=0xFFFFFFFF))
    with pytest.raises(MediaError, match="empty"):
        load_audio(wav(b"", size=0, after=LIST))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (wav(PCM, n_channel=0), "0 channels at 16000 Hz"),
        (wav(PCM, rate=0), "1 channels at 0 Hz"),
        (wav(PCM, rate=1), "1 Hz is out of range"),
        (wav(PCM, rate=0xFFFFFFFF), "out of range"),
        (wav(PCM)[:12], "no format and no samples"),
        (wav(PCM)[:30], "format chunk is cut"),
        (wav(PCM)[:36], "no samples"),
        (b"RIFF\0\0\0\0WAVEdata" + struct.pack("<I", 4) + b"abcd", "no format before"),
        (wav(PCM, codec=0x1234), "cannot be decoded"),
        (wav(PCM, bits=0), "cannot be decoded|empty"),
        (wav(PCM, bits=64), "cannot be decoded"),
        (b"fLaC" + bytes(100), "FLAC recording cannot be decoded"),
        (b"OggS" + bytes(100), "OGG recording cannot be decoded"),
        (b"ID3\4\0\0\0\0\0\0" + bytes(100), "MP3 recording"),
    ],
)
def test_unusable_files_are_plain_errors_b137(data: bytes, words: str) -> None:
    with pytest.raises(MediaError, match=words) as caught:
        load_audio(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_damaged_files_give_samples_or_a_clear_error(form: str) -> None:
    data = encode(tone(16000, 0.2), 16000, form)
    rng = np.random.default_rng(5)
    for _ in range(30):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 6)):
            broken[at] = rng.integers(256)
        for cut in (broken, broken[: rng.integers(1, len(data))]):
            try:
                audio = load_audio(bytes(cut), limits=Limits(max_seconds=100))
                assert np.isfinite(audio.samples).all() and np.abs(audio.samples).max() <= 1
            except MediaError as err:
                assert "\n" not in str(err)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_seek_before_the_start_is_harmless() -> None:
    data = encode(tone(16000), 16000, "AIFF").replace(b"SSND", b"S?ND")
    with pytest.raises(MediaError, match="AIFF"):
        load_audio(data)


def test_truncated_flac_says_so() -> None:
    data = encode(np.random.default_rng(0).uniform(-1, 1, 32000), 16000, "FLAC")
    try:
        audio = load_audio(data[: len(data) // 2])
    except MediaError as err:
        assert "FLAC" in str(err)
    else:
        assert "2.0 s" in audio.notes[0] and 0.5 < audio.seconds < 1.1


# Length


@pytest.mark.parametrize(
    "make",
    [
        lambda: encode(np.zeros(33000), 16000, "WAV"),
        lambda: encode(np.zeros(33000), 16000, "FLAC"),
        lambda: (np.zeros(33000), 16000),
    ],
    ids=["wav", "flac", "array"],
)
def test_length_limit(make: Callable[[], Any]) -> None:
    with pytest.raises(MediaError, match=r"2 seconds are longer than the limit of 2.*max_seconds"):
        load_audio(make(), limits=Limits(max_seconds=2.0))
    assert load_audio(make(), limits=Limits(max_seconds=2.1)).seconds == 33000 / 16000


# Resampling


@pytest.mark.parametrize(
    "rate", [4000, 8000, 11025, 12345, 16001, 22050, 24000, 32000, 44100, 48000, 96000, 192000, 384000]
)
def test_resampling_keeps_pitch_level_and_length(rate: int) -> None:
    samples = tone(rate)[:, 0].astype(np.float32)
    result = resample(samples, rate, 16000)
    assert result.dtype == np.float32 and abs(len(result) / 16000 - len(samples) / rate) < 1e-3
    assert abs(pitch(result, 16000) - 440) < 1
    inner = result[800:-800]
    assert abs(np.sqrt(np.mean(inner**2)) - 0.5 / np.sqrt(2)) < 0.005


def test_no_alias_remains() -> None:
    high = (0.5 * np.sin(2 * np.pi * 12000 * np.arange(48000) / 48000)).astype(np.float32)
    result = resample(high, 48000, 16000)  # 12 kHz would fold to 4 kHz
    assert np.abs(result[400:-400]).max() < 0.002


def test_resampling_stays_within_full_scale() -> None:
    square = np.sign(tone(44100, 0.1)[:, 0]).astype(np.float32)
    assert np.abs(resample(square, 44100, 16000)).max() <= 1


def test_key_is_of_samples_and_rate() -> None:
    samples = tone(16000)[:, 0].astype(np.float32)
    audio = load_audio((samples, 16000))
    assert audio.key == load_audio(encode(samples, 16000, "WAV", "FLOAT")).key and len(audio.key) == 32
    assert audio.key != load_audio((samples, 8000)).key
    assert audio.at(16000) is audio and audio.at(8000).seconds == audio.seconds
