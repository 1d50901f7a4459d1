"""Every tiny projector of tests/mmproj: against the peer and the authors, and with media of any size."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mtmd
from llm import kernels
from llm.chat import MediaSlot
from llm.generate import generate
from llm.gguf import GGUF
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.sampling import Sampler
from llm.tokenizer import Tokenizer
from mtmd import projector, prompt
from mtmd.media import Audio, Image
from mtmd.pipeline import GREEDY
from mtmd.projector import Compat, Projector, Tile
from tests import rows as of_rows
from tests.conftest import ROOT
from tests.mmproj import CASES, base

GOLDEN = ROOT / "tests" / "golden"  # see tests/peer/projectors.py and tests/authors/projectors.py
AUTHORS = [path.stem for path in sorted((GOLDEN / "authors").glob("*.npz"))]
Golden = Mapping[str, NDArray[Any]]


def shown(names: Mapping[str, Any] | list[str]) -> list[tuple[str, str]]:
    """Each projector with each of its media."""
    return [(name, medium) for name in names for medium in CASES[name].MEDIA]


def golden(whose: Compat, name: str, medium: str) -> Golden:
    stored = np.load(GOLDEN / whose / f"{name}.npz")
    return {key.split("/")[1]: stored[key] for key in stored if key.startswith(f"{medium}/")}


def load(path: Path, k: Kernels, medium: str, compat: Compat = "peer") -> Projector[Any]:
    """The projector of a file that takes such media."""
    return projector.load(GGUF(path), k, compat)["image" if base.is_picture(medium) else "audio"]


def encode(p: Projector[Any], tiles: list[Tile]) -> F32:
    """Rows of all tiles, [n, n_embd], their number checked."""
    rows = [p.encode(t) for t in tiles]
    assert [r.shape for r in rows] == [(t.n_tok, p.n_embd) for t in tiles]
    return np.concatenate(rows)


@pytest.mark.parametrize("name, medium", shown(CASES))
def test_rows_and_layout_are_the_peers(name: str, medium: str, tmp_path: Path, reference: Kernels) -> None:
    expected = golden("peer", name, medium)
    p = load(CASES[name].make(tmp_path / "mmproj.gguf"), reference, medium)
    tiles = p.preprocess(base.medium(medium))
    tokenizer = Tokenizer.from_gguf(CASES[name].text(tmp_path / "text.gguf"))
    layout: list[int] = []
    for part in p.layout(tiles):
        layout += tokenizer.encode(part, parse_special=True) if isinstance(part, str) else [-part.n_tok]
    assert layout == expected["layout"].tolist()
    of_rows.check(encode(p, tiles), expected)


@pytest.mark.parametrize("name, medium", shown(CASES))
def test_answer_is_the_peers(name: str, medium: str, tmp_path: Path) -> None:
    text, mmproj = CASES[name].text(tmp_path / "text.gguf"), CASES[name].make(tmp_path / "mmproj.gguf")
    p = mtmd.load(text, mmproj, compat="peer", precision="exact")
    tokenizer, context = p.model.tokenizer, p.model.context
    pieces = [tokenizer.encode("hi "), MediaSlot(0), tokenizer.encode("what")]
    built = prompt.build(pieces, [base.medium(medium)], p.projectors, tokenizer, prompt.RowCache())
    expected = golden("peer", name, medium)["greedy"].tolist()
    ids = generate(context, context.prefill(built.spans), Sampler(GREEDY), (), len(expected))
    assert list(ids) == expected


@pytest.mark.parametrize("name, medium", shown(AUTHORS))
def test_rows_are_the_authors_b130(name: str, medium: str, tmp_path: Path, reference: Kernels) -> None:
    expected = golden("authors", name, medium)
    p = load(CASES[name].make(tmp_path / "mmproj.gguf"), reference, medium, "authors")
    tiles = p.preprocess(base.medium(medium))
    if "pixels" in expected:
        pixels = of_rows.sample(np.stack([t.x for t in tiles]))
        np.testing.assert_allclose(pixels, expected["pixels"], atol=1e-4)
    if "layout" in expected:
        assert joined(p, tiles) == json.loads(str(expected["layout"]))
    of_rows.check(encode(p, tiles), expected)


def joined(p: Projector[Any], tiles: list[Tile]) -> list[str | int]:
    """The layout with neighbouring texts as one, and -n for n rows on end."""
    parts: list[str | int] = []
    for part in p.layout(tiles):
        here = part if isinstance(part, str) else -part.n_tok
        match parts[-1:], here:
            case [str(before)], str():
                parts[-1] = before + here
            case [int(n)], int():
                parts[-1] = n + here
            case _:
                parts += [here] if here else []
    return parts


@pytest.mark.parametrize("kind, least", [("F32", 0.9999), ("F16", 0.9995), ("BF16", 0.999), ("Q8_0", 0.99)])
@pytest.mark.parametrize("name", CASES)
def test_fast_kernels_and_weight_formats_agree_b094(
    name: str, kind: str, least: float, tmp_path: Path, reference: Kernels
) -> None:
    what = CASES[name].MEDIA[0]
    rows = []
    for k, types in ((reference, {}), (kernels.load("fast"), {"*": kind})):
        p = load(CASES[name].make(tmp_path / "mmproj.gguf", types), k, what)
        rows.append(encode(p, p.preprocess(base.medium(what))))
    assert of_rows.least_cosine(rows[1], rows[0]) >= least


@pytest.mark.parametrize("compat", ["authors", "peer"])
@pytest.mark.parametrize("name", [n for n in CASES if any(map(base.is_picture, CASES[n].MEDIA))])
def test_picture_of_any_size_gives_the_rows_it_counts_b043_b047(
    name: str, compat: Compat, tmp_path: Path, reference: Kernels
) -> None:
    p = load(CASES[name].make(tmp_path / "mmproj.gguf"), reference, "1x1", compat)
    for size in ((1, 1), (1, 3000), (4000, 10), (31, 33), (386, 386)):
        tiles = p.preprocess(Image(base.picture(*size)))
        assert sorted(map(id, tiles)) == sorted(id(t) for t in p.layout(tiles) if not isinstance(t, str))
        assert np.isfinite(encode(p, tiles)).all()


@pytest.mark.parametrize("compat", ["authors", "peer"])
@pytest.mark.parametrize("name", [n for n in CASES if not all(map(base.is_picture, CASES[n].MEDIA))])
def test_clip_of_any_length_gives_the_rows_it_counts_b126_b127(
    name: str, compat: Compat, tmp_path: Path, reference: Kernels
) -> None:
    p = load(CASES[name].make(tmp_path / "mmproj.gguf"), reference, "1.0", compat)
    for n_sample in (1, 2, 159, 160, 161, 399, 400, 401, 16000, 480_001):
        samples = np.resize(base.clip(1.0).samples, n_sample)
        assert np.isfinite(encode(p, p.preprocess(Audio(samples, 16000)))).all()
