"""What the ways of encoding share: remembered words, and tokens that spell a space as ▁."""

from collections.abc import Callable, Iterable

_MOST, _LONGEST = 1 << 17, 64  # words kept, characters of one


class WordCache:
    """The ids of words, computed once for those that are short enough to come again."""

    def __init__(self, encode_word: Callable[[str], list[int]]) -> None:
        self._encode_word = encode_word
        self._ids: dict[str, list[int]] = {}

    def encode(self, words: Iterable[str]) -> list[int]:
        """Ids of all `words`, one after the other."""
        known = self._ids
        out: list[int] = []
        for word in words:
            ids = known.get(word)
            if ids is None:
                ids = self._encode_word(word)
                if len(known) >= _MOST:
                    known.clear()
                if len(word) <= _LONGEST:
                    known[word] = ids
            out += ids
        return out


def escape(text: str) -> str:
    return text.replace(" ", "▁")


def unescape(text: str) -> bytes:
    return text.replace("▁", " ").encode("utf-8", "surrogateescape")
