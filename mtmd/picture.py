"""Decoding pictures with Pillow into upright, opaque 8-bit RGB.

Plug-ins are called one by one instead of through `PIL.Image.open`: only the one that the bytes ask for runs,
and the size limit is ours, checked on the header, without touching Pillow's process-wide MAX_IMAGE_PIXELS.

Colour: an embedded ICC profile of RGB or CMYK that is not sRGB is applied (wide-gamut photos would look dull
otherwise); a broken one is ignored, and so are those of grey, which differ too little to be seen.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from llm.errors import MediaError
from mtmd.media import U8, Colour, Image, Limits
from mtmd.sniff import Format

_PLUGINS = {  # name by content: module and class
    "PNG": ("PngImagePlugin", "PngImageFile"),
    "JPEG": ("JpegImagePlugin", "JpegImageFile"),
    "WEBP": ("WebPImagePlugin", "WebPImageFile"),
    "GIF": ("GifImagePlugin", "GifImageFile"),
    "BMP": ("BmpImagePlugin", "BmpImageFile"),
    "TIFF": ("TiffImagePlugin", "TiffImageFile"),
    "ICO": ("IcoImagePlugin", "IcoImageFile"),
    "AVIF": ("AvifImagePlugin", "AvifImageFile"),
    "JPEG2000": ("Jpeg2KImagePlugin", "Jpeg2KImageFile"),
    "PNM": ("PpmImagePlugin", "PpmImageFile"),
}
_SEQUENCES = ("PNG", "WEBP", "GIF", "TIFF", "AVIF")  # those whose class counts frames or pages
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")

_UPRIGHT = {  # what undoes an EXIF orientation
    2: Pil.Transpose.FLIP_LEFT_RIGHT,
    3: Pil.Transpose.ROTATE_180,
    4: Pil.Transpose.FLIP_TOP_BOTTOM,
    5: Pil.Transpose.TRANSPOSE,
    6: Pil.Transpose.ROTATE_270,
    7: Pil.Transpose.TRANSVERSE,
    8: Pil.Transpose.ROTATE_90,
}
_ORIENTATION = 274


def read(data: bytes, form: Format, name: str, limits: Limits, background: Colour) -> Image:
    """The first frame of a picture file. Raises MediaError when it is broken, truncated or too large."""
    with _blamed(name, form.name):
        if form.name == "WEBP":  # its decoder takes the canvas's memory before it tells the size
            _check_size(_webp_size(data), name, limits)
        if form.name == "ICO":  # decodes its largest entry before it tells the size
            entry = _largest_icon(data)
            if entry.startswith(b"\x89PNG"):
                return read(entry, Format("PNG", "image"), name, limits, background)
            _check_size(_bitmap_size(entry), name, limits)
        im = _open(data, form.name)
        _check_size(im.size, name, limits)
        if form.name == "PNG":
            _shallow_transparency(im)
        n_frames = _n_frames(im, form.name)
        notes = _load(im, limits)
        return _finish(im, name, n_frames, notes, background)


def _open(data: bytes, name: str) -> Pil.Image:
    """The file with its header read and nothing decoded."""
    module, cls = _PLUGINS[name]
    try:
        opener = getattr(importlib.import_module(f"PIL.{module}"), cls)
    except ImportError as err:
        raise MediaError(
            f"the Pillow that is installed reads no {name}: pip install --upgrade pillow"
        ) from err
    return cast(Pil.Image, opener(BytesIO(data)))


def from_pil(im: Pil.Image, name: str, limits: Limits, background: Colour) -> Image:
    """The frame at which a PIL image stands."""
    with _blamed(name, im.format or "picture"):
        _check_size(im.size, name, limits)
        notes = _load(im, limits)
        return _finish(im, name, 1, notes, background)


def from_array(array: NDArray[np.generic], name: str, limits: Limits, background: Colour) -> Image:
    """An array [h, w] or [h, w, n_channel]: uint8, bool, uint16 or floats from 0 to 1."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and not 1 <= array.shape[2] <= 4):
        shape = list(array.shape)
        raise MediaError(
            f"a picture array is [h, w] or [h, w, 1 to 4 channels], found {shape}; "
            "a recording is given as (samples, rate)"
        )
    _check_size((array.shape[1], array.shape[0]), name, limits)
    pixels = np.ascontiguousarray(_bytes_of(array))
    if array.ndim == 3 and array.shape[2] == 1:
        pixels = pixels.reshape(pixels.shape[:2])
    return _finish(Pil.fromarray(pixels), name, 1, (), background)


