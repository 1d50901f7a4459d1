"""Targets for training the vision encoder, taken from the facts of a scene: per patch and per image token."""

import math
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw

import scenes
import words
from scenes import Object, Scene

CLASSES = ["none", *scenes.SHAPES, *words.CHARS]  # classes of the patch labels
SLOT_CHARS = ["", *words.CHARS, " "]  # classes of the slot labels
SLOTS = 10  # the slot labels cover this many characters of a text
IGNORE = 255
GRID = 12  # patches along one side of a tile
MERGE = 3  # patches along one side of an image token


def char_centers(o: Object, scene: Scene) -> Iterator[tuple[str, float, float]]:
    """(character, x, y) of every character of a text object, in fractions of the picture."""
    text = o["text"]
    tilt = math.sin(math.radians(o["angle"])) * scene["w"] / scene["h"]
    for k, ch in enumerate(text):
        mid = (k + 0.5) / len(text) - 0.5
        yield ch, o["x"] + mid * o["w"], o["y"] - mid * o["w"] * tilt


def _index(v: float, n: int) -> int:
    """Row or column of a fraction of the picture in a grid of n."""
    return min(n - 1, max(0, int(v * n)))


def patch_labels(scene: Scene, grid: int = GRID) -> np.ndarray:
    """Per-patch ids of class, colour, size (1-3), 3x3 cell of the centre (1-9) and place in the text (1-9).

    uint8 [5, grid, grid]; 0 means "nothing here", IGNORE "not to be learned".  A shape marks every patch
    that it covers, a character only the patch that holds its centre.
    """
    sub = 4
    ids = Image.new("L", (grid * sub, grid * sub), 0)
    draw = ImageDraw.Draw(ids)
    for i, o in enumerate(scene["objects"]):
        if o["kind"] == "shape":
            pts = scenes.outline(o, scene["w"], scene["h"])
            draw.polygon(
                [(x / scene["w"] * grid * sub - 0.5, y / scene["h"] * grid * sub - 0.5) for x, y in pts],
                fill=i + 1,
            )
    a = np.asarray(ids).reshape(grid, sub, grid, sub).transpose(0, 2, 1, 3).reshape(grid, grid, sub * sub)
    out = np.zeros((5, grid, grid), np.uint8)
    cls, col, size, where, order = out
    for i, o in enumerate(scene["objects"]):
        if o["kind"] == "shape":
            share = (a == i + 1).sum(-1)
            on = share >= 5
            cls[on] = CLASSES.index(o["shape"])
            col[on] = 1 + scenes.COLOR_NAMES.index(o["color"])
            size[on] = 1 + list(scenes.SIZES).index(o["size"])
            where[on] = 1 + scenes.cell(o["x"], o["y"])[1] * 3 + scenes.cell(o["x"], o["y"])[0]
            maybe = (share > 0) & ~on
            cls[maybe] = IGNORE
            col[maybe] = IGNORE
        else:
            x0, x1 = (o["x"] - o["w"] / 2) * grid, (o["x"] + o["w"] / 2) * grid
            y0, y1 = (o["y"] - o["h"] / 2) * grid, (o["y"] + o["h"] / 2) * grid
            col[max(0, int(y0)) : min(grid, int(y1) + 1), max(0, int(x0)) : min(grid, int(x1) + 1)] = IGNORE
            seen = set()
            for k, (ch, x, y) in enumerate(char_centers(o, scene)):
                if ch == " ":
                    continue
                key = _index(y, grid), _index(x, grid)
                cls[key] = IGNORE if key in seen else CLASSES.index(ch)
                order[key] = IGNORE if key in seen else 1 + k
                col[key] = 1 + scenes.COLOR_NAMES.index(o["color"])
                seen.add(key)
    return out


def slot_labels(scene: Scene, grid: int = GRID, merge: int = MERGE) -> np.ndarray:
    """Which character number k of a text has its centre in the area of an image token: uint8 [n_tok, SLOTS].

    Indices into SLOT_CHARS; 0 means "not here", IGNORE that two texts want the same slot.
    """
    n = grid // merge
    out = np.zeros((n * n, SLOTS), np.uint8)
    for o in scene["objects"]:
        if o["kind"] == "text":
            for k, (ch, x, y) in enumerate(char_centers(o, scene)):
                at = _index(y, n) * n + _index(x, n)
                out[at, k] = IGNORE if out[at, k] else SLOT_CHARS.index(ch)
    return out


def center_labels(scene: Scene, grid: int = GRID) -> np.ndarray:
    """1 in the patches that hold the centre of a shape: float32 [grid, grid]."""
    out = np.zeros((grid, grid), np.float32)
    for o in scene["objects"]:
        if o["kind"] == "shape":
            out[int(o["y"] * grid), int(o["x"] * grid)] = 1
    return out
