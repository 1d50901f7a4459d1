"""Pictures of every kind through the loader: case ids as in the project's list of field cases."""

import io

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageCms, features

from llm.errors import MediaError
from mtmd.media import load_image
from tests.pictures import BLACK, BLUE, GREEN, RED, WHITE, chunk, encode, exif, gif, png, random_rgb

# Orientation


UPRIGHT = np.array([[1, 2, 3], [4, 5, 6]], np.uint8) * 40  # what a person sees, [2, 3]
STORED = {  # as each orientation stores it
    1: [[1, 2, 3], [4, 5, 6]],
    2: [[3, 2, 1], [6, 5, 4]],
    3: [[6, 5, 4], [3, 2, 1]],
    4: [[4, 5, 6], [1, 2, 3]],
    5: [[1, 4], [2, 5], [3, 6]],
    6: [[3, 6], [2, 5], [1, 4]],
    7: [[6, 3], [5, 2], [4, 1]],
    8: [[4, 1], [5, 2], [6, 3]],
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF", "JPEG"])
def test_exif_all_eight_b001_b002(form: str, orientation: int) -> None:
    stored = np.kron(
        np.array(STORED[orientation], np.uint8) * 40, np.ones((16, 16), np.uint8)
    )  # whole JPEG blocks
    options = {"PNG": {}, "WEBP": {"lossless": True}, "TIFF": {}, "JPEG": {"quality": 95}}[form]
    data = encode(Pil.fromarray(stored).convert("RGB"), form, exif=exif(orientation), **options)
    image = load_image(data)
    np.testing.assert_allclose(image.pixels[8::16, 8::16, 0], UPRIGHT, atol=3 if form == "JPEG" else 0)
    assert image.original == (48, 32)


def test_exif_tells_red_on_top_b001() -> None:
    stored = np.zeros((4, 8, 3), np.uint8)
    stored[:, :4], stored[:, 4:] = RED, BLUE
    image = load_image(encode(Pil.fromarray(stored), "JPEG", quality=100, subsampling=0, exif=exif(6)))
    assert image.pixels.shape == (8, 4, 3)
    assert (image.pixels[:4, :, 0] > 250).all() and (image.pixels[4:, :, 2] > 250).all()


@pytest.mark.parametrize(
    "bad", [exif(0), exif(9), exif(65535), b"Exif\0\0", b"Exif\0\0garbage", exif(6)[:20]]
)
def test_malformed_exif_leaves_the_picture_as_it_is_b001(bad: bytes) -> None:
    assert load_image(encode(Pil.new("RGB", (8, 4), RED), "JPEG", exif=bad)).original == (8, 4)


def test_original_size_is_upright_b005() -> None:
    assert load_image(encode(Pil.new("RGB", (400, 300)), "JPEG", exif=exif(6))).original == (300, 400)


def test_exif_of_pil_images() -> None:
    opened = Pil.open(io.BytesIO(encode(Pil.new("RGB", (8, 4)), "JPEG", exif=exif(8))))
    assert load_image(opened).original == (4, 8)
    made = Pil.new("RGB", (8, 4))
    made.getexif()[274] = 6
    assert load_image(made).original == (4, 8)


# Transparency


def test_trns_of_palette_grey_and_rgb_b003() -> None:
    palette = Pil.new("P", (4, 4), 1)
    palette.putpalette([255, 0, 0, 0, 0, 0])
    assert (load_image(encode(palette, "PNG", transparency=1)).pixels == 255).all()
    assert (load_image(encode(palette, "PNG", transparency=bytes([255, 0]))).pixels == 255).all()
    assert (load_image(encode(Pil.new("L", (4, 4), 7), "PNG", transparency=7)).pixels == 255).all()
    assert (load_image(encode(Pil.new("RGB", (4, 4), RED), "PNG", transparency=RED)).pixels == 255).all()
    assert (load_image(encode(Pil.new("1", (4, 4), 0), "PNG", transparency=0)).pixels == 255).all()
    assert (load_image(encode(Pil.new("RGB", (4, 4), RED), "PNG", transparency=BLUE)).pixels == RED).all()


@pytest.mark.parametrize("depth", [8, 16])
def test_trns_of_deep_png_b003(depth: int) -> None:
    clear, seen = (0x1234, 0x1334) if depth == 16 else (0x12, 0x13)
    size = depth // 8
    rows = b"\0" + clear.to_bytes(size, "big") + seen.to_bytes(size, "big")
    grey = png(2, 1, depth, 0, rows, chunk(b"tRNS", clear.to_bytes(2, "big")))
    assert load_image(grey).pixels.tolist() == [[[255] * 3, [0x13] * 3]]
    rows = b"\0" + clear.to_bytes(size, "big") * 3 + seen.to_bytes(size, "big") * 3
    rgb = png(2, 1, depth, 2, rows, chunk(b"tRNS", clear.to_bytes(2, "big") * 3))
    assert load_image(rgb).pixels.tolist() == [[[255] * 3, [0x13] * 3]]


@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_hidden_colours_do_not_show_b006(form: str) -> None:
    rgba = np.zeros((32, 32, 4), np.uint8)
    rgba[:, :, :3] = random_rgb(32, 32)
    rgba[8:16, 8:16] = (0, 0, 0, 255)
    options = {"lossless": True, "exact": True} if form == "WEBP" else {}
    pixels = load_image(encode(Pil.fromarray(rgba), form, **options)).pixels
    expected = np.full((32, 32, 3), 255, np.uint8)
    expected[8:16, 8:16] = 0
    np.testing.assert_array_equal(pixels, expected)


def test_opaque_alpha_changes_nothing_b006() -> None:
    rgb = random_rgb(9, 7)
    rgba = np.dstack([rgb, np.full((9, 7), 255, np.uint8)])
    np.testing.assert_array_equal(load_image(encode(Pil.fromarray(rgba), "PNG")).pixels, rgb)
    np.testing.assert_array_equal(load_image(rgba).pixels, rgb)


def test_background_colour_b007() -> None:
    rgba = np.zeros((8, 8, 4), np.uint8)
    rgba[2:6, 2:6] = 255
    data = encode(Pil.fromarray(rgba), "PNG")
    plain = load_image(data)
    assert (plain.pixels == 255).all() and "background" in plain.notes[0]
    dark = load_image(data, background=BLACK)
    assert dark.pixels.sum() == 16 * 3 * 255 and not dark.notes


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "RGBa", "La"])
def test_every_alpha_mode_half_transparent(mode: str) -> None:
    im = Pil.new("LA", (4, 4), (0, 128)).convert("RGBA")
    if mode == "La":
        im = im.convert("LA")
    if mode == "PA":
        im = Pil.new("P", (4, 4), 0)
        im.putpalette([0, 0, 0])
        im = im.convert("PA")
        im.putalpha(Pil.new("L", (4, 4), 128))
    else:
        im = im.convert(mode)
    assert im.mode == mode
    np.testing.assert_allclose(load_image(im).pixels, 127, atol=1)


