"""Picture files made by hand or with Pillow, for tests of the loader."""

import io
import struct
import zlib

import numpy as np
from PIL import Image as Pil

RED, GREEN, BLUE, BLACK, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0), (255, 255, 255)


def encode(im: Pil.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    im.save(buffer, form, **options)
    return buffer.getvalue()


def random_rgb(h: int, w: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (h, w, 3), dtype=np.uint8)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(w: int, h: int, depth: int, colour: int, rows: bytes, *extra: bytes) -> bytes:
    """A PNG by hand: `rows` are the filtered scan lines."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + b"".join(extra)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def exif(orientation: int) -> bytes:
    return (
        b"Exif\0\0"
        + b"MM\0*\0\0\0\x08\0\x01"
        + struct.pack(">HHIHH", 274, 3, 1, orientation, 0)
        + b"\0\0\0\0"
    )


def gif(
    canvas: tuple[int, int], frame: tuple[int, int, int, int], colours: bytes, clear: int | None
) -> bytes:
    """A GIF by hand: one frame (x, y, w, h) of colour 1 on a canvas; `colours` are 4 RGB triples."""
    head = b"GIF89a" + struct.pack("<HHBBB", *canvas, 0b10000001, 0, 0) + colours
    control = b"!\xf9\x04" + bytes([1 if clear is not None else 0, 0, 0, clear or 0, 0])
    n = frame[2] * frame[3]
    codes = (
        [4] + [code for _ in range(n) for code in (1, 4)] + [5]
    )  # clearing each time keeps codes at 3 bits
    bits = sum(code << 3 * i for i, code in enumerate(codes))
    body = bits.to_bytes((3 * len(codes) + 7) // 8, "little")
    data = b"".join(bytes([len(body[i : i + 255])]) + body[i : i + 255] for i in range(0, len(body), 255))
    return head + control + b"," + struct.pack("<HHHHB", *frame, 0) + b"\x02" + data + b"\0;"
