"""Pictures that are cut, damaged, or larger than anybody may ask for."""

import struct
import threading
import time
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageFile

from llm.errors import MediaError
from mtmd.media import Image, Limits, load_image
from tests.pictures import chunk, encode, gif, png, random_rgb

PHOTO = Pil.fromarray(np.kron(random_rgb(8, 8), np.ones((16, 16, 1), np.uint8)))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_truncated_file_is_an_error_b019(form: str, share: float) -> None:
    data = encode(PHOTO, form)
    with pytest.raises(MediaError, match="truncated"):
        load_image(data[: int(len(data) * share)])


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP"])
def test_truncated_file_may_be_accepted_b019(form: str) -> None:
    data = encode(PHOTO, form)
    image = load_image(data[: int(len(data) * 0.7)], limits=Limits(allow_truncated=True))
    whole = load_image(data)
    assert image.original == whole.original and "truncated" in image.notes[0]
    top = slice(-16, None) if form == "BMP" else slice(0, 16)  # BMP runs from the bottom
    np.testing.assert_array_equal(image.pixels[top], whole.pixels[top])
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "JPEG2000", "PPM"])
def test_damaged_files_give_a_picture_or_a_clear_error_b011(form: str) -> None:
    data = encode(PHOTO.resize((48, 48)), form)
    rng = np.random.default_rng(5)
    for _ in range(40):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 6)):
            broken[at] = rng.integers(256)
        for cut in (broken, broken[: rng.integers(1, len(data))]):
            try:
                assert isinstance(load_image(bytes(cut), limits=Limits(max_pixels=1_000_000)), Image)
            except MediaError as err:
                assert "\n" not in str(err)


def rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


BIG = 20000


