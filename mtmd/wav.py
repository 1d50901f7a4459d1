"""RIFF/WAVE files, read leniently: streamed files and lying headers give the samples that are really there.

Covers PCM of 8 to 32 bits, IEEE floats and G.711, plain or extensible; other codecs are left to libsndfile.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm.errors import MediaError

F32 = NDArray[np.float32]

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # what a writer leaves that could not seek back
_AFTER_DATA = (b"LIST", b"id3 ", b"ID3 ", b"bext", b"cue ", b"fact", b"JUNK", b"smpl")


@dataclass(frozen=True)
class Wave:
    """The frames of a file: `frames` u8 [n_frame, n_channel * width], to be decoded piece by piece."""

    codec: int
    width: int  # bytes of one sample
    n_channel: int
    rate: int
    frames: NDArray[np.uint8]
    note: str = ""

    def mono(self, start: int, stop: int) -> F32:
        """Frames start..stop as floats, channels averaged: f32 [stop - start]."""
        raw = np.ascontiguousarray(self.frames[start:stop]).reshape(-1)
        samples = _decode(raw, self.codec, self.width).reshape(-1, self.n_channel)  # [n_frame, n_channel]
        return samples[:, 0] if self.n_channel == 1 else samples.mean(axis=1)


def parse(data: bytes, name: str) -> Wave | None:
    """The samples of a WAVE file; None for a codec that is not read here. Raises MediaError."""
    layout: tuple[int, int, int, int] | None = None
    at = 12
    while at + 8 <= len(data):
        chunk, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        body = at + 8
        if chunk == b"fmt ":
            layout = _layout(data[body : body + size], name)
        elif chunk == b"data":
            if layout is None:
                raise MediaError(f"{name}: the WAV has samples but no format before them")
            return _wave(layout, data, body, size)
        at = body + size + size % 2
    if layout is None:
        raise MediaError(f"{name}: the WAV has no format and no samples: is it truncated?")
    raise MediaError(f"{name}: the WAV has no samples: is it truncated?")


def _layout(fmt: bytes, name: str) -> tuple[int, int, int, int]:
    """(codec, bytes of one sample, n_channel, rate) of a format chunk."""
    if len(fmt) < 16:
        raise MediaError(f"{name}: the WAV's format chunk is cut: {len(fmt)} bytes, 16 were expected")
    codec, n_channel, rate, _, block, bits = (
        int(v) for v in np.frombuffer(fmt[:16], "<u2,<u2,<u4,<u4,<u2,<u2")[0]
    )
    if codec == _EXTENSIBLE and len(fmt) >= 26:
        codec = int.from_bytes(fmt[24:26], "little")
    if n_channel == 0 or rate == 0:
        raise MediaError(f"{name}: the WAV's header says {n_channel} channels at {rate} Hz")
    # 12 bits lie in 16, left-justified: the block tells the container, where it is consistent
    width = (
        block // n_channel
        if block and block % n_channel == 0 and block * 8 >= bits * n_channel
        else (bits + 7) // 8
    )
    return codec, width, n_channel, rate


def _wave(layout: tuple[int, int, int, int], data: bytes, body: int, size: int) -> Wave | None:
    codec, width, n_channel, rate = layout
    if (codec, width) not in _DECODERS:
        return None
    there = len(data) - body
    streamed = size == 0xFFFFFFFF or (size == 0 and data[body : body + 4] not in _AFTER_DATA)
    note = ""
    if streamed:
        size = there
    elif size > there:
        note = f"the file ends early: its header promises {size:,} bytes of samples, {there:,} are there"
    n_frame = min(size, there) // (width * n_channel)
    frames = np.frombuffer(data, np.uint8, n_frame * width * n_channel, body).reshape(
        n_frame, width * n_channel
    )
    return Wave(codec, width, n_channel, rate, frames, note)


def _u8(raw: NDArray[np.uint8]) -> F32:
    return (raw.astype(np.float32) - np.float32(128)) / np.float32(128)


def _s16(raw: NDArray[np.uint8]) -> F32:
    return raw.view("<i2").astype(np.float32) / np.float32(1 << 15)


def _s24(raw: NDArray[np.uint8]) -> F32:
    wide = np.zeros((len(raw) // 3, 4), np.uint8)
    wide[:, 1:] = raw.reshape(-1, 3)
    return _s32(wide.reshape(-1))


def _s32(raw: NDArray[np.uint8]) -> F32:
    return raw.view("<i4").astype(np.float32) / np.float32(1 << 31)


def _f32(raw: NDArray[np.uint8]) -> F32:
    return raw.view("<f4").astype(np.float32)


def _f64(raw: NDArray[np.uint8]) -> F32:
    with np.errstate(over="ignore"):
        return raw.view("<f8").astype(np.float32)


def _mulaw(raw: NDArray[np.uint8]) -> F32:
    """ITU-T G.711: sign, 3 bits of exponent, 4 of mantissa, all inverted."""
    code = ~raw
    size = (((code & 15).astype(np.int32) << 3) + 132 << (code >> 4 & 7)) - 132
    return np.where(code & 128, -size, size).astype(np.float32) / np.float32(1 << 15)


def _alaw(raw: NDArray[np.uint8]) -> F32:
    """ITU-T G.711: as mu-law, with even bits inverted and no bias; exponent 0 is linear."""
    code = raw ^ 0x55
    exponent, mantissa = code >> 4 & 7, (code & 15).astype(np.int32) << 4
    size = np.where(exponent == 0, mantissa + 8, mantissa + 264 << np.maximum(exponent, 1) - 1)
    return np.where(code & 128, size, -size).astype(np.float32) / np.float32(1 << 15)


_DECODERS = {
    (_PCM, 1): _u8,
    (_PCM, 2): _s16,
    (_PCM, 3): _s24,
    (_PCM, 4): _s32,
    (_FLOAT, 4): _f32,
    (_FLOAT, 8): _f64,
    (_MULAW, 1): _mulaw,
    (_ALAW, 1): _alaw,
}


def _decode(raw: NDArray[np.uint8], codec: int, width: int) -> F32:
    return _DECODERS[codec, width](raw)
