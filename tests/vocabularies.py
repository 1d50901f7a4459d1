"""Small vocabularies, written to files as the metadata of a model without tensors."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from llm.tokenizer import Tokenizer
from tests.tiny import vocabulary, write_gguf

SPM_WORDS = (
    "▁",
    "▁▁",
    "▁▁▁▁",
    "▁hello",
    "▁he",
    "▁h",
    "llo",
    "ll",
    "▁w",
    "or",
    "ld",
    "wor",
    "▁wor",
    "▁world",
    "▁the",
    "é",
)


def write_vocab(path: Path, meta: Mapping[str, object], arch: str = "llama") -> Path:
    return write_gguf(path, arch, meta, {}, {})


def bpe_tokenizer(path: Path, specials: Iterable[str] = (), **changes: object) -> Tokenizer:
    """A byte-level vocabulary with control tokens `specials`; `changes` replace keys of `tokenizer.ggml`."""
    meta = {**vocabulary(specials), **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}
    return Tokenizer.from_gguf(write_vocab(path, meta))


def spm_vocabulary(user_defined: Iterable[str] = (), control: Iterable[str] = ()) -> dict[str, object]:
    """SentencePiece: <unk>, <s>, </s>, bytes, letters, SPM_WORDS by length, then further special tokens."""
    pieces = [*"abcdefghijklmnopqrstuvwxyz.,!<>|/\n", *SPM_WORDS]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [2, 3, 3, *[6] * 256, *[1] * len(pieces)]
    scores = [0.0] * 259 + [float(len(piece)) for piece in pieces]
    for kind, texts in ((4, tuple(user_defined)), (3, tuple(control))):
        tokens += texts
        types += [kind] * len(texts)
        scores += [0.0] * len(texts)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
    }