def lying_jpeg() -> bytes:
    data = bytearray(encode(Pil.new("RGB", (8, 8)), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", BIG, BIG)
    return bytes(data)


def lying_tiff() -> bytes:
    data = encode(Pil.new("L", (8, 8)), "TIFF")
    for tag in (256, 257):
        entry = next(at for at in range(len(data)) if data[at : at + 8] in directory_entries(tag))
        data = data[: entry + 2] + struct.pack("<HII", 4, 1, BIG) + data[entry + 12 :]
    return data


def directory_entries(tag: int) -> list[bytes]:
    return [struct.pack("<HHI", tag, kind, 1) for kind in (3, 4)]


def lying_bmp() -> bytes:
    data = bytearray(encode(Pil.new("RGB", (8, 8)), "BMP"))
    data[18:26] = struct.pack("<ii", BIG, BIG)
    return bytes(data)


def lying_webp() -> bytes:
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + (BIG - 1).to_bytes(3, "little") * 2
    return b"RIFF" + struct.pack("<I", len(body)) + body


def lying_gif() -> bytes:
    return gif((BIG, BIG), (0, 0, 2, 2), bytes(12), clear=None)


def lying_gif_frame() -> bytes:
    data = bytearray(gif((4, 4), (0, 0, 2, 2), bytes(12), clear=None))
    at = data.index(b",")
    data[at + 5 : at + 9] = struct.pack("<HH", BIG, BIG)
    return bytes(data)


def lying_icon_of_png() -> bytes:
    data = bytearray(encode(Pil.new("RGB", (32, 32)), "ICO", sizes=[(32, 32)]))
    at = data.index(b"IHDR") + 4
    data[at : at + 8] = struct.pack(">II", BIG, BIG)
    data[at + 13 : at + 17] = struct.pack(">I", zlib.crc32(data[at - 4 : at + 13]))
    return bytes(data)


def lying_icon_of_bmp() -> bytes:
    data = bytearray(encode(Pil.new("RGB", (32, 32)), "ICO", sizes=[(32, 32)], bitmap_format="bmp"))
    data[26:34] = struct.pack("<ii", BIG, 2 * BIG)
    return bytes(data)


def lying_ppm() -> bytes:
    return b"P6\n20000 20000\n255\n"


def honest_png() -> bytes:
    return png(BIG, BIG, 1, 0, bytes(2501 * BIG))


LIARS = [lying_jpeg, lying_tiff, lying_bmp, lying_webp, lying_gif]
LIARS += [lying_icon_of_png, lying_icon_of_bmp, lying_ppm, honest_png]


@pytest.mark.parametrize("liar", LIARS, ids=lambda f: f.__name__)
def test_oversized_picture_is_refused_on_its_header_b023(liar: Callable[[], bytes]) -> None:
    data = liar()
    assert len(data) < 100_000
    load_image(np.zeros((1, 1, 3), np.uint8))
    start, before = time.perf_counter(), rss()
    with pytest.raises(
        MediaError, match=r"20000x20000 are 400\.0 million pixels, the limit is 200\.0 m.*max_pixels"
    ):
        load_image(data)
    assert time.perf_counter() - start < 1 and rss() - before < 50 << 20


def test_oversized_frame_on_a_small_canvas_b023() -> None:
    before = rss()
    with pytest.raises(MediaError, match=r"too many pixels.*400000000"):
        load_image(lying_gif_frame())
    assert rss() - before < 50 << 20


def test_png_that_cannot_hold_its_pixels_costs_no_memory_b023() -> None:
    before = rss()
    with pytest.raises(MediaError, match="truncated"):
        load_image(png(14000, 14000, 8, 2, bytes(1000)))
    assert rss() - before < 50 << 20


def test_large_picture_is_accepted_b022() -> None:
    image = load_image(png(5200, 5200, 1, 0, bytes(651 * 5200)))
    assert image.original == (5200, 5200) and not image.pixels.any()


def test_limit_can_be_moved() -> None:
    data = encode(Pil.new("RGB", (100, 100)), "PNG")
    with pytest.raises(MediaError, match="100x100"):
        load_image(data, limits=Limits(max_pixels=9_999))
    with pytest.raises(MediaError, match="100x100"):
        load_image(Pil.new("RGB", (100, 100)), limits=Limits(max_pixels=9_999))
    assert load_image(data, limits=Limits(max_pixels=10_000)).original == (100, 100)


def test_bomb_in_a_text_chunk() -> None:
    bomb = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(20 << 20)))
    before = rss()
    try:
        load_image(png(1, 1, 8, 0, b"\0\0", bomb))
    except MediaError as err:
        assert "broken" in str(err)
    assert rss() - before < 10 << 20


def test_pillows_own_limit_is_left_alone() -> None:
    before = Pil.MAX_IMAGE_PIXELS
    Pil.MAX_IMAGE_PIXELS = 100  # somebody else's strict setting in the same process
    try:
        assert load_image(encode(Pil.new("RGB", (64, 64)), "GIF")).original == (64, 64)
        assert load_image(encode(Pil.new("RGB", (64, 64)), "PNG")).original == (64, 64)
        assert Pil.MAX_IMAGE_PIXELS == 100
    finally:
        Pil.MAX_IMAGE_PIXELS = before


def test_zero_size() -> None:
    with pytest.raises(MediaError):
        load_image(png(0, 5, 8, 0, b""))
    with pytest.raises(MediaError, match="no pixels"):
        load_image(Pil.new("RGB", (0, 5)))
    with pytest.raises(MediaError, match="no pixels"):
        load_image(np.zeros((0, 5, 3), np.uint8))


def test_threads_decode_side_by_side() -> None:
    files = [
        encode(Pil.fromarray(random_rgb(64, 64, i)), form)
        for i, form in enumerate(["PNG", "BMP", "TIFF"] * 4)
    ]
    results: dict[int, np.ndarray] = {}

    def work(i: int) -> None:
        results[i] = load_image(files[i]).pixels

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(files))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(len(files)):
        np.testing.assert_array_equal(results[i], random_rgb(64, 64, i))
