"""The arithmetic of pictures: resampling, tilings, normalisation.

Sizes are (width, height), as people say them; arrays are [h, w, 3]. What gives a size is a function of sizes
alone, so that token counts are known before a pixel is touched.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Size = tuple[int, int]
Filter = Literal["BILINEAR", "BICUBIC", "LANCZOS"]


@dataclass(frozen=True, eq=False)
class Tile:
    """One rectangle for the encoder: its place in the grid, or the overview of the whole picture."""

    pixels: U8  # [h, w, 3]
    row: int = 0
    col: int = 0
    overview: bool = False


def resize(pixels: U8, size: Size, method: Filter) -> U8:
    """`pixels` resampled to (width, height) by Pillow, whose two fixed-point passes the models know.

    Kernels widen when shrinking; a side that keeps its length is not touched.
    """
    from PIL import Image  # only with the first picture: a text run does without Pillow

    w, h = size
    if (w, h) == (pixels.shape[1], pixels.shape[0]):
        return pixels
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling[method]))


def grid(pixels: U8, side: int) -> list[Tile]:
    """A picture of whole tiles cut into squares of `side`, row by row."""
    h, w, _ = pixels.shape
    assert h % side == 0 and w % side == 0, (w, h, side)
    return [
        Tile(pixels[y : y + side, x : x + side], y // side, x // side)
        for y in range(0, h, side)
        for x in range(0, w, side)
    ]


def normalise(pixels: U8, mean: tuple[float, ...], std: tuple[float, ...]) -> F32:
    """(u8 / 255 - mean) / std in float32, in this order: [h, w, 3] -> [3, h, w]; from a table of 256."""
    levels = np.arange(256, dtype=np.float32)[:, None] / np.float32(255)
    table = (levels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)  # [256, 3]
    return np.stack([np.take(table[:, c], pixels[:, :, c]) for c in range(3)])


# Idefics3, SmolVLM (https://huggingface.co/HuggingFaceM4/Idefics3-8B-Llama3, image processor)


def idefics3_sizes(size: Size, side: int, longest: int) -> tuple[Size, Size]:
    """Sizes after the two steps for a picture of `size`: longest edge, then stretched to whole tiles.

    The shorter edge is cut to an integer and made even before the tiles are counted.
    """
    w, h = size
    aspect = w / h
    if w >= h:
        short = int(longest / aspect)
        scaled = longest, max(1, short + short % 2)
    else:
        short = int(longest * aspect)
        scaled = max(1, short + short % 2), longest
    return scaled, (-(-scaled[0] // side) * side, -(-scaled[1] // side) * side)


def idefics3_tiles(pixels: U8, side: int, longest: int) -> list[Tile]:
    """The tiles of a picture, row by row, and last the overview, which is made from the stretched picture."""
    scaled, refined = idefics3_sizes((pixels.shape[1], pixels.shape[0]), side, longest)
    pixels = resize(resize(pixels, scaled, "LANCZOS"), refined, "LANCZOS")
    return [*grid(pixels, side), Tile(resize(pixels, (side, side), "LANCZOS"), overview=True)]