def _bytes_of(array: NDArray[Any]) -> U8:
    pixels: U8
    if array.dtype == np.uint8:
        pixels = array
    elif array.dtype == np.bool_:
        pixels = array.astype(np.uint8) * np.uint8(255)
    elif array.dtype == np.uint16:
        pixels = (array >> 8).astype(np.uint8)
    elif np.issubdtype(array.dtype, np.floating):
        low, high = array.min(), array.max()
        if not (low >= 0 and high <= 1):  # NaN fails too
            raise MediaError(f"a picture of floats lies from 0 to 1, found {low:g} to {high:g}; scale it")
        pixels = np.floor(array * 255 + 0.5).astype(np.uint8)
    else:
        raise MediaError(f"a picture array is uint8, bool, uint16 or float, found {array.dtype}")
    return pixels


@contextmanager
def _blamed(name: str, what: str) -> Iterator[None]:
    """Any exception of a decoder is the file's fault: hostile bytes bring out nearly every class there is."""
    try:
        yield
    except MediaError:
        raise
    except MemoryError as err:
        raise MediaError(f"{name}: there is not memory enough for this {what} picture") from err
    except Pil.DecompressionBombError as err:  # a GIF's frame that outgrows its canvas
        raise MediaError(f"{name}: the {what} picture has too many pixels ({err})") from err
    except Exception as err:
        reason = " ".join(str(err).split()) or type(err).__name__
        if isinstance(err, EOFError) or any(
            word in reason.lower() for word in ("truncated", "unexpected end", "eof")
        ):
            raise MediaError(
                f"{name}: the {what} picture is truncated: its end is missing ({reason})"
            ) from err
        raise MediaError(f"{name}: the {what} picture is broken ({reason})") from err


def _check_size(size: tuple[int, int], name: str, limits: Limits) -> None:
    w, h = size
    if w <= 0 or h <= 0:
        raise MediaError(f"{name}: the picture is {w}x{h}: it has no pixels")
    if w * h > limits.max_pixels:
        raise MediaError(
            f"{name}: {w}x{h} are {w * h / 1e6:,.1f} million pixels, the limit is "
            f"{limits.max_pixels / 1e6:,.1f} million; shrink the picture or raise Limits.max_pixels"
        )


def _webp_size(data: bytes) -> tuple[int, int]:
    """Width and height of a WebP's canvas, from its first chunk. Raises EOFError when the file is cut."""
    if int.from_bytes(data[4:8], "little") + 8 > len(data) + 1:  # one byte of padding is often left out
        raise EOFError(f"{len(data)} bytes of {int.from_bytes(data[4:8], 'little') + 8}")
    chunk, body = data[12:16], data[20:30]
    if chunk == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    bits = int.from_bytes(body[1:5], "little")
    if chunk == b"VP8L":
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF


def _largest_icon(data: bytes) -> bytes:
    """The bytes of the largest entry of an icon file; of those of equal size, that with the most colours."""
    entries = [data[at : at + 16] for at in range(6, 6 + 16 * int.from_bytes(data[4:6], "little"), 16)]
    best = max(entries, key=lambda e: ((e[0] or 256) * (e[1] or 256), e[6]))
    start = int.from_bytes(best[12:16], "little")
    return data[start : start + int.from_bytes(best[8:12], "little")]


def _bitmap_size(entry: bytes) -> tuple[int, int]:
    """Width and height of a bitmap in an icon, whose header counts its mask as a second half."""
    return int.from_bytes(entry[4:8], "little"), int.from_bytes(entry[8:12], "little") // 2


def _n_frames(im: Pil.Image, name: str) -> int:
    return int(cast(Any, im).n_frames) if name in _SEQUENCES else 1


def _shallow_transparency(im: Pil.Image) -> None:
    """Of a 16-bit RGB picture Pillow keeps the high bytes, but the transparent colour as it stands."""
    clear = im.info.get("transparency")
    if isinstance(clear, tuple) and cast(Any, im).tile[0].args == "RGB;16B":
        im.info["transparency"] = tuple(value >> 8 for value in clear)


