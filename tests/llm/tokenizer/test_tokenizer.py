"""Encoding, decoding and streaming with small vocabularies."""

import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llm.tokenizer import Tokenizer
from tests.vocabularies import bpe_tokenizer, spm_vocabulary, write_vocab

_any_text = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return bpe_tokenizer(tmp_path_factory.mktemp("vocab") / "bpe.gguf", ["<image>"])


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    meta = spm_vocabulary(user_defined=["<b>", "\n\n"], control=["<end>"])
    return Tokenizer.from_gguf(write_vocab(tmp_path_factory.mktemp("vocab") / "spm.gguf", meta))


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.token_text(tok) for tok in ids]


@settings(deadline=None)
@given(_any_text)
@example("<|im_end|><image>")
@example("hello  the user's")
def test_bpe_round_trip(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == text
    assert bpe.decode(bpe.encode(text, parse_special=True), special=True) == text


@settings(deadline=None)
@given(_any_text)
def test_spm_round_trip(spm: Tokenizer, text: str) -> None:
    text = text.replace("▁", " ")
    if "<b>" not in text and "\n\n" not in text:  # a space goes between a special token and what follows
        assert spm.decode(spm.encode(text)) == text
        assert spm.decode(spm.encode(text, add_special=True)) == text


@given(st.text(st.characters()))
@example("\ud800")
@example("a\udc80b\udfff")
def test_lone_surrogates_become_replacements(bpe: Tokenizer, spm: Tokenizer, text: str) -> None:
    for tokenizer in (bpe, spm):
        ids = tokenizer.encode(text, parse_special=True)
        assert all(0 <= tok < tokenizer.n_vocab for tok in ids)
    assert bpe.decode(bpe.encode("a\udc80b")) == "a\ufffdb"


@settings(deadline=None)
@given(st.data())
def test_streaming_equals_decoding(bpe: Tokenizer, data: st.DataObject) -> None:
    """Any ids: bytes in any order, cut characters, invalid UTF-8."""
    ids = data.draw(st.lists(st.integers(0, bpe.n_vocab - 1), max_size=40))
    stream = bpe.stream()
    parts = [stream.push(tok) for tok in ids] + [stream.flush()]
    assert "".join(parts) == b"".join(map(bpe.piece, ids)).decode("utf-8", "replace") == bpe.decode(ids)


def test_streaming_holds_back_an_unfinished_character(bpe: Tokenizer) -> None:
    stream = bpe.stream()
    assert [stream.push(tok) for tok in bpe.encode("é🙂!")] == ["", "é", "", "", "", "🙂", "!"]
    assert stream.flush() == ""
    stream.push(bpe.encode("🙂")[0])
    assert stream.flush() == "\ufffd"


def test_bpe_merges_and_special_tokens(bpe: Tokenizer) -> None:
    assert pieces(bpe, bpe.encode("the hello")) == ["t", "he", "Ġ", "hello"]
    end = bpe.token_id("<|im_end|>")
    assert bpe.encode("hello<|im_end|>", parse_special=True)[-1] == end
    assert end not in bpe.encode("hello<|im_end|>")
    assert bpe.decode([end]) == "" and bpe.decode([end], special=True) == "<|im_end|>"
    assert bpe.piece(end) == b"" and bpe.token_text(end) == "<|im_end|>"
    assert bpe.token_id("<|nothing|>") is None


def test_ids_with_a_role(bpe: Tokenizer, spm: Tokenizer) -> None:
    assert bpe.token_text(bpe.eos) == "<|im_end|>" and not bpe.add_bos and not bpe.add_eos
    assert {bpe.token_text(tok) for tok in bpe.eog} == {"<|im_end|>", "<|endoftext|>"}
    assert bpe.token_text(bpe.eot) == "<|im_end|>"
    assert (spm.bos, spm.eos, spm.add_bos, spm.eog) == (1, 2, True, frozenset([2]))


def test_spm_scores_bytes_and_prefix(spm: Tokenizer) -> None:
    assert pieces(spm, spm.encode("hello world", add_special=True)) == ["<s>", "▁hello", "▁world"]
    assert pieces(spm, spm.encode("ö")) == ["▁", "<0xC3>", "<0xB6>"]
    assert pieces(spm, spm.encode("hello<b>world")) == ["▁hello", "<b>", "▁world"]
    assert pieces(spm, spm.encode("a<end>b", parse_special=True)) == ["▁", "a", "<end>", "▁", "b"]
    assert spm.encode("") == []


def test_control_tokens_are_never_spelt_out(spm: Tokenizer) -> None:
    """`</s>` and `<0x41>` could arise by merging, had they the score for it. B102."""
    assert 2 not in spm.encode("</s>")
    assert spm.decode(spm.encode("</s><0x41>")) == "</s><0x41>"


def test_no_space_prefix_on_demand(tmp_path: Path) -> None:
    meta = {
        **spm_vocabulary(),
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.add_bos_token": False,
    }
    tokenizer = Tokenizer.from_gguf(write_vocab(tmp_path / "spm.gguf", meta))
    assert pieces(tokenizer, tokenizer.encode("hello", add_special=True)) == ["h", "e", "llo"]
    assert tokenizer.decode(tokenizer.encode(" hello")) == " hello"


def test_words_that_meet_across_a_space_are_not_cut(tmp_path: Path) -> None:
    """A vocabulary with a token over a word boundary, which words encoded one by one would miss."""
    meta = spm_vocabulary()
    for key, value in (
        ("tokens", "a▁b"),
        ("token_type", 1),
        ("scores", 99.0),
        ("tokens", "a▁"),
        ("token_type", 1),
        ("scores", 98.0),
    ):
        meta[f"tokenizer.ggml.{key}"] = [*meta[f"tokenizer.ggml.{key}"], value]  # type: ignore[misc]
    tokenizer = Tokenizer.from_gguf(write_vocab(tmp_path / "spm.gguf", meta))
    assert pieces(tokenizer, tokenizer.encode("a b")) == ["▁", "a▁b"]


def test_phi3_special_tokens_swallow_white_space(tmp_path: Path) -> None:
    meta = {**spm_vocabulary(control=["<|end|>"]), "general.name": "Phi-3 mini"}
    tokenizer = Tokenizer.from_gguf(write_vocab(tmp_path / "spm.gguf", meta))
    assert pieces(tokenizer, tokenizer.encode("<|end|> \n a<s> b", parse_special=True)) == [
        *("<|end|>", "▁", "a", "<s>", "▁▁", "b")
    ]


@pytest.mark.parametrize("unit", ["a", " ", "<", "é", "\n", "<|im_end|>", "ab "])
def test_long_monotonous_text_is_no_trap(bpe: Tokenizer, spm: Tokenizer, unit: str) -> None:
    for tokenizer in (bpe, spm):
        seconds = []
        for n in (10_000, 40_000):
            start = time.process_time()
            tokenizer.encode(unit * (n // len(unit)), parse_special=True)
            seconds.append(time.process_time() - start)
        assert seconds[1] < 0.2 + 8 * seconds[0], seconds  # 16 times as long were it quadratic


@pytest.mark.model
@pytest.mark.parametrize("file", ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"])
def test_speed_of_real_vocabularies(file: str, models: Path) -> None:
    """0.4 s each in quiet; generous, for a busy machine."""
    start = time.perf_counter()
    tokenizer = Tokenizer.from_gguf(models / file)
    assert time.perf_counter() - start < 3
    text = Path(__file__).read_text()
    start = time.perf_counter()
    tokenizer.encode(text * (1_000_000 // len(text)))
    assert time.perf_counter() - start < 10
