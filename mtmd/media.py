"""Pictures and recordings: one loader for every way in which they arrive.

    path, bytes, data URI, PIL image, numpy array  ->  Image  u8 [h, w, 3]
    path, bytes, data URI, (samples, rate)         ->  Audio  f32 [n] at its rate

What a file is, its bytes say. Pillow is imported with the first picture, soundfile and scipy with the first
recording that needs them, so a text-only run pays for neither.
"""

import hashlib
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llm.errors import MediaError
from mtmd import source as src
from mtmd.sniff import Format, sniff

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Kind = Literal["image", "audio"]
Colour = tuple[int, int, int]

WHITE: Colour = (255, 255, 255)


@dataclass(frozen=True)
class Limits:
    """How much one medium may cost, checked before the memory is spent.

    `allow_truncated` takes what a cut picture still shows, where its format allows it.
    """

    max_pixels: int = 200_000_000
    max_bytes: int = 1 << 30
    max_seconds: float = 7200.0
    allow_truncated: bool = False


@dataclass(frozen=True, eq=False)
class Image:
    """A picture as a person sees it: upright, on an opaque background, 8 bits of sRGB."""

    pixels: U8  # [h, w, 3], read-only
    source: str = "array"
    n_frames: int = 1  # in the file; the first is used
    notes: tuple[str, ...] = ()
    key: bytes = field(init=False, repr=False)  # sha256 of size and pixels

    def __post_init__(self) -> None:
        assert self.pixels.dtype == np.uint8 and self.pixels.ndim == 3 and self.pixels.shape[2] == 3
        object.__setattr__(self, "key", _key("image", self.pixels.shape, self.pixels))
        self.pixels.flags.writeable = False

    @property
    def original(self) -> tuple[int, int]:
        """(width, height) of the upright picture: what boxes and crops in an answer refer to."""
        return self.pixels.shape[1], self.pixels.shape[0]


@dataclass(frozen=True, eq=False)
class Audio:
    """A recording mixed to one channel, finite and within -1..1."""

    samples: F32  # [n], read-only
    rate: int
    source: str = "array"
    notes: tuple[str, ...] = ()
    key: bytes = field(init=False, repr=False)  # sha256 of rate and samples

    def __post_init__(self) -> None:
        assert self.samples.dtype == np.float32 and self.samples.ndim == 1
        object.__setattr__(self, "key", _key("audio", (self.rate,), self.samples))
        self.samples.flags.writeable = False

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def at(self, rate: int) -> "Audio":
        """This recording at another sample rate."""
        if rate == self.rate:
            return self
        from mtmd import recording

        samples = recording.resample(self.samples, self.rate, rate)
        return Audio(samples, rate, self.source, self.notes)


Samples: TypeAlias = "tuple[NDArray[np.generic], int]"
Source: TypeAlias = (
    "str | os.PathLike[str] | bytes | bytearray | memoryview | PilImage | NDArray[np.generic] | Samples"
    " | Image | Audio"
)


_NOUN = {"image": "a picture", "audio": "a recording", "video": "a video"}


def load_media(
    source: Source, kind: Kind | None = None, limits: Limits = Limits(), background: Colour = WHITE
) -> Image | Audio:
    """A picture or a recording from anything in `Source`; see load_image and load_audio.

    `kind` is what the caller expects; without it the bytes decide. Raises MediaError.
    """
    return _expect(_load(source, limits, background), kind)


def load_image(source: Source, limits: Limits = Limits(), background: Colour = WHITE) -> Image:
    """A picture from a path, bytes, data URI, PIL image or array; what shines through becomes `background`.

    Arrays are [h, w] grey or [h, w, 1 | 2 | 3 | 4] grey, grey and alpha, RGB, RGBA: uint8, bool, uint16 (its
    high byte is used) or floats from 0 to 1. The last axis is the channels, whatever its length.
    """
    medium = load_media(source, "image", limits, background)
    assert isinstance(medium, Image)
    return medium


def load_audio(source: Source, rate: int | None = None, limits: Limits = Limits()) -> Audio:
    """A recording from a path, bytes, data URI or (samples, rate); resampled when `rate` is given.

    Samples are [n] or [n, n_channel]: floats from -1 to 1, or integers of 8, 16 or 32 bits. (rate, samples),
    the order of some toolkits, is understood too.
    """
    medium = load_media(source, "audio", limits)
    assert isinstance(medium, Audio)
    return medium if rate is None else medium.at(rate)