def _load(im: Pil.Image, limits: Limits) -> tuple[str, ...]:
    """Decode in place. A cut picture is an error, or a note where that is allowed."""
    try:
        im.load()
    except OSError:
        partial = cast(Any, im)
        if not limits.allow_truncated or partial._im is None:
            raise
        partial.tile = []  # what was decoded before the cut stays; nothing is left to decode
        im.load()
        return ("the file is truncated: part of the picture is missing",)
    return ()


def _finish(im: Pil.Image, name: str, n_frames: int, notes: tuple[str, ...], background: Colour) -> Image:
    """A decoded picture made sRGB, opaque and upright."""
    orientation = _orientation(im)
    if im.mode in _DEEP:
        im, deep_notes = _shallow(im)
        notes += deep_notes
    elif icc := im.info.get("icc_profile"):
        im = _srgb(im, icc)
    if im.has_transparency_data:
        im, alpha_notes = _opaque(im, background)
        notes += alpha_notes
    elif im.mode != "RGB":
        im = im.convert("RGB")
    if orientation in _UPRIGHT:
        im = im.transpose(_UPRIGHT[orientation])
    if n_frames > 1:
        notes += (f"1 of {n_frames} frames used",)
    return Image(np.array(im), name, n_frames, notes)


def _orientation(im: Pil.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 when there is none or EXIF is malformed."""
    try:
        value = im.getexif().get(_ORIENTATION, 1)
    except Exception:  # a picture is not refused for its metadata
        return 1
    return value if isinstance(value, int) else 1


def _shallow(im: Pil.Image) -> tuple[Pil.Image, tuple[str, ...]]:
    """Deep grey to 8 bits: 16 bits by their high byte; floats as 0..1 or 0..255; anything else stretched."""
    grey = np.asarray(im)  # [h, w]
    low, high = grey.min(), grey.max()
    notes: tuple[str, ...] = ()
    if im.mode.startswith("I;16") or (im.mode == "I" and low >= 0 and 255 < high <= 65535):
        shallow = (grey >> 8).astype(np.uint8)
    elif low >= 0 and high <= 255:
        shallow = (grey * 255 + 0.5 if im.mode == "F" and high <= 1 else grey).astype(np.uint8)
    else:
        finite = np.nan_to_num(grey.astype(np.float64))
        low, high = finite.min(), finite.max()
        shallow = ((finite - low) * (255 / max(high - low, 1e-30)) + 0.5).astype(np.uint8)
        notes = (f"grey values from {low:g} to {high:g} were stretched to 0..255",)
    result = Pil.fromarray(shallow)
    if isinstance(clear := im.info.get("transparency"), int):
        result.putalpha(Pil.fromarray(np.where(grey == clear, 0, 255).astype(np.uint8)))
    return result, notes


def _srgb(im: Pil.Image, icc: bytes) -> Pil.Image:
    """`im` through its ICC profile, if that says anything that sRGB does not."""
    from PIL import ImageCms

    mode = {"RGB ": "RGBA" if im.has_transparency_data else "RGB", "CMYK": "CMYK"}
    try:
        profile = ImageCms.ImageCmsProfile(BytesIO(icc))
        space = profile.profile.xcolor_space
        if space not in mode or (im.mode == "CMYK") != (space == "CMYK") or im.mode in ("L", "LA", "1"):
            return im
        if "sRGB" in ImageCms.getProfileDescription(profile):
            return im
        im = im if im.mode == mode[space] else im.convert(mode[space])
        target = "RGBA" if im.mode == "RGBA" else "RGB"
        return ImageCms.profileToProfile(im, profile, ImageCms.createProfile("sRGB"), outputMode=target) or im
    except (ImageCms.PyCMSError, OSError, ValueError):
        return im


def _opaque(im: Pil.Image, background: Colour) -> tuple[Pil.Image, tuple[str, ...]]:
    """`im` composited on the background colour; a wholly opaque picture passes unchanged."""
    if im.mode == "La":
        im = im.convert("LA")
    seen = im.convert("RGBA")
    alpha: Any = seen.getchannel("A").getextrema()
    if alpha == (255, 255):
        return seen.convert("RGB"), ()
    ground = Pil.new("RGBA", seen.size, (*background, 255))
    result = Pil.alpha_composite(ground, seen).convert("RGB")
    colours: Any = result.getextrema()
    if alpha != (0, 0) and all(low == high for low, high in colours):
        return result, (f"all that is drawn has the colour of the background {background}: try another one",)
    return result, ()
