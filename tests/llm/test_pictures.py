"""Rows of pictures between tokens: positions with axes, rows with levels, against the peer and by hand."""

from pathlib import Path

import numpy as np
import pytest

from llm import models
from llm.batch import Cuts
from llm.context import Context
from llm.gguf import GGUF
from llm.kernels import Kernels, reference
from llm.kernels.operands import F32
from llm.span import Span, media, tokens
from tests import tiny_mixed
from tests.peer import architectures
from tests.peer.architectures import BLOCKS, GOLDEN, GRIDS, IDS, LINES, N_KEPT, PROMPT, picture
from tests.tiny_architectures import CASES


def grid_span(grid: tuple[int, int], rows: F32, name: str = "qwen2vl") -> Span:
    """A picture as the model `name` sees it."""
    pos = architectures.positions(name, grid)
    return media(
        len(rows), lambda: rows, b"%d %d" % grid + rows.tobytes(), pos=pos, causal=name not in BLOCKS
    )


def prompt(c: Context, name: str) -> list[Span]:
    """PROMPT for the model `name` in `c`."""
    n = c.arch.n_embd * c.arch.n_level
    return [tokens(p) if isinstance(p, list) else grid_span(p, picture(p, n), name) for p in PROMPT]


def context(path: Path, k: Kernels = reference, n_ubatch: int = 512) -> Context:
    return Context(models.build(GGUF(path), k), n_ubatch=n_ubatch, kv_type="f32")


@pytest.fixture(scope="module", params=GRIDS + LINES + BLOCKS)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CASES[request.param](tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf")


def positions(spans: list[Span], n_ubatch: int = 512) -> list[list[int]]:
    """Time, height and width of all rows."""
    cuts, pieces = Cuts(spans, 0, 0), []
    while cuts.n_left:
        pieces += cuts.take(n_ubatch)
    axes: list[list[int]] = np.concatenate([p.pos(4) for p in pieces], axis=1)[:3].tolist()
    return axes


def blank(*grid: int) -> Span:
    return grid_span((grid[0], grid[1]), np.zeros((grid[0] * grid[1], 4), np.float32))


def test_a_picture_takes_up_the_longer_side_of_its_grid_b077() -> None:
    t, h, w = positions([tokens([1, 2, 3]), blank(2, 3), tokens([4, 5])])
    assert t == [0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7]
    assert h == [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7]
    assert w == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7]


def test_every_picture_has_its_grid_b078() -> None:
    text = tokens([7, 8])
    block_h, block_w = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]
    for n in (1, 2, 3):
        t, h, w = positions([text, *[s for _ in range(n) for s in (blank(3, 2), text)]])
        starts = [2 + 5 * i for i in range(n)]  # 3 positions of a picture and 2 of text
        assert t == [0, 1, *[p for s in starts for p in (*[s] * 6, s + 3, s + 4)]]
        assert h == [0, 1, *[p for s in starts for p in (*(s + y for y in block_h), s + 3, s + 4)]]
        assert w == [0, 1, *[p for s in starts for p in (*(s + x for x in block_w), s + 3, s + 4)]]


@pytest.mark.parametrize("n_ubatch", [1, 4, 7])
def test_cutting_keeps_positions_b079(n_ubatch: int) -> None:
    spans = [tokens([1, 2, 3]), blank(3, 4), tokens([4, 5])]
    assert positions(spans, n_ubatch) == positions(spans)


def test_logits_among_pictures_equal_the_peers(tiny: Path, kernels: Kernels) -> None:
    golden = np.load(GOLDEN)[f"{tiny.stem}-pictures"]
    c = context(tiny, kernels)
    *before, last = prompt(c, tiny.stem)
    c.prefill(before)
    logits = c.decode(last, "all")[-N_KEPT:]
    assert np.abs(logits - golden).max() < 1e-3 * np.abs(golden).max()


