"""What a run of bytes is, by its own bytes: never by a file name's extension or a declared MIME type."""

from dataclasses import dataclass
from typing import Literal

_HEIC_REMEDY = "convert it first, for example with: heif-convert photo.heic photo.jpg"
_SOUND_REMEDY = "convert it first, for example with: ffmpeg -i in.m4a out.wav"
_VIDEO_REMEDY = (
    "take its sound with: ffmpeg -i in.mp4 out.wav, or one picture with: ffmpeg -i in.mp4 -frames:v 1 out.png"
)
_SVG_REMEDY = "render it first, for example with: rsvg-convert drawing.svg -o drawing.png"
_PDF_REMEDY = "render a page first, for example with: pdftoppm -png -r 150 paper.pdf page"

_N_SEARCH = 1 << 16  # bytes of junk that may precede the first MPEG frame


@dataclass(frozen=True)
class Format:
    """A recognised file format. A `remedy` means that it is known but not read here, and says what to do."""

    name: str
    kind: Literal["image", "audio", "video", "other"]
    remedy: str = ""


UNKNOWN = Format("unknown", "other")
MP3 = Format("MP3", "audio")

_HEIC = Format("HEIC", "image", _HEIC_REMEDY)
_VIDEO = Format("MP4", "video", _VIDEO_REMEDY)
_TIFF = Format("TIFF", "image")
_JPEG2000 = Format("JPEG2000", "image")
_PNM = Format("PNM", "image")
_GIF = Format("GIF", "image")
_AVIF = Format("AVIF", "image")
_AIFF = Format("AIFF", "audio")
_M4A = Format("M4A", "audio", _SOUND_REMEDY)

