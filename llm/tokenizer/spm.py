"""SentencePiece: characters merged by the scores of the tokens they form, else bytes (Llama 2, Gemma)."""

import re
from functools import cached_property

from llm.tokenizer.merge import merge
from llm.tokenizer.vocab import Vocab
from llm.tokenizer.words import WordCache, escape, unescape


class Spm:
    """Tokens in plain UTF-8 with ▁ for a space."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._words = WordCache(self._encode_word)

    def encode(self, text: str) -> list[int]:
        text = " " + text if self.vocab.add_space_prefix else text
        return self._words.encode(self._cuts.split(escape(text)))

    def spell(self, text: str) -> bytes:
        return unescape(text)

    @cached_property
    def _cuts(self) -> re.Pattern[str]:
        return word_starts(self.vocab)

    @cached_property
    def _costs(self) -> list[float]:
        costs: list[float] = (-self.vocab.scores).tolist()
        return costs

    def _encode_word(self, word: str) -> list[int]:
        plain = self.vocab.plain
        out: list[int] = []
        for symbol in merge(list(word), self._rank):
            tok = plain.get(symbol)
            out += self.vocab.bytes_of(symbol) if tok is None else [tok]
        return out

    def _rank(self, left: str, right: str) -> float | None:
        tok = self.vocab.plain.get(left + right)
        return None if tok is None else self._costs[tok]


def word_starts(vocab: Vocab) -> re.Pattern[str]:
    """Places before a ▁ at which no token can stand across, so that words can be encoded one by one.

    Such a place comes after any character that precedes ▁ within no token of the vocabulary.
    """
    before = "\0".join(vocab.plain).split("▁")
    inside = {"▁", *(part[-1] for part in before[:-1] if part)}
    return re.compile(f"(?<=[^{re.escape(''.join(sorted(inside)))}])(?=▁)")
