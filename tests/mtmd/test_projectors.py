"""Every projector on a tiny random file: against the peer, in every weight format, and when it is wrong."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from llm.errors import ModelError
from llm.gguf import GGUF
from llm.kernels import Kernels
from llm.kernels.operands import F32
from llm.tokenizer import Tokenizer
from mtmd import projector
from mtmd.media import Audio, Image
from mtmd.projector import Compat, Projector, Tile
from tests import tiny_mmproj as tiny
from tests.conftest import ROOT

GOLDEN = np.load(ROOT / "tests" / "golden" / "projectors.npz")  # see tests/peer/projectors.py
AUTHORS = np.load(ROOT / "tests" / "golden" / "authors.npz")  # see tests/authors/projectors.py
CASES = [key.removesuffix("/rows") for key in GOLDEN if key.endswith("/rows")]
MAKERS: dict[str, Callable[..., Path]] = {
    "idefics3": tiny.idefics3,
    "qwen3a": tiny.qwen3a,
    "ultravox": tiny.ultravox,
}


def clip(seconds: float) -> Audio:
    return Audio((tiny.sound(seconds) / np.float32(32768)).astype(np.float32), 16000)


def medium(name: str) -> Image | Audio:
    """The picture "100x60" or the clip "3.3"."""
    if "x" in name:
        w, h = map(int, name.split("x"))
        return Image(tiny.picture(w, h))
    return clip(float(name))


def load(path: Path, k: Kernels, compat: Compat = "peer") -> Projector:
    (loaded,) = projector.load(GGUF(path), k, compat).values()
    return loaded


def encode(p: Projector, tiles: list[Tile]) -> F32:
    """Rows of all tiles, [n, n_embd], their number checked."""
    rows = [p.encode(t) for t in tiles]
    assert [r.shape for r in rows] == [(t.n_tok, p.n_embd) for t in tiles]
    return np.concatenate(rows)


def least_cosine(a: F32, b: F32) -> float:
    """Of the rows, and of their differences from the mean row: what they have in common proves little."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    rows = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    a, b = (a - b.mean(0)).ravel(), (b - b.mean(0)).ravel()
    return min(rows.min(), float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))


@pytest.mark.parametrize("case", CASES)
def test_rows_are_the_peers(case: str, tmp_path: Path, kernels: Kernels) -> None:
    name, what = case.split("/")
    p = load(MAKERS[name](tmp_path / "mmproj.gguf"), kernels)
    rows = encode(p, p.preprocess(medium(what)))
    golden = GOLDEN[f"{case}/rows"]
    assert rows.shape == golden.shape
    assert least_cosine(rows, golden) >= 0.9999


@pytest.mark.parametrize("case", list(AUTHORS))
def test_rows_are_the_authors_b130(case: str, tmp_path: Path, reference: Kernels) -> None:
    name, what = case.split("/")
    p = load(MAKERS[name](tmp_path / "mmproj.gguf"), reference, "authors")
    rows = encode(p, p.preprocess(medium(what)))
    assert rows.shape == AUTHORS[case].shape
    assert least_cosine(rows, AUTHORS[case]) >= 0.9999


@pytest.mark.parametrize("case", CASES)
def test_layout_is_the_peers(case: str, tmp_path: Path, reference: Kernels) -> None:
    name, what = case.split("/")
    p = load(MAKERS[name](tmp_path / "mmproj.gguf"), reference)
    tokenizer = Tokenizer.from_gguf(tiny.text(tmp_path / "text.gguf"))
    layout: list[int] = []
    for part in p.layout(p.preprocess(medium(what))):
        layout += tokenizer.encode(part, parse_special=True) if isinstance(part, str) else [-part.n_tok]
    assert layout == GOLDEN[f"{case}/layout"].tolist()


@pytest.mark.parametrize("compat", ["authors", "peer"])
@pytest.mark.parametrize("size", [(1, 1), (3, 700), (700, 3), (31, 33), (64, 128), (386, 386), (1084, 820)])
def test_picture_gives_the_rows_it_counts_b043_b047(
    size: tuple[int, int], compat: Compat, tmp_path: Path, reference: Kernels
) -> None:
    p = load(tiny.idefics3(tmp_path / "mmproj.gguf"), reference, compat)
    tiles = p.preprocess(Image(tiny.picture(*size)))
    assert np.isfinite(encode(p, tiles)).all()
    places = [(t.row, t.col) for t in tiles]
    n_row, n_col = max(places)
    assert places == [(r, c) for r in range(1, n_row + 1) for c in range(1, n_col + 1)] + [(0, 0)]


@pytest.mark.parametrize("name", ["qwen3a", "ultravox"])
@pytest.mark.parametrize("compat", ["authors", "peer"])
@pytest.mark.parametrize("n_sample", [1, 2, 159, 160, 161, 399, 400, 401, 16000, 480_001])
def test_clip_gives_the_rows_it_counts_b126_b127(
    n_sample: int, name: str, compat: Compat, tmp_path: Path, reference: Kernels
) -> None:
    p = load(MAKERS[name](tmp_path / "mmproj.gguf"), reference, compat)
    samples = np.resize(clip(1.0).samples, n_sample)
    assert np.isfinite(encode(p, p.preprocess(Audio(samples, 16000)))).all()


