"""Text <-> token ids, as the model's GGUF file defines them."""

import os
from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

import numpy as np

from llm.errors import ModelError
from llm.gguf import GGUF
from llm.tokenizer.bpe import Bpe, RawBpe
from llm.tokenizer.charsmap import Charsmap
from llm.tokenizer.pre import DEFAULT, PRE, Pre
from llm.tokenizer.special import Specials
from llm.tokenizer.spm import Spm
from llm.tokenizer.stream import Stream
from llm.tokenizer.ugm import Ugm
from llm.tokenizer.vocab import TokenType, Vocab, byte_value, log, read_vocab
from llm.tokenizer.wpm import Wpm


class Encoder(Protocol):
    """One way of turning ordinary text into tokens."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens."""

    def spell(self, text: str) -> bytes:
        """What an ordinary token of this text stands for."""


class Tokenizer:
    """The tokenizer of one model.

    Control tokens (`<|im_end|>`, `</s>`) are recognised in a text only with `parse_special`, shown only with
    `special`; without, they are ordinary text on the way in and nothing on the way out.
    """

    def __init__(self, vocab: Vocab, encoder: Encoder) -> None:
        self.vocab = vocab
        self._encoder = encoder
        self.n_vocab = len(vocab.tokens)
        self.bos, self.eos, self.eot, self.eog = vocab.bos, vocab.eos, vocab.eot, vocab.eog
        self.suppressed = vocab.suppressed
        self.add_bos, self.add_eos = vocab.add_bos, vocab.add_eos
        self._hidden = frozenset(vocab.of_type(TokenType.UNKNOWN, TokenType.CONTROL))
        self._pieces: dict[int, bytes] = {}  # filled as tokens turn up

    @classmethod
    def from_gguf(cls, source: str | os.PathLike[str] | GGUF) -> "Tokenizer":
        """Reads the vocabulary of a model file. Raises ModelError if it is unsound or of unknown kind."""
        gguf = source if isinstance(source, GGUF) else GGUF(source)
        meta = gguf.meta
        pre = _pre_tokenizer(gguf)
        vocab = read_vocab(gguf, pre.add_bos)
        if vocab.model == "llama":
            return cls(vocab, Spm(vocab))
        if vocab.model == "t5":
            merge_spaces = bool(meta.get("tokenizer.ggml.remove_extra_whitespaces", False))
            return cls(vocab, Ugm(vocab, _charsmap(gguf), merge_spaces))
        if vocab.model == "bert":
            lowercase = bool(meta.get("tokenizer.ggml.normalizer.lowercase", True))
            strip = bool(meta.get("tokenizer.ggml.normalizer.strip_accents", lowercase))
            return cls(vocab, Wpm(vocab, lowercase, strip))
        merges = meta.get("tokenizer.ggml.merges")
        if not isinstance(merges, list):
            raise ModelError(
                f"{gguf.path}: tokenizer.ggml.merges is missing, a {vocab.model} vocabulary needs it"
            )
        return cls(vocab, (RawBpe if pre.raw else Bpe)(vocab, pre, merges))

    def encode(self, text: str, parse_special: bool = False, add_special: bool = False) -> list[int]:
        """Token ids of `text`, with BOS and EOS (as the model wants them) if `add_special`."""
        out = [self.bos] if add_special and self.add_bos and self.bos is not None else []
        for part in self.split(text, parse_special):
            if isinstance(part, int):
                out.append(part)
            else:
                out += self.encode_plain(part)
        return out + self._end() if add_special else out

    def split(self, text: str, parse_special: bool = True) -> list[str | int]:
        """`text` as ids of special tokens and the strings between; user-defined tokens are special always."""
        return (self._specials if parse_special else self._user_defined).split(_sound(text))

    def encode_plain(self, text: str) -> list[int]:
        """Token ids of a text in which nothing is special, at the start or after a special token."""
        return self._encoder.encode(_sound(text))

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of `ids`; bytes that are no UTF-8 become U+FFFD."""
        stream = self.stream(special)
        return "".join(map(stream.push, ids)) + stream.flush()

    def stream(self, special: bool = False) -> Stream:
        """A decoder for ids that come one by one."""

        def piece(tok: int) -> bytes:
            return self.piece(tok, special)

        return Stream(piece, self.vocab.add_space_prefix)

    def piece(self, tok: int, special: bool = False) -> bytes:
        """The bytes that one token stands for."""
        if not special and tok in self._hidden:
            return b""
        piece = self._pieces.get(tok)
        if piece is None:
            piece = self._pieces[tok] = self._spell(tok)
        return piece

    def _spell(self, tok: int) -> bytes:
        kind, text = int(self.vocab.types[tok]), self.vocab.tokens[tok]  # numpy compares enums slowly
        if kind == TokenType.NORMAL:
            return self._encoder.spell(text)
        if kind in (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED):
            return text.encode("utf-8", "surrogateescape")
        byte = byte_value(text) if kind == TokenType.BYTE else None
        return b"" if byte is None else bytes([byte])

    def token_id(self, text: str) -> int | None:
        """The token that is spelt exactly so in the vocabulary."""
        return self.vocab.ids.get(text)

    def token_text(self, tok: int) -> str:
        """A token as the vocabulary spells it."""
        return self.vocab.tokens[tok]

    def _end(self) -> list[int]:
        if self.vocab.model == "bert":
            return [] if self.vocab.sep is None else [self.vocab.sep]
        return [self.eos] if self.add_eos and self.eos is not None else []

    @cached_property
    def _specials(self) -> Specials:
        return self._finder(TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED)

    @cached_property
    def _user_defined(self) -> Specials:
        return self._finder(TokenType.USER_DEFINED)

    def _finder(self, *types: TokenType) -> Specials:
        vocab = self.vocab
        return Specials(((vocab.tokens[tok], tok) for tok in vocab.of_type(*types)), vocab.strips_right)


def _pre_tokenizer(gguf: GGUF) -> Pre:
    meta = gguf.meta
    if meta.get("tokenizer.ggml.model") == "gemma4":
        return PRE["gemma4"]
    if meta.get("tokenizer.ggml.model") != "gpt2":
        return DEFAULT
    name = str(meta.get("tokenizer.ggml.pre", ""))
    if not name:
        log.warning("%s names no pre-tokenizer (tokenizer.ggml.pre): words may be cut wrongly", gguf.path)
        return DEFAULT
    if name not in PRE:
        raise ModelError(f"{gguf.path}: its pre-tokenizer {name!r} is not known, known are {', '.join(PRE)}")
    return PRE[name]


def _charsmap(gguf: GGUF) -> Charsmap | None:
    blob = gguf.meta.get("tokenizer.ggml.precompiled_charsmap")
    if blob is None:
        return None
    if not isinstance(blob, np.ndarray) or blob.itemsize != 1:
        raise ModelError(f"{gguf.path}: tokenizer.ggml.precompiled_charsmap is no array of bytes")
    try:
        return Charsmap(blob.tobytes())
    except ValueError as e:
        raise ModelError(f"{gguf.path}: tokenizer.ggml.precompiled_charsmap is damaged: {e}") from e


def _sound(text: str) -> str:
    """`text` with lone surrogates, which have no UTF-8, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