def test_a_prompt_in_passes_of_seven_is_the_same_b079(tiny: Path) -> None:
    """And so are the ten tokens that a greedy answer begins with."""
    answers = []
    for n_ubatch in (512, 7):
        c = context(tiny, n_ubatch=n_ubatch)
        logits = [c.prefill(prompt(c, tiny.stem))]
        for _ in range(10):
            logits.append(c.decode(tokens([int(logits[-1].argmax())])))
        answers.append(np.concatenate(logits))
    whole, cut = answers
    assert np.abs(whole - cut).max() < 1e-4 * np.abs(whole).max()
    assert whole.argmax(axis=1).tolist() == cut.argmax(axis=1).tolist()


@pytest.mark.parametrize("name", GRIDS)
def test_the_axes_of_a_picture_are_told_apart(name: str, tmp_path: Path) -> None:
    c = context(CASES[name](tmp_path / "m.gguf"))
    rows = picture((3, 2), c.arch.n_embd * c.arch.n_level)
    upright, flat = (
        c.prefill([tokens(IDS[:5]), grid_span(g, rows), tokens(IDS[:3])]) for g in ((3, 2), (2, 3))
    )
    assert np.abs(upright - flat).max() > 1e-3 * np.abs(flat).max()


def test_rows_of_a_block_see_each_other_where_there_is_a_window_b074(tmp_path: Path) -> None:
    """In Gemma 4's layers with a window the first row of a picture sees the last one, in the others not."""
    rows = picture((2, 3), 64)
    other = rows.copy()
    other[-1] += 1
    for window, same in ((True, False), (False, True)):
        path = tiny_mixed.gemma4(tmp_path / f"{window}.gguf", local=[window] * 3)
        kv = []
        for r in (rows, other):
            c = context(path)
            c.decode(grid_span((2, 3), r, "gemma4"), "none")
            kv.append(c._decoder.kv[-1].k[:, 0])
        assert np.array_equal(*kv) == same


@pytest.fixture(scope="module")
def qwen3vl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CASES["qwen3vl"](tmp_path_factory.mktemp("tiny") / "qwen3vl.gguf")


@pytest.mark.parametrize("n_ubatch", [512, 2])
def test_levels_of_a_row_enter_after_their_layers_b081(qwen3vl: Path, n_ubatch: int) -> None:
    c = context(qwen3vl, n_ubatch=n_ubatch)
    rows, steps = picture((2, 2), 3 * 64), []
    forward = c.arch.forward
    c.arch.forward = lambda x, step: steps.append((x.copy(), step)) or forward(x, step)  # type: ignore[method-assign]
    c.prefill([tokens([1, 2, 3]), grid_span((2, 2), rows), tokens([4])])
    x = np.concatenate([x for x, _ in steps])
    np.testing.assert_array_equal(x[3:7], rows[:, :64])
    for level in (1, 2):
        deep = [s.deep[level - 1] if s.deep else np.zeros((len(s.hi), 64), np.float32) for _, s in steps]
        own = np.concatenate(deep)
        np.testing.assert_array_equal(own[3:7], rows[:, 64 * level : 64 * (level + 1)])
        assert not own[:3].any() and not own[7:].any()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_matters_b081(qwen3vl: Path, level: int) -> None:
    rows = picture((2, 3), 3 * 64)
    less = rows.copy()
    less[:, 64 * level : 64 * (level + 1)] = 0
    a, b = (context(qwen3vl).prefill([grid_span((2, 3), r), tokens([5])]) for r in (rows, less))
    assert np.abs(a - b).max() > 1e-3 * np.abs(a).max()


def test_tokens_alone_have_one_level(qwen3vl: Path) -> None:
    c, steps = context(qwen3vl), []
    forward = c.arch.forward
    c.arch.forward = lambda x, step: steps.append(step) or forward(x, step)  # type: ignore[method-assign]
    c.decode(tokens(IDS))
    assert [len(s.deep) for s in steps] == [0]
