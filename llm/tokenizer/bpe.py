"""Byte-pair encoding: words of bytes, merged by the ranks of `tokenizer.ggml.merges` (GPT-2, Llama 3)."""

from functools import cached_property

from llm.tokenizer.merge import merge
from llm.tokenizer.pre import Pre
from llm.tokenizer.vocab import Vocab
from llm.tokenizer.words import WordCache, escape, unescape


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
    """Tokens in the alphabet of bytes."""

    def __init__(self, vocab: Vocab, pre: Pre, merges: list[str]) -> None:
        self.vocab, self.pre, self.merges = vocab, pre, merges
        self._words = WordCache(self._encode_word)

    def encode(self, text: str) -> list[int]:
        return self._words.encode(self.pre.split(text))

    def spell(self, text: str) -> bytes:
        return b"".join([_TO_BYTE.get(c) or c.encode("utf-8", "surrogateescape") for c in text])

    def _encode_word(self, word: str) -> list[int]:
        plain = self.vocab.plain
        spelt = word.encode().decode("latin-1").translate(_TO_ALPHABET)
        if self.pre.whole_words and spelt in plain:
            return [plain[spelt]]
        out: list[int] = []
        for symbol in merge(list(spelt), self._rank):
            tok = plain.get(symbol)
            out += [plain[c] for c in symbol if c in plain] if tok is None else [tok]
        return out

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """ "left right" -> place in the list of merges; of a line that stands twice the first counts."""
        n = len(self.merges)
        return dict(zip(reversed(self.merges), range(n - 1, -1, -1)))

    def _rank(self, left: str, right: str) -> int | None:
        return self._ranks.get(f"{left} {right}")


class RawBpe(Bpe):
    """Tokens in plain UTF-8 with ▁ for a space, `<0xAB>` for bytes beyond them (Gemma 4)."""

    def encode(self, text: str) -> list[int]:
        return self._words.encode(self.pre.split(escape(text)))

    def spell(self, text: str) -> bytes:
        return unescape(text)

    def _encode_word(self, word: str) -> list[int]:
        plain = self.vocab.plain
        if word in plain and not word.strip("\n"):
            return [plain[word]]
        out: list[int] = []
        for symbol in merge(list(word), self._rank):
            tok = plain.get(symbol)
            out += self.vocab.bytes_of(symbol) if tok is None else [tok]
        return out
