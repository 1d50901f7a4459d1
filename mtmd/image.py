"""The arithmetic of pictures: resampling, tilings, normalisation.

Sizes are (width, height), as people say them; arrays are [h, w, 3]. What gives a size is a function of sizes
alone, so that token counts are known before a pixel is touched.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Size = tuple[int, int]
Filter = Literal["BILINEAR", "BICUBIC", "LANCZOS"]


def resize(pixels: U8, size: Size, method: Filter) -> U8:
    """`pixels` resampled to (width, height) by Pillow, whose two fixed-point passes the models know.

    Kernels widen when shrinking; a side that keeps its length is not touched.
    """
    from PIL import Image  # only with the first picture: a text run does without Pillow

    if size == (pixels.shape[1], pixels.shape[0]):
        return pixels
    # Width first, said by two calls: Pillow 13 chooses the order itself, which changes the roundings
    wide = Image.fromarray(pixels).resize((size[0], len(pixels)), Image.Resampling[method])
    return np.asarray(wide.resize(size, Image.Resampling[method]))


def cut(pixels: U8, side: int) -> U8:
    """A picture of whole tiles as a grid of them: [h, w, 3] -> [n_row, n_col, side, side, 3]."""
    h, w, _ = pixels.shape
    return pixels.reshape(h // side, side, w // side, side, 3).swapaxes(1, 2)


def normalise(pixels: U8, mean: tuple[float, ...], std: tuple[float, ...]) -> F32:
    """(u8 / 255 - mean) / std in float32, in this order: [h, w, 3] -> [3, h, w]; from a table of 256."""
    levels = np.arange(256, dtype=np.float32)[:, None] / np.float32(255)
    table = (levels - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)  # [256, 3]
    return np.stack([np.take(table[:, c], pixels[:, :, c]) for c in range(3)])


# Idefics3, SmolVLM: transformers, image_processing_idefics3.py


def idefics3_sizes(size: Size, longest: int, side: int) -> tuple[Size, Size]:
    """Sizes of a picture of `size` after the two steps: scaled to the longest edge, stretched to whole tiles.

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


def idefics3_tiles(pixels: U8, longest: int, side: int) -> tuple[U8, U8]:
    """The grid [n_row, n_col, side, side, 3] and the overview [side, side, 3] of the stretched picture."""
    scaled, refined = idefics3_sizes((pixels.shape[1], pixels.shape[0]), longest, side)
    pixels = resize(resize(pixels, scaled, "LANCZOS"), refined, "LANCZOS")
    return cut(pixels, side), resize(pixels, (side, side), "LANCZOS")
