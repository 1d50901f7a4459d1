"""The arithmetic of pictures against Pillow, the peer's grids, the authors' formulas and training data."""

import importlib.util
import json
from math import ceil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image as Pil

from mtmd.image import Filter, cut, idefics3_sizes, idefics3_tiles, normalise, resize
from mtmd.media import load_image
from tests.pictures import random_rgb

GRIDS = json.loads((Path(__file__).parent.parent / "golden" / "grids.json").read_text())


@pytest.fixture(scope="module")
def training(samples: Path) -> ModuleType:
    """The preprocessing that the embedded model was trained with."""
    spec = importlib.util.spec_from_file_location("preprocess", samples / "train" / "preprocess.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Resampling and normalisation


def kernel(method: str, x: np.ndarray) -> np.ndarray:
    """The three filters, as Pillow defines them; bicubic with a = -0.5."""
    x = np.abs(x)
    match method:
        case "BILINEAR":
            return np.clip(1 - x, 0, None)
        case "BICUBIC":
            inner, outer = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
            return np.where(x < 1, inner, np.where(x < 2, outer, 0))
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)


def resampled_rows(pixels: np.ndarray, n: int, method: str) -> np.ndarray:
    """Pillow's pass along the first axis, weights of 22 bits: u8 [h, w, 3] -> [n, w, 3]."""
    scale, reach = len(pixels) / n, {"BILINEAR": 1, "BICUBIC": 2, "LANCZOS": 3}[method]
    width = max(scale, 1.0)
    out = np.empty((n, *pixels.shape[1:]), np.uint8)
    for i in range(n):
        centre = (i + 0.5) * scale
        first = max(0, int(centre - reach * width + 0.5))
        at = np.arange(first, min(len(pixels), int(centre + reach * width + 0.5)))
        weight = kernel(method, (at - centre + 0.5) / width)
        fixed = np.trunc(weight / weight.sum() * 2**22 + np.copysign(0.5, weight)).astype(np.int64)
        levels = (np.tensordot(fixed, pixels[at].astype(np.int64), 1) + 2**21) >> 22
        out[i] = np.clip(levels, 0, 255)
    return out


def resampled(pixels: np.ndarray, size: tuple[int, int], method: str) -> np.ndarray:
    """What Pillow to version 12 gives: the width first, then the height; a side that stays is not touched."""
    if size[0] != pixels.shape[1]:
        pixels = resampled_rows(pixels.swapaxes(0, 1), size[0], method).swapaxes(0, 1)
    return pixels if size[1] == len(pixels) else resampled_rows(pixels, size[1], method)


@pytest.mark.parametrize("method", ["BILINEAR", "BICUBIC", "LANCZOS"])
@pytest.mark.parametrize(
    "size", [(50, 40), (7, 90), (64, 48), (1, 1), (200, 3), (64, 20), (30, 48), (300, 301)]
)
def test_resize_is_pillows_width_first(method: Filter, size: tuple[int, int]) -> None:
    pixels = random_rgb(48, 64)
    np.testing.assert_array_equal(resize(pixels, size, method), resampled(pixels, size, method))
    assert resize(pixels, (64, 48), method) is pixels


def lanczos_1d(row: np.ndarray, n: int) -> np.ndarray:
    """From the definition: sinc(x) sinc(x / 3), widened when shrinking, weights that sum to one."""
    scale = len(row) / n
    width = max(scale, 1.0)
    out = np.empty(n)
    for i in range(n):
        centre = (i + 0.5) * scale
        at = np.arange(max(0, int(centre - 3 * width + 0.5)), min(len(row), int(centre + 3 * width + 0.5)))
        x = (at + 0.5 - centre) / width
        weight = np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)
        out[i] = row[at] @ weight / weight.sum()
    return np.clip(out, 0, 255)


@pytest.mark.parametrize("n", [10, 37, 90])
def test_resize_is_lanczos_by_its_definition(n: int) -> None:
    row = random_rgb(1, 64)
    found = resize(row, (n, 1), "LANCZOS")[0].astype(float)
    for c in range(3):
        np.testing.assert_allclose(found[:, c], lanczos_1d(row[0, :, c].astype(float), n), atol=0.51)


def test_normalise_keeps_the_references_order_of_float32_steps() -> None:
    pixels = random_rgb(16, 12)
    mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    found = normalise(pixels, mean, std)
    assert found.shape == (3, 16, 12) and found.dtype == np.float32 and found.flags.c_contiguous
    for c in range(3):
        expected = (pixels[:, :, c].astype(np.float32) / np.float32(255) - np.float32(mean[c])) / np.float32(
            std[c]
        )
        np.testing.assert_array_equal(found[c], expected)


