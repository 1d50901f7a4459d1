"""Vocabularies that are unsound, incomplete or say little of themselves."""

from pathlib import Path

import pytest

from llm.errors import ModelError
from llm.tokenizer import Tokenizer
from tests.tiny import vocabulary
from tests.vocabularies import bpe_tokenizer, spm_vocabulary, write_vocab


def load_spm(path: Path, **changes: object) -> Tokenizer:
    meta = {**spm_vocabulary(), **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}
    return Tokenizer.from_gguf(write_vocab(path, {k: v for k, v in meta.items() if v is not None}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tokens": None}, "tokens is missing"),
        ({"tokens": [1, 2]}, "no list of strings"),
        ({"token_type": [1, 1]}, "token_type has 2 entries"),
        ({"scores": [0.0]}, "scores has 1 entries"),
        ({"scores": "no"}, "scores has str entries"),
        ({"model": "sideways"}, "'sideways'"),
        ({"model": None}, "missing"),
    ],
)
def test_unsound_vocabularies_b097(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    with pytest.raises(ModelError, match=says) as e:
        load_spm(tmp_path / "odd.gguf", **changes)
    assert "odd.gguf" in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize("text", ["<0x-1>", "<0x>", "<0xGG>", "<0x041>", "x"])
def test_byte_tokens_of_no_byte_b097(tmp_path: Path, text: str) -> None:
    tokens = spm_vocabulary()["tokenizer.ggml.tokens"]
    with pytest.raises(ModelError, match="typed as a byte"):
        load_spm(tmp_path / "v.gguf", tokens=[*tokens[:5], text, *tokens[6:]])  # type: ignore[index]


def test_missing_byte_tokens_fall_back_to_unknown(tmp_path: Path) -> None:
    tokenizer = load_spm(
        tmp_path / "v.gguf", tokens=["<unk>", "▁a", "<s>"], token_type=[2, 1, 3], scores=[0.0] * 3
    )
    assert tokenizer.encode("ö") == [0, 0, 0, 0, 0]  # three bytes of ▁, two of ö


@pytest.mark.parametrize("key", ["bos_token_id", "eos_token_id", "unknown_token_id"])
def test_ids_out_of_range_count_as_none(tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = load_spm(tmp_path / "v.gguf", **{key: 4_294_967_295})
    assert "outside the vocabulary" in caplog.text
    assert tokenizer.decode(tokenizer.encode("hello", add_special=True)) == "hello"


def test_merges_missing(tmp_path: Path) -> None:
    meta = vocabulary()
    del meta["tokenizer.ggml.merges"]
    with pytest.raises(ModelError, match="merges is missing"):
        Tokenizer.from_gguf(write_vocab(tmp_path / "v.gguf", meta))


def test_merges_of_unknown_tokens_do_no_harm(tmp_path: Path) -> None:
    tokenizer = bpe_tokenizer(
        tmp_path / "v.gguf", merges=["x y", "xy z", "nonsense", "", " ", "a  b", "h e", "h e"]
    )
    assert tokenizer.decode(tokenizer.encode("xyz he nonsense")) == "xyz he nonsense"


def test_space_prefix_is_for_sentencepiece_only(tmp_path: Path) -> None:
    tokenizer = bpe_tokenizer(tmp_path / "v.gguf", add_space_prefix=True)
    assert [tokenizer.token_text(tok) for tok in tokenizer.encode("hello")] == ["hello"]
    assert tokenizer.decode(tokenizer.encode(" a")) == " a"


def test_unknown_pre_tokenizer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModelError, match="'backwards' is not known"):
        bpe_tokenizer(tmp_path / "v.gguf", pre="backwards")
    assert bpe_tokenizer(tmp_path / "w.gguf", pre="").encode("a")
    assert "names no pre-tokenizer" in caplog.text


def test_empty_and_repeated_tokens(tmp_path: Path) -> None:
    tokens = vocabulary()["tokenizer.ggml.tokens"]
    tokenizer = bpe_tokenizer(tmp_path / "v.gguf", tokens=["", "", *tokens[2:]])  # type: ignore[index]
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"
    assert tokenizer.token_text(1) == "[EMPTY_1]"


def test_token_that_is_no_utf8_survives(tmp_path: Path) -> None:
    tokens = spm_vocabulary()["tokenizer.ggml.tokens"]
    path = write_vocab(
        tmp_path / "v.gguf", {**spm_vocabulary(), "tokenizer.ggml.tokens": [*tokens[:-1], "QQQ"]}
    )  # type: ignore[index]
    path.write_bytes(path.read_bytes().replace(b"QQQ", b"Q\xff\xfe"))
    tokenizer = Tokenizer.from_gguf(path)
    assert tokenizer.piece(tokenizer.n_vocab - 1) == b"Q\xff\xfe"
    assert tokenizer.decode(tokenizer.encode("hello Q")) == "hello Q"


def test_eog_by_text_and_types_set_right(tmp_path: Path) -> None:
    """Control-looking tokens typed as ordinary ones, as some converters leave them."""
    meta = vocabulary(["<end_of_turn>"])
    meta["tokenizer.ggml.token_type"] = [1] * len(meta["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    tokenizer = Tokenizer.from_gguf(write_vocab(tmp_path / "v.gguf", meta))
    assert {tokenizer.token_text(t) for t in tokenizer.eog} == {
        "<end_of_turn>",
        "<|im_end|>",
        "<|endoftext|>",
    }
    assert tokenizer.decode(list(tokenizer.eog)) == ""
    assert len(tokenizer.encode("<end_of_turn>", parse_special=True)) == 1


def test_end_is_no_end_where_return_and_call_are(tmp_path: Path) -> None:
    tokenizer = bpe_tokenizer(tmp_path / "v.gguf", ["<|end|>", "<|return|>", "<|call|>", "<|channel|>"])
    end, channel = tokenizer.token_id("<|end|>"), tokenizer.token_id("<|channel|>")
    assert end not in tokenizer.eog and tokenizer.token_id("<|return|>") in tokenizer.eog
    assert tokenizer.decode([end, channel]) == "<|end|><|channel|>"


def test_wordpiece(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "▁wor", "ld", "▁!", "▁cafe", "▁漢"]
    meta = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, 3, 3, *[1] * 6],
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.unknown_token_id": 1,
    }
    tokenizer = Tokenizer.from_gguf(write_vocab(tmp_path / "v.gguf", meta, arch="bert"))
    ids = tokenizer.encode("HELLO world! Café 漢 zzz", add_special=True)
    assert [tokens[i] for i in ids] == [
        "[CLS]",
        "▁hello",
        "▁wor",
        "ld",
        "▁!",
        "▁cafe",
        "▁漢",
        "[UNK]",
        "[SEP]",
    ]
