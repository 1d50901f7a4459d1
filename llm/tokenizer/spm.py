"""SentencePiece: characters merged by the scores of the tokens they form, else bytes (Llama 2, Gemma)."""

import re
from functools import cached_property

from llm.tokenizer.merge import merge
from llm.tokenizer.vocab import Vocab

_CACHED_WORDS, _CACHED_LENGTH = 1 << 17, 64


class Spm:
    """Text without special tokens -> ids."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._words: dict[str, list[int]] = {}

    @cached_property
    def _scores(self) -> list[float]:
        costs: list[float] = (-self.vocab.scores).tolist()
        return costs

    @cached_property
    def _cuts(self) -> re.Pattern[str]:
        """Places before a space at which no token can stand across, so that words can be encoded one by one.

        Such a place comes after any character that precedes ▁ within no token of the vocabulary.
        """
        before = "\0".join(self.vocab.plain).split("▁")
        inside = {"▁", *(part[-1] for part in before[:-1] if part)}
        return re.compile(f"(?<=[^{re.escape(''.join(sorted(inside)))}])(?=▁)")

    def encode(self, text: str) -> list[int]:
        words = self._words
        out: list[int] = []
        for word in self._cuts.split(text.replace(" ", "▁")):
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
        plain = self.vocab.plain
        out: list[int] = []
        for symbol in merge(list(word), self._rank):
            tok = plain.get(symbol)
            if tok is not None:
                out.append(tok)
            else:
                parts = map(self.vocab.byte_ids.__getitem__, symbol.encode())
                out += [part for part in parts if part is not None]
        return out

    def _rank(self, left: str, right: str) -> float | None:
        tok = self.vocab.plain.get(left + right)
        return None if tok is None else self._scores[tok]

    def spell(self, text: str) -> bytes:
        """What a token of this text stands for."""
        return text.replace("▁", " ").encode("utf-8", "surrogateescape")