# Modes and depths


@pytest.mark.parametrize(
    "mode", ["L", "LA", "1", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16"]
)
def test_every_mode_becomes_rgb_bytes_b017(mode: str) -> None:
    im = Pil.new(mode, (5, 4)) if mode == "I;16" else Pil.new("RGB", (5, 4), WHITE).convert(mode)
    pixels = load_image(im).pixels
    assert pixels.shape == (4, 5, 3) and pixels.dtype == np.uint8 and not pixels.flags.writeable
    np.testing.assert_allclose(pixels, 0 if mode == "I;16" else 255, atol=1)  # Lab goes through a profile


def test_low_depth_png_b017() -> None:
    two_bits = png(4, 1, 2, 0, b"\0" + bytes([0b00011011]))
    assert load_image(two_bits).pixels[0, :, 0].tolist() == [0, 85, 170, 255]
    one_bit = png(4, 1, 1, 0, b"\0" + bytes([0b01010000]))
    assert load_image(one_bit).pixels[0, :, 0].tolist() == [0, 255, 0, 255]
    assert load_image(encode(Pil.new("LA", (4, 4), (77, 255)), "PNG")).pixels.tolist() == [[[77] * 3] * 4] * 4


RAMP = np.arange(256, dtype=np.uint16)[None] * 257  # [1, 256]


@pytest.mark.parametrize(
    "data",
    [
        png(256, 1, 16, 0, b"\0" + RAMP.astype(">u2").tobytes()),
        encode(Pil.fromarray(RAMP), "PNG"),
        encode(Pil.fromarray(RAMP), "TIFF"),
        encode(Pil.frombytes("I;16B", (256, 1), RAMP.astype(">u2").tobytes()), "TIFF"),
        b"P5\n256 1\n65535\n" + RAMP.astype(">u2").tobytes(),
    ],
    ids=["png", "png-pillow", "tiff", "tiff-big-endian", "pgm"],
)
def test_16_bit_grey_keeps_its_levels_b015(data: bytes) -> None:
    pixels = load_image(data).pixels
    np.testing.assert_array_equal(pixels, np.repeat(np.arange(256)[None, :, None], 3, axis=2))


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B", "I", "F"])
def test_16_bit_pil_images_b015(mode: str) -> None:
    raw = RAMP.astype({"I;16B": ">u2", "I": np.int32, "F": np.float32}.get(mode, "<u2"))
    pixels = load_image(Pil.frombytes(mode, (256, 1), raw.tobytes())).pixels
    assert len(np.unique(pixels)) == 256 and (pixels == 255).all(axis=2).sum() == 1


def test_16_bit_rgb_png_b015() -> None:
    rows = b"\0" + np.array([[0x1200, 0x34FF, 0xFFFF], [0, 0x0100, 0x80FF]], ">u2").tobytes()
    assert load_image(png(2, 1, 16, 2, rows)).pixels.tolist() == [[[0x12, 0x34, 0xFF], [0, 1, 0x80]]]


def test_float_pictures_are_scaled_not_clipped() -> None:
    unit = Pil.fromarray(np.array([[0, 0.5, 1]], np.float32))
    assert load_image(unit).pixels[0, :, 0].tolist() == [0, 128, 255]
    wide = load_image(Pil.fromarray(np.array([[-1000, 0, np.nan, 1000]], np.float32)))
    assert wide.pixels[0, :, 0].tolist() == [0, 128, 128, 255] and "stretched" in wide.notes[0]


@pytest.mark.parametrize("size", [(1, 50), (50, 1), (3, 50), (50, 3), (1, 1), (4, 4)])
def test_layout_is_not_guessed_from_the_shape_b018(size: tuple[int, int]) -> None:
    pixels = random_rgb(*size)
    np.testing.assert_array_equal(load_image(encode(Pil.fromarray(pixels), "PNG")).pixels, pixels)
    np.testing.assert_array_equal(load_image(pixels).pixels, pixels)


def test_cmyk_jpeg_plain_and_adobe_inverted() -> None:
    cmyk = Pil.new("CMYK", (16, 16), (0, 255, 255, 0))
    data = encode(cmyk, "JPEG", quality=100)  # Pillow writes the Adobe marker, values inverted
    assert b"Adobe" in data
    np.testing.assert_allclose(load_image(data).pixels, np.broadcast_to(RED, (16, 16, 3)), atol=3)
    np.testing.assert_allclose(load_image(cmyk).pixels, np.broadcast_to(RED, (16, 16, 3)), atol=3)


def test_progressive_jpeg() -> None:
    pixels = np.kron(random_rgb(4, 4), np.ones((16, 16, 1), np.uint8))
    plain, progressive = (encode(Pil.fromarray(pixels), "JPEG", progressive=p) for p in (False, True))
    assert plain != progressive
    np.testing.assert_allclose(load_image(plain).pixels.astype(int), load_image(progressive).pixels, atol=1)


def test_chroma_subsampled_jpeg_of_odd_size() -> None:
    image = load_image(encode(Pil.new("RGB", (33, 17), RED), "JPEG", subsampling=2))
    assert (
        image.original == (33, 17)
        and (image.pixels[:, :, 0] > 250).all()
        and (image.pixels[:, :, 1] < 5).all()
    )


# WebP, animations, other containers


def test_webp_sub_formats_b009() -> None:
    pixels = random_rgb(6, 5)
    lossy = encode(Pil.new("RGB", (16, 16), RED), "WEBP")
    assert lossy[12:16] == b"VP8 " and (load_image(lossy).pixels[:, :, 0] > 245).all()
    lossless = encode(Pil.fromarray(pixels), "WEBP", lossless=True)
    assert lossless[12:16] == b"VP8L"
    np.testing.assert_array_equal(load_image(lossless).pixels, pixels)
    rgba = np.dstack([pixels, np.full((6, 5), 0, np.uint8)])
    extended = encode(Pil.fromarray(rgba), "WEBP", lossless=True, exact=True, exif=exif(6))
    assert extended[12:16] == b"VP8X" and load_image(extended).original == (6, 5)
    assert (load_image(extended).pixels == 255).all()
    tiny = encode(Pil.new("RGB", (1, 1), BLUE), "WEBP", lossless=True)
    assert load_image(tiny).pixels.tolist() == [[list(BLUE)]]


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_first_frame_of_an_animation_b014(form: str) -> None:
    frames = [Pil.new("RGB", (6, 6), colour) for colour in (RED, GREEN, BLUE)]
    options = {"lossless": True} if form == "WEBP" else {}
    data = encode(frames[0], form, save_all=True, append_images=frames[1:], duration=100, **options)
    image = load_image(data)
    assert (image.pixels == RED).all() and image.n_frames == 3
    assert image.notes == ("1 of 3 frames used",)


def test_gif_first_frame_is_composited_b014() -> None:
    colours = bytes([*BLACK, *RED, *GREEN, *BLUE])
    assert (load_image(gif((4, 4), (0, 0, 4, 4), colours, clear=1)).pixels == 255).all()
    partial = load_image(gif((4, 4), (1, 1, 2, 2), colours, clear=0)).pixels
    expected = np.full((4, 4, 3), 255, np.uint8)
    expected[1:3, 1:3] = RED
    np.testing.assert_array_equal(partial, expected)


def test_icons_b013() -> None:
    rgb = Pil.new("RGB", (32, 32), GREEN)
    for options in ({}, {"bitmap_format": "bmp"}):
        image = load_image(encode(rgb, "ICO", sizes=[(16, 16), (32, 32)], **options))
        assert image.original == (32, 32) and (image.pixels == GREEN).all()


@pytest.mark.parametrize("form", ["BMP", "TIFF", "PPM", "JPEG2000"])
def test_other_containers(form: str) -> None:
    pixels = random_rgb(7, 5)
    np.testing.assert_array_equal(load_image(encode(Pil.fromarray(pixels), form)).pixels, pixels)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")
def test_avif() -> None:
    image = load_image(encode(Pil.new("RGB", (32, 16), RED), "AVIF", exif=exif(6)))
    assert image.original == (16, 32) and (image.pixels[:, :, 0] > 245).all()


def test_pages_of_a_tiff() -> None:
    data = encode(Pil.new("RGB", (4, 4), RED), "TIFF", save_all=True, append_images=[Pil.new("RGB", (9, 9))])
    image = load_image(data)
    assert image.original == (4, 4) and image.n_frames == 2


# Colour profiles


def test_icc_profile_is_applied_and_a_broken_one_ignored() -> None:
    lab = ImageCms.createProfile("sRGB")
    plain = Pil.new("RGB", (4, 4), (200, 40, 30))
    srgb = ImageCms.ImageCmsProfile(lab).tobytes()
    np.testing.assert_array_equal(
        load_image(encode(plain, "PNG", icc_profile=srgb)).pixels, np.asarray(plain)
    )
    np.testing.assert_array_equal(
        load_image(encode(plain, "PNG", icc_profile=b"junk")).pixels, np.asarray(plain)
    )
    # the same profile with red and green exchanged, under another name
    swapped = bytearray(srgb.replace(b"s\0R\0G\0B", b"n\0o\0n\0e").replace(b"sRGB", b"none"))
    i, j = swapped.index(b"rXYZ"), swapped.index(b"gXYZ")
    swapped[i : i + 4], swapped[j : j + 4] = b"gXYZ", b"rXYZ"
    for mode in ("RGB", "RGBA"):
        image = load_image(encode(plain.convert(mode), "PNG", icc_profile=bytes(swapped)))
        np.testing.assert_allclose(image.pixels, np.broadcast_to((40, 200, 30), (4, 4, 3)), atol=2)


# Arrays


def test_arrays_of_every_kind() -> None:
    grey = np.array([[0, 128, 255]], np.uint8)
    assert load_image(grey).pixels[0, 1].tolist() == [128] * 3
    assert load_image(grey[:, :, None]).pixels[0, 1].tolist() == [128] * 3
    assert load_image(grey > 5).pixels[0, :, 0].tolist() == [0, 255, 255]
    assert load_image(grey.astype(np.uint16) * 257).pixels[0, :, 0].tolist() == [0, 128, 255]
    assert load_image(grey / 255.0).pixels[0, :, 0].tolist() == [0, 128, 255]
    assert load_image((grey / 255).astype(np.float32)).pixels[0, :, 0].tolist() == [0, 128, 255]
    assert load_image(np.full((2, 2, 4), (9, 9, 9, 0), np.uint8)).pixels.tolist() == [[[255] * 3] * 2] * 2
    assert load_image(random_rgb(8, 8)[::2, ::-1]).original == (8, 4)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(5, np.uint8), r"\[h, w\].*found \[5\]"),
        (np.zeros((3, 20, 20), np.uint8), r"found \[3, 20, 20\]"),
        (np.zeros((1, 4, 4, 3), np.uint8), r"found \[1, 4, 4, 3\]"),
        (np.full((4, 4), 255.0), "0 to 1, found 255 to 255"),
        (np.full((4, 4), np.nan), "0 to 1"),
        (np.zeros((4, 4), np.int64), "int64"),
        (np.array([["a"]]), "found"),
    ],
)
def test_arrays_that_are_no_pictures(array: np.ndarray, words: str) -> None:
    with pytest.raises(MediaError, match=words):
        load_image(array)


def test_the_callers_array_stays_writeable_and_apart() -> None:
    array = random_rgb(4, 4)
    image = load_image(array)
    array[:] = 0
    assert image.pixels.any()


def test_colours_survive_b055() -> None:
    for colour in (RED, GREEN, BLUE):
        for form in ("PNG", "BMP", "WEBP"):
            options = {"lossless": True} if form == "WEBP" else {}
            assert (
                load_image(encode(Pil.new("RGB", (64, 64), colour), form, **options)).pixels == colour
            ).all()


def test_key_is_of_the_pixels_and_their_shape() -> None:
    pixels = random_rgb(4, 6)
    same = load_image(encode(Pil.fromarray(pixels), "PNG")), load_image(encode(Pil.fromarray(pixels), "BMP"))
    assert same[0].key == same[1].key == load_image(pixels).key and len(same[0].key) == 32
    assert load_image(pixels.reshape(6, 4, 3)).key != same[0].key