# First match wins; every (offset, bytes) pair of a row must be there.
_SIGNATURES: tuple[tuple[Format, tuple[tuple[int, bytes], ...]], ...] = (
    (Format("PNG", "image"), ((0, b"\x89PNG\r\n\x1a\n"),)),
    (Format("JPEG", "image"), ((0, b"\xff\xd8\xff"),)),
    (Format("WEBP", "image"), ((0, b"RIFF"), (8, b"WEBP"))),
    (_GIF, ((0, b"GIF87a"),)),
    (_GIF, ((0, b"GIF89a"),)),
    (Format("BMP", "image"), ((0, b"BM"), (15, b"\0\0\0"))),  # "BM" alone also begins prose
    (_TIFF, ((0, b"II*\0"),)),
    (_TIFF, ((0, b"MM\0*"),)),
    (_TIFF, ((0, b"II+\0"),)),
    (_TIFF, ((0, b"MM\0+"),)),
    (Format("ICO", "image"), ((0, b"\0\0\1\0"),)),
    (_JPEG2000, ((0, b"\0\0\0\x0cjP  \r\n\x87\n"),)),
    (_JPEG2000, ((0, b"\xff\x4f\xff\x51"),)),
    (_PNM, ((0, b"P4\n"),)),
    (_PNM, ((0, b"P5\n"),)),
    (_PNM, ((0, b"P6\n"),)),
    (_AVIF, ((4, b"ftypavif"),)),
    (_AVIF, ((4, b"ftypavis"),)),
    (_HEIC, ((4, b"ftyphei"),)),
    (_HEIC, ((4, b"ftyphev"),)),
    (_HEIC, ((4, b"ftypmif1"),)),
    (_HEIC, ((4, b"ftypmsf1"),)),
    (Format("WAV", "audio"), ((0, b"RIFF"), (8, b"WAVE"))),
    (Format("RIFX", "audio"), ((0, b"RIFX"), (8, b"WAVE"))),
    (Format("RF64", "audio"), ((0, b"RF64"), (8, b"WAVE"))),
    (Format("FLAC", "audio"), ((0, b"fLaC"),)),
    (Format("OGG", "audio"), ((0, b"OggS"),)),
    (MP3, ((0, b"ID3"),)),
    (_AIFF, ((0, b"FORM"), (8, b"AIF"))),
    (Format("AU", "audio"), ((0, b".snd"),)),
    (Format("CAF", "audio"), ((0, b"caff"),)),
    (_M4A, ((4, b"ftypM4A"),)),
    (_M4A, ((4, b"ftypM4B"),)),
    (Format("AAC", "audio", _SOUND_REMEDY), ((0, b"\xff\xf1"),)),
    (Format("AAC", "audio", _SOUND_REMEDY), ((0, b"\xff\xf9"),)),
    (Format("AMR", "audio", _SOUND_REMEDY), ((0, b"#!AMR"),)),
    (Format("WMA", "audio", _SOUND_REMEDY), ((0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"),)),
    (_VIDEO, ((4, b"ftyp"),)),
    (Format("WebM", "video", _VIDEO_REMEDY), ((0, b"\x1a\x45\xdf\xa3"),)),
    (Format("AVI", "video", _VIDEO_REMEDY), ((0, b"RIFF"), (8, b"AVI "))),
    (Format("PDF", "other", _PDF_REMEDY), ((0, b"%PDF"),)),
    (Format("GGUF model", "other", "pass it with -m or --mmproj"), ((0, b"GGUF"),)),
    (
        Format("Git LFS pointer", "other", "fetch the file itself with: git lfs pull"),
        ((0, b"version https://git-lfs"),),
    ),
    (Format("ZIP archive", "other", "unpack it first"), ((0, b"PK\3\4"),)),
    (Format("gzip archive", "other", "unpack it first"), ((0, b"\x1f\x8b"),)),
)


def sniff(data: bytes) -> Format:
    """The format that `data` begins with; UNKNOWN when none is recognised."""
    for form, parts in _SIGNATURES:
        if all(data.startswith(magic, at) for at, magic in parts):
            return form
    if mpeg_start(data) is not None:
        return MP3
    return _text(data[:1024])


def _text(head: bytes) -> Format:
    """Which kind of text it is, if any: people do hand over web pages and drawings under a picture's name."""
    try:
        text = head.decode("utf-8", "strict").lower()
    except UnicodeDecodeError as err:
        if not head or err.start < len(head) - 3:  # a character cut by the end of `head` is no objection
            return UNKNOWN
        text = head[: err.start].decode("utf-8").lower()
    if not text or any(ch < " " and ch not in "\t\n\r\f\x1b" for ch in text):
        return UNKNOWN
    if "<svg" in text:
        return Format("SVG drawing", "other", _SVG_REMEDY)
    if text.lstrip().startswith(("<!doctype html", "<html")):
        return Format(
            "web page", "other", "open its address in a browser to see why it is not the file itself"
        )
    return Format("text file", "other")


# MPEG audio, ISO 11172-3 and 13818-3: kbit/s by (MPEG-1?, layer) and index, Hz by index.
_KBITS = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_HERTZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def _mpeg_frame(data: bytes, at: int) -> int:
    """Length in bytes of the MPEG audio frame at `at`; 0 when there is none."""
    if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] & 0xE0 != 0xE0:
        return 0
    version, layer = data[at + 1] >> 3 & 3, 4 - (data[at + 1] >> 1 & 3)
    i_kbits, i_hertz, padding = data[at + 2] >> 4, data[at + 2] >> 2 & 3, data[at + 2] >> 1 & 1
    if version == 1 or layer == 4 or i_kbits in (0, 15) or i_hertz == 3:
        return 0
    bits, rate = 1000 * _KBITS[version == 3, layer][i_kbits - 1], _HERTZ[version][i_hertz]
    if layer == 1:
        return (12 * bits // rate + padding) * 4
    return (72 if layer == 3 and version != 3 else 144) * bits // rate + padding


def mpeg_start(data: bytes) -> int | None:
    """Where MPEG audio begins: two frames in a row, or one that fills the data; None when there is none."""
    at = data.find(b"\xff", 0, _N_SEARCH)
    while at >= 0:
        n_byte = _mpeg_frame(data, at)
        if n_byte and (_mpeg_frame(data, at + n_byte) or (at == 0 and n_byte >= len(data) > 4)):
            return at
        at = data.find(b"\xff", at + 1, _N_SEARCH)
    return None
