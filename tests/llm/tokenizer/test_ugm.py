"""Unigram vocabularies against the peer, and what must not hurt them."""

import json
import time
from itertools import product
from pathlib import Path

import pytest

from llm.errors import ModelError
from llm.tokenizer import Tokenizer
from llm.tokenizer.charsmap import Charsmap
from tests.tiny_t5 import TEXTS, charsmap, write

GOLDEN = Path(__file__).parents[2] / "golden" / "tokenizer_t5.json"


@pytest.mark.parametrize("flags", list(product((False, True), repeat=3)))
def test_ids_are_the_peers(flags: tuple[bool, bool, bool], tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_gguf(write(tmp_path / "t5.gguf", *flags))
    rows = json.loads(GOLDEN.read_text())["".join(str(int(flag)) for flag in flags)]
    for text, ids in zip(TEXTS, rows, strict=True):
        assert tokenizer.encode(text, parse_special=True, add_special=True) == ids, text


def test_decode(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_gguf(write(tmp_path / "t5.gguf", True, True, True))
    assert tokenizer.decode(tokenizer.encode("  hello   world", add_special=True)) == "hello world"


def test_rules() -> None:
    rules = Charsmap(charsmap({"ab": "X", "abc": "Y", "é": "e", "z": ""}))
    assert rules.normalise("aabcababzé日") == "aYXXe日"


@pytest.mark.parametrize("blob", [b"", b"\1", b"\4\0\0\0", b"\xff\xff\xff\xff" + bytes(64)])
def test_damaged_rules(blob: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tiny_t5.charsmap", lambda _: blob or b"\0")
    with pytest.raises(ModelError, match="precompiled_charsmap is damaged"):
        Tokenizer.from_gguf(write(tmp_path / "t5.gguf", True, True, True))


def test_random_rules_never_crash() -> None:
    entries = bytes((i * 7919 + i // 3) % 256 for i in range(4096))
    Charsmap((4096).to_bytes(4, "little") + entries + b"text").normalise("hello wörld " * 50)


@pytest.mark.parametrize("text", ["x" * 100_000, "hello" * 20_000, " " * 100_000, "\ud800" * 10_000])
def test_long_words(text: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_gguf(write(tmp_path / "t5.gguf", True, True, True))
    start = time.perf_counter()
    tokenizer.encode(text)
    assert time.perf_counter() - start < 5
