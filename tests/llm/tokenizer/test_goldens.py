"""Token ids against llama.cpp's: the vocab-only files with their .inp/.out, and real models."""

import json
import os
from pathlib import Path

import pytest

from llm.tokenizer import Tokenizer

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
VOCABS = (
    "bert-bge",
    "deepseek-llm",
    "falcon",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "starcoder",
)


@pytest.mark.parametrize("name", VOCABS)
def test_vocab_files(name: str) -> None:
    folder = Path(os.environ.get("MTMD_SHARED", ROOT.parent / "shared")) / "vocab"
    path = folder / f"ggml-vocab-{name}.gguf"
    if not path.exists():
        pytest.skip("MTMD_SHARED names no folder with vocab/")
    texts = (folder / f"{path.name}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = (folder / f"{path.name}.out").read_text().split("\n")
    tokenizer = Tokenizer.from_gguf(path)
    assert len(texts) == len(lines) > 40
    for text, line in zip(texts, lines):
        assert tokenizer.encode(text) == [int(word) for word in line.split()], text


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "file"),
    [("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("gemma3", "gemma-3-270m-q4_k_m.gguf")],
)
def test_tricky_strings(name: str, file: str, models: Path) -> None:
    tokenizer = Tokenizer.from_gguf(models / file)
    for row in json.loads((GOLDEN / f"tokenizer_{name}.json").read_text()):
        text = row["text"]
        assert tokenizer.encode(text) == row["plain"], text
        assert tokenizer.encode(text, parse_special=True, add_special=True) == row["special"], text
        if "▁" not in text:  # SentencePiece has no other way to spell a space
            assert tokenizer.decode(row["plain"]) == text