def test_colours_come_through_b055() -> None:
    red = load_image(np.full((64, 64, 3), (255, 0, 0), np.uint8))
    grid, overview = idefics3_tiles(red.pixels, 128, 32)
    for tile in (*grid.reshape(-1, 32, 32, 3), overview):
        back = np.round((normalise(tile, (0.5,) * 3, (0.5,) * 3) * 0.5 + 0.5) * 255)  # [3, h, w]
        assert [np.unique(channel).tolist() for channel in back] == [[255], [0], [0]]


def test_cut_is_row_major() -> None:
    pixels = random_rgb(6, 9)
    grid = cut(pixels, 3)
    assert grid.shape == (2, 3, 3, 3, 3)
    np.testing.assert_array_equal(grid[1, 2], pixels[3:6, 6:9])


# Idefics3


@pytest.mark.parametrize("tiling", GRIDS)
def test_idefics3_grids_are_the_peers_b045(tiling: str) -> None:
    longest, side = map(int, tiling.split("/"))
    for w, h, n_col, n_row in GRIDS[tiling]:
        _, refined = idefics3_sizes((w, h), longest, side)
        assert refined == (n_col * side, n_row * side), (w, h)


@pytest.mark.parametrize(
    ("size", "scaled", "refined"),
    [
        ((386, 386), (2048, 2048), (2048, 2048)),  # B046: enlarged whatever its size; 17 x 64 tokens
        ((512, 512), (2048, 2048), (2048, 2048)),
        ((2048, 512), (2048, 512), (2048, 512)),
        ((1224, 1584), (1582, 2048), (2048, 2048)),
        ((1920, 1080), (2048, 1152), (2048, 1536)),
        ((100, 50), (2048, 1024), (2048, 1024)),
        ((3000, 200), (2048, 136), (2048, 512)),
        ((1000, 999), (2048, 2046), (2048, 2048)),  # 2045 made even
        ((1, 50), (40, 2048), (512, 2048)),
        ((10000, 1), (2048, 1), (2048, 512)),  # never without pixels
        ((1, 10000), (1, 2048), (512, 2048)),
    ],
)
def test_idefics3_sizes_b045_b046(
    size: tuple[int, int], scaled: tuple[int, int], refined: tuple[int, int]
) -> None:
    assert idefics3_sizes(size, 2048, 512) == (scaled, refined)


def authors_sizes(w: int, h: int, longest: int, side: int) -> tuple[int, int]:
    """The second step as transformers takes it: the shorter side follows the longer, then is rounded up."""
    aspect = w / h
    if w >= h:
        w = ceil(w / side) * side
        return w, ceil(int(w / aspect) / side) * side
    h = ceil(h / side) * side
    return ceil(int(h * aspect) / side) * side, h


def test_authors_and_reference_agree_on_the_grid() -> None:
    rng = np.random.default_rng(0)
    for w, h in rng.integers(1, 4000, (2000, 2)).tolist():
        scaled, refined = idefics3_sizes((w, h), 2048, 512)
        if min(scaled) > 1:
            assert authors_sizes(*scaled, 2048, 512) == refined, (w, h)


@pytest.mark.parametrize("shape", [(50, 70), (70, 50), (1, 90), (3, 50), (64, 64), (300, 411)])
def test_idefics3_tiles_are_cut_from_the_twice_resized_picture_b045_b018(shape: tuple[int, int]) -> None:
    pixels = random_rgb(*shape)
    scaled, refined = idefics3_sizes((shape[1], shape[0]), 128, 32)
    whole = resampled(resampled(pixels, scaled, "LANCZOS"), refined, "LANCZOS")
    grid, overview = idefics3_tiles(pixels, 128, 32)
    n_row, n_col = grid.shape[:2]
    assert (n_col * 32, n_row * 32) == refined
    stitched = np.concatenate([np.concatenate(list(row), axis=1) for row in grid])
    np.testing.assert_array_equal(stitched, whole)
    np.testing.assert_array_equal(overview, resampled(whole, (32, 32), "LANCZOS"))


def test_the_embedded_model_sees_what_it_was_trained_on(training: ModuleType, samples: Path) -> None:
    pictures = sorted(p for p in samples.iterdir() if p.suffix in (".png", ".webp"))
    assert pictures
    for path in pictures:
        pixels = load_image(path).pixels
        grid, overview = idefics3_tiles(pixels, training.TILE, training.TILE)
        expected = training.tile_u8(Pil.fromarray(pixels))
        np.testing.assert_array_equal(grid[0, 0], expected)
        np.testing.assert_array_equal(overview, expected)