@pytest.mark.parametrize(
    "name, seconds, n_tok",
    [
        ("qwen3a", 0.5, [7]),  # 50 frames, a row for each 8
        ("qwen3a", 3.3, [43]),
        ("qwen3a", 31.0, [104, 104, 104, 91]),
        ("ultravox", 0.5, [4]),  # 50 frames, a row for each 16
        ("ultravox", 3.3, [21]),
        ("ultravox", 31.0, [188, 7]),
    ],
)
def test_authors_keep_only_rows_of_sound(
    name: str, seconds: float, n_tok: list[int], tmp_path: Path, reference: Kernels
) -> None:
    p = load(MAKERS[name](tmp_path / "mmproj.gguf"), reference, "authors")
    assert [t.n_tok for t in p.preprocess(clip(seconds))] == n_tok


def test_clip_of_any_rate_is_resampled(tmp_path: Path, reference: Kernels) -> None:
    p = load(tiny.qwen3a(tmp_path / "mmproj.gguf"), reference, "authors")
    samples = np.zeros(44100, np.float32)
    assert [t.n_tok for t in p.preprocess(Audio(samples, 44100))] == [13]


@pytest.mark.parametrize("kind, least", [("F16", 0.9995), ("BF16", 0.999), ("Q8_0", 0.99)])
@pytest.mark.parametrize("name", MAKERS)
def test_weight_formats_agree_b094(
    name: str, kind: str, least: float, tmp_path: Path, kernels: Kernels
) -> None:
    what = medium("100x60" if name == "idefics3" else "3.3")
    rows = []
    for types in ({}, {"*": kind}):
        p = load(MAKERS[name](tmp_path / "mmproj.gguf", types), kernels)
        rows.append(encode(p, p.preprocess(what)))
    assert least_cosine(rows[1], rows[0]) >= least


def test_mixed_formats_load_b095(tmp_path: Path, kernels: Kernels) -> None:
    types = {"v.blk.0.*": "Q8_0", "v.blk.1.*": "Q5_1", "v.patch_embd*": "F16", "mm.*": "BF16"}
    p = load(tiny.idefics3(tmp_path / "mmproj.gguf", types, n_embd=64, n_head=4), kernels)
    assert {t.type_name for t in GGUF(tmp_path / "mmproj.gguf").tensors.values()} == {
        "F32",
        "F16",
        "BF16",
        "Q8_0",
        "Q5_1",
    }
    assert np.isfinite(encode(p, p.preprocess(medium("40x150")))).all()


def test_registry_finds_all_and_each_explains_itself() -> None:
    assert projector.registry().keys() >= MAKERS.keys()
    for entry in projector.registry().values():
        module = __import__(entry.cls.__module__, fromlist=["x"])
        assert "Source:" in module.__doc__, module


def test_a_name_is_taken_once() -> None:
    taken = projector.registry()["idefics3"]
    with pytest.raises(AssertionError, match="idefics3"):
        projector.register("idefics3", taken.hparams)(taken.cls)


def test_text_model_as_mmproj_gives_a_hint_b093(tmp_path: Path, reference: Kernels) -> None:
    with pytest.raises(ModelError, match=r"text\.gguf is a text model .* pass it with -m"):
        load(tiny.text(tmp_path / "text.gguf"), reference)


def test_unknown_type_lists_the_known(tmp_path: Path, reference: Kernels) -> None:
    path = tiny.idefics3(tmp_path / "mmproj.gguf", meta={"clip.projector_type": "idefics9"})
    with pytest.raises(
        ModelError, match=r"'idefics9' is not supported for image input; supported are .*idefics3"
    ):
        load(path, reference)


def test_missing_key_is_named(tmp_path: Path, reference: Kernels) -> None:
    path = tiny.idefics3(tmp_path / "mmproj.gguf", without=["clip.vision.patch_size"])
    with pytest.raises(ModelError, match=r"mmproj\.gguf.*clip\.vision\.patch_size is missing"):
        load(path, reference)


def test_missing_tensor_is_named(tmp_path: Path, reference: Kernels) -> None:
    path = tiny.qwen3a(tmp_path / "mmproj.gguf", without=["a.conv2d.2.weight"])
    with pytest.raises(ModelError, match=r"a\.conv2d\.2\.weight is missing"):
        load(path, reference)


def test_unread_tensor_is_an_error(tmp_path: Path, reference: Kernels) -> None:
    path = tiny.idefics3(tmp_path / "mmproj.gguf", tensors={"v.blk.0.ls1.weight": np.ones(48, np.float32)})
    with pytest.raises(ModelError, match=r"v\.blk\.0\.ls1\.weight"):
        load(path, reference)


def test_file_with_two_towers_loads_both(samples: Path, reference: Kernels) -> None:
    loaded = projector.load(GGUF(samples / "scenes-mmproj.gguf"), reference)
    assert loaded.keys() == {"image", "audio"}
