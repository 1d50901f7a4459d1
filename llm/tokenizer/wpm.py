"""WordPiece: lower-cased words, cut into the longest tokens from the left (BERT)."""

import unicodedata
from functools import cached_property

from llm.tokenizer.vocab import Vocab
from llm.tokenizer.words import unescape

# CJK blocks whose characters are words of their own (0x2B920, not 0x2B820, as in the usual implementation).
_HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Wpm:
    """Tokens of lower-cased text, the first of a word with ▁ before it."""

    def __init__(self, vocab: Vocab, lowercase: bool, strip_accents: bool) -> None:
        self.vocab, self.lowercase, self.strip_accents = vocab, lowercase, strip_accents

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.vocab.plain))

    def encode(self, text: str) -> list[int]:
        return [tok for word in self._split(text) for tok in self._encode_word("▁" + word)]

    def _encode_word(self, word: str) -> list[int]:
        plain, out, at = self.vocab.plain, list[int](), 0
        while at < len(word):
            ends = range(min(len(word), at + self._longest), at, -1)
            end = next((end for end in ends if word[at:end] in plain), None)
            if end is None:
                return [] if self.vocab.unk is None else [self.vocab.unk]
            out.append(plain[word[at:end]])
            at = end
        return out

    def _split(self, text: str) -> list[str]:
        """Words and single punctuation marks, normalised."""
        if self.strip_accents:
            text = unicodedata.normalize("NFD", text)
        if self.lowercase:
            text = text.lower()
        spaced = []
        for char in text:
            category = unicodedata.category(char)
            if char.isspace():
                spaced.append(" ")
            elif char in "\0�" or category[0] == "C" or (self.strip_accents and category[0] == "M"):
                continue
            elif category[0] == "P" or (char < "\x7f" and category[0] == "S") or _is_han(char):
                spaced += (" ", char, " ")
            else:
                spaced.append(char)
        return "".join(spaced).split()

    def spell(self, text: str) -> bytes:
        return unescape(text)


def _is_han(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in _HAN)
