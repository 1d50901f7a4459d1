"""The context: what it keeps, what it computes anew, what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from llm import models
from llm.cache import KvType, Step, new_cache
from llm.context import Context
from llm.errors import ContextError, NonFiniteError, UsageError
from llm.gguf import GGUF
from llm.kernels import Kernels, fast, reference
from llm.kernels.operands import F32
from llm.span import Span, media, tokens
from tests.tiny import make_text_gguf

TEXT = [1, 2, 3, 40, 50, 60, 7, 8]


class Picture:
    """Rows of one colour, which count how often they are asked for."""

    def __init__(self, n_tok: int, colour: float, causal: bool = True) -> None:
        self.n_tok, self.colour, self.causal, self.n_encoded = n_tok, colour, causal, 0

    def encode(self) -> F32:
        self.n_encoded += 1
        rows = np.random.default_rng(int(self.colour * 100)).standard_normal((self.n_tok, 64))
        return rows.astype(np.float32)

    @property
    def span(self) -> Span:
        return media(self.n_tok, self.encode, b"picture %f" % self.colour, causal=self.causal)


class Spy:
    """Wraps a model; notes the steps that go through it."""

    def __init__(self, path: Path) -> None:
        self._arch = models.build(GGUF(path), reference)
        self.k, self.n_axis, self.n_level = reference, 1, 1
        self.n_ctx_train, self.kv_shapes = self._arch.n_ctx_train, self._arch.kv_shapes
        self.hp, self.n_embd, self.n_vocab = self._arch.hp, self._arch.n_embd, self._arch.n_vocab
        self.embed, self.logits = self._arch.embed, self._arch.logits
        self.steps: list[Step] = []

    def forward(self, x: F32, step: Step) -> F32:
        self.steps.append(step)
        return self._arch.forward(x, step)

    def n_rows(self) -> list[int]:
        """Rows of each step since the last call."""
        rows = [len(step.hi) for step in self.steps]
        self.steps.clear()
        return rows


@pytest.fixture(params=["tiny_llama", "tiny_gemma3"])
def spy(request: pytest.FixtureRequest) -> Spy:
    return Spy(request.getfixturevalue(request.param))


def fresh(spy: Spy, spans: list[Span], n_ubatch: int = 512) -> F32:
    return Context(spy, n_ubatch=n_ubatch, kv_type="f32").prefill(spans)


def same(a: F32, b: F32) -> bool:
    return float(np.abs(a - b).max()) < 1e-4 * float(np.abs(b).max())


def test_only_what_differs_is_computed(spy: Spy) -> None:
    c = Context(spy, kv_type="f32")
    c.prefill([tokens(TEXT)])
    spy.n_rows()
    longer = c.prefill([tokens([*TEXT, 9, 10])])
    assert spy.n_rows() == [2] and c.n_rows == 10
    other = c.prefill([tokens([*TEXT[:5], 99])])
    assert spy.n_rows() == [1] and c.n_rows == 6
    assert same(longer, fresh(spy, [tokens([*TEXT, 9, 10])]))
    assert same(other, fresh(spy, [tokens([*TEXT[:5], 99])]))


def test_the_same_prompt_again_computes_its_last_token(spy: Spy) -> None:
    c = Context(spy, kv_type="f32")
    first = c.prefill([tokens(TEXT)])
    spy.n_rows()
    assert c.reusable([tokens(TEXT)]) == len(TEXT) - 1
    assert same(c.prefill([tokens(TEXT)]), first)
    assert spy.n_rows() == [1] and c.n_rows == len(TEXT)


def test_a_question_about_the_same_picture_encodes_nothing_b065(spy: Spy) -> None:
    picture, c = Picture(6, 0.5), Context(spy, kv_type="f32")
    c.prefill([tokens([1, 2]), picture.span, tokens([3])])
    spy.n_rows()
    spans = [tokens([1, 2]), picture.span, tokens([3, 4, 5])]
    assert c.reusable(spans) == 9
    logits = c.prefill(spans)
    assert (picture.n_encoded, spy.n_rows()) == (1, [2])
    assert same(logits, fresh(spy, spans))


def test_no_picture_is_taken_for_another_b063(spy: Spy) -> None:
    c = Context(spy, kv_type="f32")
    for colour in (0.1, 0.2, 0.3, 0.4):
        spans = [tokens([1, 2]), Picture(6, colour).span, tokens([3])]
        assert same(c.prefill(spans), fresh(spy, spans))


@pytest.mark.parametrize("n_ubatch", [4, 7])
def test_pictures_in_passes_of_any_size_b071(spy: Spy, n_ubatch: int) -> None:
    spans = [
        tokens(TEXT),
        Picture(13, 0.3, causal=False).span,
        tokens([5, 6]),
        Picture(9, 0.7).span,
        tokens([4]),
    ]
    assert same(fresh(spy, spans, n_ubatch), fresh(spy, spans))


def test_a_cut_picture_is_encoded_once(spy: Spy) -> None:
    picture = Picture(13, 0.3)
    fresh(spy, [tokens([1]), picture.span, tokens([2])], n_ubatch=4)
    assert picture.n_encoded == 1


def test_rows_of_a_medium_are_not_written_to(spy: Spy) -> None:
    rows = Picture(5, 0.2).encode()
    kept = rows.copy()
    fresh(spy, [media(5, lambda: rows, b"x")])
    np.testing.assert_array_equal(rows, kept)


def test_tiles_go_in_few_passes_b150(spy: Spy) -> None:
    spans = [s for i in range(9) for s in (tokens([1, 2]), Picture(8, i / 10).span)]
    Context(spy, n_ubatch=64).prefill(spans)
    assert spy.n_rows() == [64, 26]


def test_decoding_after_a_large_picture_is_as_before_b069(spy: Spy) -> None:
    c = Context(spy)
    c.prefill([tokens([1]), Picture(200, 0.5).span])
    c.prefill([tokens([1, 2, 3])])
    spy.steps.clear()
    c.decode(tokens([4]))
    assert spy.steps[0].hi.tolist() == [4]


def test_truncate_and_go_on(spy: Spy) -> None:
    c = Context(spy, kv_type="f32")
    c.decode(tokens(TEXT), "none")
    c.truncate(5)
    assert c.n_rows == 5
    assert same(c.decode(tokens([9])), fresh(spy, [tokens([*TEXT[:5], 9])]))


def test_truncating_inside_a_medium_takes_all_of_it(spy: Spy) -> None:
    c = Context(spy)
    c.prefill([tokens([1, 2]), Picture(6, 0.5).span, tokens([3])])
    c.truncate(5)
    assert c.n_rows == 2


def test_a_prompt_too_long_is_refused_before_anything_is_encoded_b083(spy: Spy) -> None:
    pictures = [Picture(100, i / 10) for i in range(3)]
    c = Context(spy, n_ctx=256)
    with pytest.raises(ContextError, match=r"takes 302 rows and the context holds 256") as e:
        c.prefill([tokens([1]), *(p.span for p in pictures), tokens([2])])
    assert (e.value.n_prompt, e.value.n_ctx) == (302, 256)
    assert sum(p.n_encoded for p in pictures) == 0


def test_a_full_context_refuses_one_more_b087(spy: Spy) -> None:
    c = Context(spy, n_ctx=8)
    c.decode(tokens(TEXT))
    with pytest.raises(ContextError, match="takes 9 rows and the context holds 8"):
        c.decode(tokens([1]))


def test_what_is_wanted(spy: Spy) -> None:
    c = Context(spy, n_ubatch=3)
    assert c.decode(tokens(TEXT), "all").shape == (8, spy.n_vocab)
    assert c.decode(tokens(TEXT), "none").shape == (0, spy.n_vocab)
    assert c.decode(tokens(TEXT)).shape == (1, spy.n_vocab)


def test_progress_ends_at_the_total(spy: Spy) -> None:
    seen: list[tuple[int, int]] = []
    Context(spy, n_ubatch=3).prefill([tokens(TEXT)], lambda done, total: seen.append((done, total)))
    assert seen == [(3, 8), (6, 8), (8, 8)]


def test_an_encoder_that_fails_leaves_the_context_usable(spy: Spy) -> None:
    def broken() -> F32:
        raise KeyboardInterrupt

    c = Context(spy, n_ubatch=4, kv_type="f32")
    with pytest.raises(KeyboardInterrupt):
        c.prefill([tokens(TEXT), media(3, broken, b"x")])
    assert c.n_rows in (4, 8)
    assert same(c.prefill([tokens([*TEXT, 9])]), fresh(spy, [tokens([*TEXT, 9])]))


def test_positions_after_a_medium_go_on_from_its_end_b079(spy: Spy) -> None:
    rows = Picture(4, 0.5).encode()
    pos = np.array([[0, 0, 0, 0]], np.int32)
    spans = [tokens([1, 2]), media(4, lambda: rows, b"x", pos=pos, n_pos=2), tokens([3, 4, 5])]
    c = Context(spy)
    c.prefill(spans)
    c.decode(tokens([6]))
    assert [step.pos.tolist() for step in spy.steps] == [[[0, 1, 2, 2, 2, 2, 4, 5, 6]], [[7]]]
    assert same(fresh(spy, spans, 4), fresh(spy, spans))


def test_default_size_is_as_trained_but_bounded(tmp_path: Path) -> None:
    assert Context(Spy(make_text_gguf(tmp_path / "a.gguf", n_ctx=100))).n_ctx == 100
    assert Context(Spy(make_text_gguf(tmp_path / "b.gguf", n_ctx=1 << 20))).n_ctx == 32768


@pytest.mark.parametrize(
    ("tensor", "place"), [("blk.1.attn_k.weight", "layer 1"), ("output_norm.weight", "after the keys")]
)
def test_not_a_number_names_the_place_b082(tmp_path: Path, tensor: str, place: str) -> None:
    shape = (64,) if "norm" in tensor else (32, 64)
    bad = np.full(shape, np.nan, np.float32)
    c = Context(Spy(make_text_gguf(tmp_path / "m.gguf", tensors={tensor: bad})))
    with pytest.raises(NonFiniteError, match=place):
        c.decode(tokens(TEXT))
    assert c.n_rows == 0


@pytest.mark.parametrize("kind", ["bf16", "q8_0"])
@pytest.mark.parametrize("k", [reference, fast], ids=["reference", "fast"])
def test_packed_keys_and_values_give_almost_the_same(tmp_path: Path, kind: KvType, k: Kernels) -> None:
    arch = models.build(GGUF(make_text_gguf(tmp_path / "m.gguf", d_head=32)), k)
    ids = np.random.default_rng(0).integers(3, 90, 40)
    want = Context(arch, kv_type="f16").decode(tokens(ids), "all")
    c = Context(arch, kv_type=kind)
    got = np.concatenate([c.decode(tokens(ids[:30]), "all"), *(c.decode(tokens([i])) for i in ids[30:])])
    assert not np.array_equal(got, want)
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()
    assert np.mean(got.argmax(axis=1) == want.argmax(axis=1)) >= 0.95


def test_q8_0_takes_half_the_memory_of_f16() -> None:
    def n_bytes(kind: KvType) -> int:
        return sum(kv.k.nbytes + kv.v.nbytes for kv in new_cache([(2, 64)] * 3, 100, kind))

    assert n_bytes("q8_0") * 32 == n_bytes("f16") * 17
    assert n_bytes("bf16") == n_bytes("f16") == n_bytes("f32") / 2


def test_heads_that_q8_0_cannot_hold_are_refused(spy: Spy) -> None:
    with pytest.raises(UsageError, match="multiples of 32, heads of this model have 16 numbers"):
        Context(spy, kv_type="q8_0")


def test_states_of_convolutions_are_never_in_q8_0() -> None:
    kv = new_cache([48, (2, 32)], 10, "q8_0")
    assert kv[0].k.shape == (1, 10, 48) and kv[0].k.dtype == np.float16 and not kv[0].v.nbytes


@pytest.mark.parametrize("k", [reference, fast], ids=["reference", "fast"])
def test_dropping_a_middle_leaves_the_rest_where_it_was(tmp_path: Path, k: Kernels) -> None:
    """In a model of one layer, keys and values depend on their own tokens alone: that is the oracle."""
    arch = models.build(GGUF(make_text_gguf(tmp_path / "m.gguf", n_layer=1)), k)
    c, ids = Context(arch, kv_type="f32"), np.arange(3, 15, dtype=np.int32)
    c.decode(tokens(ids), "none")
    c.drop(2, 7)
    assert c.n_rows == 7
    got = c.decode(tokens([20]))
    rest = np.append(ids[7:], np.int32(20))
    fresh = Context(arch, kv_type="f32")
    fresh.decode(tokens(ids[:2]), "none")
    pos = np.arange(5, 11, dtype=np.int32)[None]
    want = fresh.decode(media(6, lambda: arch.embed(rest), b"x", pos=pos))
    assert same(got, want)


def test_rows_after_what_was_dropped_are_not_found_again(spy: Spy) -> None:
    """They have seen it."""
    c = Context(spy, kv_type="f32")
    c.decode(tokens(TEXT), "none")
    c.drop(2, 4)
    spans = [tokens([*TEXT[:2], *TEXT[4:], 9])]
    assert c.reusable(spans) == 2
    assert same(c.prefill(spans), fresh(spy, spans))


def test_a_medium_is_dropped_whole_or_not(spy: Spy) -> None:
    def context() -> Context:
        c = Context(spy)
        c.prefill([tokens([1, 2]), Picture(6, 0.5).span, tokens([3, 4])])
        return c

    cases = [(0, 0, 10, 10), (3, 7, 10, 10), (3, 9, 9, 10), (1, 7, 9, 10), (2, 8, 4, 10)]
    for start, stop, left, pos in [*cases, (0, 99, 0, 0), (9, 99, 9, 9)]:
        c = context()
        c.drop(start, stop)
        assert c.n_rows == left, (start, stop)
        c.decode(tokens([5]))
        assert spy.steps[-1].pos.tolist() == [[pos]], (start, stop)
