"""Unigram: of all ways to cut a text into tokens the likeliest, after normalisation (T5)."""

import re
from collections import defaultdict
from functools import cached_property
from itertools import groupby

import numpy as np

from llm.tokenizer.charsmap import Charsmap
from llm.tokenizer.spm import word_starts
from llm.tokenizer.vocab import TokenType, Vocab
from llm.tokenizer.words import WordCache, escape, unescape

_UNKNOWN_PENALTY = 10.0


class Ugm:
    """Tokens in plain UTF-8 with ▁ for a space."""

    def __init__(self, vocab: Vocab, charsmap: Charsmap | None, merge_spaces: bool) -> None:
        self.vocab, self.charsmap, self.merge_spaces = vocab, charsmap, merge_spaces
        self._words = WordCache(self._encode_word)

    def encode(self, text: str) -> list[int]:
        ids = self._words.encode(self._cuts.split(self._normalised(text)))
        unk = self.vocab.unk
        return [tok for tok, run in groupby(ids) for tok in ([tok] if tok == unk else run)]

    def spell(self, text: str) -> bytes:
        return unescape(text)

    def _normalised(self, text: str) -> str:
        """Mapped characters, and ▁ before the first word, or before each when runs of spaces are merged."""
        if self.charsmap:
            text = self.charsmap.normalise(text)
        if self.merge_spaces:
            return "".join(f"▁{word}" for word in text.split(" ") if word)
        return "▁" * (self.vocab.add_space_prefix and bool(text.strip(" "))) + escape(text)

    @cached_property
    def _cuts(self) -> re.Pattern[str]:
        return word_starts(self.vocab)

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        """The lengths of the tokens that begin with two characters, or with one and are no longer."""
        found: dict[str, set[int]] = defaultdict(set)
        for token in self.vocab.plain:
            found[token[:2]].add(len(token))
        return {start: sorted(lengths) for start, lengths in found.items()}

    @cached_property
    def _scores(self) -> list[float]:
        scores = self.vocab.scores.copy()
        scores[self.vocab.of_type(TokenType.USER_DEFINED)] = 0
        found: list[float] = scores.tolist()
        return found

    @cached_property
    def _unknown_score(self) -> float:
        normal = self.vocab.scores[self.vocab.of_type(TokenType.NORMAL)]
        return float(np.min(normal, initial=np.inf)) - _UNKNOWN_PENALTY

    def _encode_word(self, word: str) -> list[int]:
        """Viterbi over the ends of tokens; of equals the one that begins first wins."""
        plain, scores, lengths = self.vocab.plain, self._scores, self._lengths
        n = len(word)
        best = [0.0] + [-np.inf] * n
        last: list[tuple[int, int | None]] = [(0, None)] * (n + 1)  # where the token began, its id
        for at in range(n):
            pair = word[at : at + 2]
            single = plain.get(pair[0])
            ends = [(at + 1, single, self._unknown_score if single is None else scores[single])]
            for length in lengths.get(pair, ()):
                tok = plain.get(word[at : at + length])
                if tok is not None and at + length <= n:
                    ends.append((at + length, tok, scores[tok]))
            for end, tok, score in ends:
                if best[at] + score > best[end]:
                    best[end] = best[at] + score
                    last[end] = (at, self.vocab.unk if tok is None else tok)
        ids = []
        while n:
            n, tok = last[n]
            if tok is not None:
                ids.append(tok)
        return ids[::-1]