def load_url(
    url: str, kind: Kind | None = None, limits: Limits = Limits(), background: Colour = WHITE
) -> Image | Audio:
    """A medium from text that a stranger sent: a data URI or base64. Never opens a path or a connection."""
    return _expect(_decode(src.decode_url(url), "data URI", limits, background), kind)


def _expect(medium: Image | Audio, kind: Kind | None) -> Image | Audio:
    found: Kind = "image" if isinstance(medium, Image) else "audio"
    if kind is not None and kind != found:
        raise MediaError(f"{medium.source}: is {_NOUN[found]}, {_NOUN[kind]} was expected")
    return medium


def _load(source: Source, limits: Limits, background: Colour) -> Image | Audio:
    if isinstance(source, Image | Audio):
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        return _decode(bytes(source), f"{len(source)} bytes", limits, background)
    if isinstance(source, str):
        return _decode(*_named_bytes(source, limits), limits, background)
    if isinstance(source, os.PathLike):
        data = src.read_path(source, limits.max_bytes)
        return _decode(data, src.printable(os.fspath(source)), limits, background)
    if isinstance(source, np.ndarray):
        from mtmd import picture

        return picture.from_array(source, "array", limits, background)
    if isinstance(source, tuple):
        return _samples(source, limits)
    if (pil := sys.modules.get("PIL.Image")) and isinstance(
        source, pil.Image
    ):  # loaded if anyone has an image
        from mtmd import picture

        return picture.from_pil(source, "PIL image", limits, background)
    raise MediaError(
        f"{type(source).__name__} is no medium: expected a path, bytes, data URI, PIL image, array or "
        "(samples, rate)"
    )


def _named_bytes(text: str, limits: Limits) -> tuple[bytes, str]:
    """Bytes and name of a data URI, a path, or base64 of a known format, in this order of belief."""
    if text.lstrip()[:5].lower() == "data:":
        return src.decode_url(text), "data URI"
    if not src.is_path(text):
        if "://" in text[:12]:
            src.decode_url(text)  # raises: says which addresses are not opened
        data = src.try_base64(text)
        if sniff(data).kind != "other":
            return data, "base64"
    return src.read_path(text, limits.max_bytes), src.printable(text)


def _decode(data: bytes, name: str, limits: Limits, background: Colour) -> Image | Audio:
    if not data:
        raise MediaError(f"{name}: is empty")
    if len(data) > limits.max_bytes:
        raise MediaError(
            f"{name}: larger than the limit of {limits.max_bytes:,} bytes; raise Limits.max_bytes"
        )
    form = sniff(data)
    if form.kind == "image" and not form.remedy:
        from mtmd import picture

        return picture.read(data, form, name, limits, background)
    if form.kind == "audio" and not form.remedy:
        from mtmd import recording

        return recording.read(data, form, name, limits)
    raise MediaError(f"{name}: {_refusal(form, data)}")


def _refusal(form: Format, data: bytes) -> str:
    if form.name == "unknown":
        return f"neither a picture nor a recording that is known here (it begins with {data[:8].hex(' ')})"
    noun = f" ({_NOUN[form.kind]})" if form.kind != "other" else ""
    return f"this is a {form.name}{noun}, which is not read here" + (
        f"; {form.remedy}" if form.remedy else ""
    )


def _samples(pair: tuple[object, ...], limits: Limits) -> Audio:
    from mtmd import recording

    match pair:
        case (np.ndarray() as samples, int() | np.integer() as rate):
            return recording.from_array(samples, int(rate), "array", limits)
        case (int() | np.integer() as rate, np.ndarray() as samples):
            return recording.from_array(samples, int(rate), "array", limits)
    found = ", ".join(type(part).__name__ for part in pair)
    raise MediaError(f"a recording is given as (samples, rate), found ({found})")


def _key(kind: str, shape: tuple[int, ...], array: NDArray[Any]) -> bytes:
    digest = hashlib.sha256(f"{kind} {shape} ".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
