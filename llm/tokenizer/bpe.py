"""Byte-pair encoding: words of bytes, merged by the ranks of `tokenizer.ggml.merges` (GPT-2, Llama 3)."""

from functools import cached_property

from llm.tokenizer.merge import merge
from llm.tokenizer.pre import Pre
from llm.tokenizer.vocab import Vocab

_CACHED_WORDS, _CACHED_LENGTH = 1 << 17, 64


def _byte_alphabet() -> list[str]:
    """A printable character for each byte, as GPT-2's vocabulary spells them."""
    printable = {
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    }
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


_ALPHABET = _byte_alphabet()
_TO_ALPHABET = dict(enumerate(_ALPHABET))
_TO_BYTE = {char: bytes([byte]) for byte, char in enumerate(_ALPHABET)}


class Bpe:
    """Text without special tokens -> ids, by pre-tokenizer and merges."""

    def __init__(self, vocab: Vocab, pre: Pre, merges: list[str]) -> None:
        self.vocab, self.pre, self.merges = vocab, pre, merges
        self._words: dict[str, list[int]] = {}

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """ "left right" -> place in the list of merges; of a line that stands twice the first counts."""
        n = len(self.merges)
        return dict(zip(reversed(self.merges), range(n - 1, -1, -1)))

    def encode(self, text: str) -> list[int]:
        words = self._words
        out: list[int] = []
        for word in self.pre.split(text.replace(" ", "▁") if self.pre.raw else text):
            ids = words.get(word)
            if ids is None:
                ids = self._encode_word(word)
                if len(words) >= _CACHED_WORDS:
                    words.clear()
                if len(word) <= _CACHED_LENGTH:
                    words[word] = ids
            out += ids
        return out

    def _encode_word(self, word: str) -> list[int]:
        plain, raw = self.vocab.plain, self.pre.raw
        spelt = word if raw else word.encode().decode("latin-1").translate(_TO_ALPHABET)
        if spelt in plain and (self.pre.whole_words or (raw and not spelt.strip("\n"))):
            return [plain[spelt]]
        out: list[int] = []
        for symbol in merge(list(spelt), self._rank):
            tok = plain.get(symbol)
            if tok is not None:
                out.append(tok)
            else:
                parts = (
                    map(self.vocab.byte_ids.__getitem__, symbol.encode()) if raw else map(plain.get, symbol)
                )
                out += [part for part in parts if part is not None]
        return out

    def _rank(self, left: str, right: str) -> int | None:
        return self._ranks.get(f"{left} {right}")

    def spell(self, text: str) -> bytes:
        """What a token of this text stands for."""
        if self.pre.raw:
            return text.replace("▁", " ").encode("utf-8", "surrogateescape")
        return b"".join([_TO_BYTE.get(c) or c.encode("utf-8", "surrogateescape") for c in text])
