"""The vocabulary of a model as its GGUF file states it: token texts, types, scores, special ids, flags.

Keys: `tokenizer.ggml.*`. What the file leaves out comes from the tokenizer's kind, as in llama.cpp. The
tokens that end a generation are found by their text, since no key lists them.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llm.errors import ModelError
from llm.gguf import GGUF

log = logging.getLogger(__name__)


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`: how a token may come about and whether its text is shown."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Kind:
    """What a tokenizer model implies where the file is silent."""

    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    sep: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    add_space_prefix: bool | None = None  # None: there is no such thing


KINDS = {
    "gpt2": Kind(bos=11, eos=11),
    "gemma4": Kind(add_bos=True),
    "llama": Kind(bos=1, eos=2, unk=0, add_bos=True, add_space_prefix=True),
    "t5": Kind(eos=1, unk=2, add_eos=True, add_space_prefix=False),
    "bert": Kind(bos=101, unk=100, sep=102, add_bos=True),
}

# In order of preference, for a vocabulary that has several and no `eot_token_id`.
# fmt: off
_END_OF_TURN = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<end_of_utterance>", "<EOT>", "_<EOT>",
    "[EOT]", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>",
)
_END_OF_GENERATION = (
    "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "</s>", "<|eom_id|>", "[EOS]", "<eos>", "<turn|>",
    "<|tool_response>", "[e~[", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>",
    "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
)
# fmt: on
# Structure of gpt-oss answers: shown as text, so that what follows can be told apart.
_ALWAYS_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


@dataclass(frozen=True)
class Vocab:
    """Token texts with their types and scores, and the ids that have a role."""

    path: str
    model: str  # tokenizer.ggml.model
    pre: str  # tokenizer.ggml.pre
    tokens: list[str]
    types: NDArray[np.int32]  # [n_vocab]
    scores: NDArray[np.float32]  # [n_vocab]
    ids: dict[str, int]
    bos: int | None
    eos: int | None
    eot: int | None
    unk: int | None
    sep: int | None
    eog: frozenset[int]
    suppressed: tuple[int, ...]  # never to be sampled
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool  # SentencePiece and unigram only; other kinds ignore the key
    strips_right: frozenset[int]  # special tokens that swallow the white space after them

    def of_type(self, *types: TokenType) -> list[int]:
        """Ids of all tokens of these types."""
        found: list[int] = np.flatnonzero(np.isin(self.types, types)).tolist()
        return found

    @cached_property
    def plain(self) -> dict[str, int]:
        """Text -> id of the tokens that ordinary text may become; control tokens are none of them."""
        plain = dict(self.ids)
        for tok in self.of_type(TokenType.UNKNOWN, TokenType.CONTROL, TokenType.BYTE):
            plain.pop(self.tokens[tok], None)
        return plain

    def bytes_of(self, text: str) -> list[int]:
        """The tokens `<0xAB>` of a text's bytes; the unknown token, if any, where one is missing."""
        ids = (self.ids.get(f"<0x{byte:02X}>", self.unk) for byte in text.encode())
        return [tok for tok in ids if tok is not None]


def read_vocab(gguf: GGUF, add_bos: bool) -> Vocab:
    """The vocabulary in `gguf`; `add_bos` is the pre-tokenizer's wish. ModelError for an unsound one."""
    return _Reader(gguf).vocab(add_bos)


