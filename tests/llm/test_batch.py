import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.batch import Cuts, Piece
from llm.span import Span, media, tokens


def cut(spans: list[Span], n_max: int, row: int, pos: int) -> list[list[Piece]]:
    """All passes."""
    cuts, passes = Cuts(spans, row, pos), []
    while cuts.n_left:
        passes.append(cuts.take(n_max))
    return passes


def block(n_tok: int, causal: bool = False) -> Span:
    return media(n_tok, lambda: np.zeros((n_tok, 4), np.float32), b"x", causal=causal)


def test_rows_of_a_block_see_what_is_cached_and_the_whole_block_b073() -> None:
    (image,), (text,) = cut([block(4), tokens([1])], 4, row=3, pos=3)
    assert image.hi().tolist() == [7, 7, 7, 7]
    assert text.hi().tolist() == [8]


def test_a_pass_grows_to_hold_a_block_b071() -> None:
    passes = [
        [p.n_tok for p in pieces] for pieces in cut([tokens([1, 2, 3]), block(9), tokens([4] * 5)], 4, 0, 0)
    ]
    assert passes == [[3], [9], [4], [1]]


def test_spans_share_passes_b150() -> None:
    """A picture of 3 x 3 tiles of 80 rows, with text between them, in the fewest passes there are."""
    spans = [span for _ in range(9) for span in (tokens([1, 2]), block(80, causal=True))]
    assert len(list(cut(spans, 512, 0, 0))) == 2


def test_positions_go_on_after_a_medium_b079() -> None:
    grid = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]], np.int32)
    image = media(4, lambda: np.zeros((4, 4), np.float32), b"x", pos=grid, n_pos=2)
    whole = [list(cut([tokens([1, 2]), image, tokens([3, 4])], n, 10, 5)) for n in (3, 99)]
    for passes in whole:
        pos = np.concatenate([p.pos(3) for pieces in passes for p in pieces], axis=1)
        assert pos.tolist() == [
            [5, 6, 7, 7, 7, 7, 9, 10],
            [5, 6, 7, 7, 8, 8, 9, 10],
            [5, 6, 7, 8, 7, 8, 9, 10],
        ]


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from(["text", "causal", "block"])), min_size=1, max_size=8
    ),
    st.integers(1, 12),
)
def test_every_row_once_and_in_order(shapes: list[tuple[int, str]], n_max: int) -> None:
    spans = [tokens(range(n)) if kind == "text" else block(n, kind == "causal") for n, kind in shapes]
    row = 2
    for pieces in cut(spans, n_max, row, 7):
        n_tok = sum(p.n_tok for p in pieces)
        assert 0 < n_tok <= n_max or (len(pieces) == 1 and not pieces[0].span.causal)
        for p in pieces:
            assert p.row == row and p.base == 7 + p.row - 2 - p.start
            assert p.span.causal or p.n_tok == p.span.n_tok
            assert (p.hi() > np.arange(row, row + p.n_tok)).all()
            row += p.n_tok
    assert row == 2 + sum(n for n, _ in shapes)


@pytest.mark.parametrize("n", [0, 3])
def test_tokens(n: int) -> None:
    span = tokens(list(range(n)))
    assert (span.n_tok, span.n_pos, span.rows) == (n, n, None)