class _Reader:
    """Metadata -> Vocab, each key checked for type, length and range."""

    def __init__(self, gguf: GGUF) -> None:
        self.path, self.meta = gguf.path, gguf.meta
        self.name = str(gguf.meta.get("general.name", "")).lower()
        self.model = str(gguf.meta.get("tokenizer.ggml.model", ""))
        if self.model not in KINDS:
            known = ", ".join(KINDS)
            raise self.error(f"its tokenizer is {self.model or 'missing'!r}, and only {known} are supported")

    def vocab(self, add_bos: bool) -> Vocab:
        kind, meta = KINDS[self.model], self.meta
        tokens = self.strings("tokens")
        if "" in tokens:
            tokens = [text or f"[EMPTY_{i}]" for i, text in enumerate(tokens)]
        n = len(tokens)
        if n == 0:
            raise self.error("its vocabulary is empty")
        types = self.numbers("token_type", n, TokenType.NORMAL).astype(np.int32)
        scores = self.numbers("scores", n, 0).astype(np.float32)
        ids = dict(zip(tokens, range(n)))
        eos = self.special("eos", kind.eos, types)
        eot = self.special("eot", next((ids[t] for t in _END_OF_TURN if t in ids), None), types)
        eog = self.end_of_generation(ids, types, [eos, eot])
        self.check_bytes(tokens, types)
        return Vocab(
            path=self.path,
            model=self.model,
            pre=str(meta.get("tokenizer.ggml.pre", "")),
            tokens=tokens,
            types=types,
            scores=scores,
            ids=ids,
            bos=self.special("bos", kind.bos, types),
            eos=eos,
            eot=eot,
            unk=self.special("unknown", kind.unk, types),
            sep=self.special("seperator", kind.sep, types),  # the key is spelt like this
            eog=eog,
            suppressed=self.suppressed(n),
            add_bos=self.model == "gemma4" or self.flag("add_bos_token", kind.add_bos or add_bos),
            add_eos=self.flag("add_eos_token", kind.add_eos),
            add_space_prefix=kind.add_space_prefix is not None
            and self.flag("add_space_prefix", kind.add_space_prefix),
            strips_right=self.strips_right(ids, types),
        )

    def strings(self, key: str) -> list[str]:
        value = self.meta.get(f"tokenizer.ggml.{key}")
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value[:1]):
            raise self.error(f"tokenizer.ggml.{key} is missing or no list of strings")
        return value

    def numbers(self, key: str, n: int, default: int) -> NDArray[np.generic]:
        value = self.meta.get(f"tokenizer.ggml.{key}")
        if value is None:
            return np.full(n, default)
        if not isinstance(value, np.ndarray) or len(value) < n:
            have = len(value) if isinstance(value, np.ndarray) else type(value).__name__
            raise self.error(f"tokenizer.ggml.{key} has {have} entries for {n} tokens")
        return value[:n]

    def flag(self, key: str, default: bool) -> bool:
        return bool(self.meta.get(f"tokenizer.ggml.{key}", default))

    def special(self, role: str, default: int | None, types: NDArray[np.int32]) -> int | None:
        """The id of a role; an id outside the vocabulary counts as none given."""
        tok = self.meta.get(f"tokenizer.ggml.{role}_token_id")
        if isinstance(tok, int) and 0 <= tok < len(types):
            return tok
        if tok is not None:
            log.warning("%s: %s_token_id %r is outside the vocabulary, ignored", self.path, role, tok)
        # A default id says nothing in a vocabulary that keeps an ordinary word in its place.
        return (
            default
            if default is not None and default < len(types) and types[default] != TokenType.NORMAL
            else None
        )

    def end_of_generation(
        self, ids: dict[str, int], types: NDArray[np.int32], given: Iterable[int | None]
    ) -> frozenset[int]:
        """Ids that end a generation; types that contradict a token's text are set right in `types`."""
        found = {text: ids[text] for text in _END_OF_TURN + _END_OF_GENERATION if text in ids}
        if "</s>" in found and types[found["</s>"]] == TokenType.NORMAL:
            del found["</s>"]  # an HTML tag in many vocabularies
        types[list(found.values())] = TokenType.CONTROL
        others = [self.special(role, None, types) for role in ("eom", "fim_pad", "fim_rep", "fim_sep")]
        eog = {tok for tok in (*found.values(), *given, *others) if tok is not None}
        calls = {"<|call|>", "<|calls|>"} & found.keys() and {"<|return|>", "<|flush|>"} & found.keys()
        if "<|end|>" in found and calls:  # there it ends one part of an answer only
            eog.discard(found["<|end|>"])
            types[found["<|end|>"]] = TokenType.USER_DEFINED
        types[[ids[text] for text in _ALWAYS_SHOWN if text in ids]] = TokenType.USER_DEFINED
        return frozenset(eog)

    def suppressed(self, n: int) -> tuple[int, ...]:
        given = self.meta.get("tokenizer.ggml.suppress_tokens")
        return tuple(i for i in given.tolist() if 0 <= i < n) if isinstance(given, np.ndarray) else ()

    def strips_right(self, ids: dict[str, int], types: NDArray[np.int32]) -> frozenset[int]:
        """No key says so either: special tokens of Phi-3 swallow the white space after them, save three."""
        if "phi-3" not in self.name and "phi3" not in self.name:
            return frozenset()
        special = np.flatnonzero(
            np.isin(types, [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED])
        )
        return frozenset(special.tolist()) - {ids.get(text) for text in ("<unk>", "<s>", "<|endoftext|>")}

    def check_bytes(self, tokens: list[str], types: NDArray[np.int32]) -> None:
        for tok in np.flatnonzero(types == TokenType.BYTE).tolist():
            if byte_value(tokens[tok]) is None:
                raise self.error(
                    f"token {tok} is typed as a byte, but its text is {tokens[tok]!r}, not <0xAB>"
                )

    def error(self, why: str) -> ModelError:
        return ModelError(f"{self.path}: {why}")


def byte_value(text: str) -> int | None:
    """The byte that a token `<0xAB>` stands for."""
    if len(text) != 6 or text[:3] != "<0x" or text[5] != ">":
        return None
    digits = text[3:5]
    return int(digits, 16) if all(c in "0123456789ABCDEFabcdef" for c in digits) else None
