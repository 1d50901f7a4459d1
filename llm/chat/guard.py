"""Marks that keep what a user typed apart from what a chat template wrote, all through the rendering.

A text may spell a control token: `<|im_end|>` typed by a user must stay ten characters. Each such spelling
gets a guard, a private-use character that occurs nowhere else, after its first character; the tokens of the
rendered text are looked for while the guards are in place. A medium is a private-use character of its own.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from itertools import islice, pairwise

from llm.tokenizer.special import Specials

_PRIVATE = re.compile("[\U000f0000-\U0010fffd]")


def private_characters(text: str) -> list[str]:
    """The characters of `text` that can be marks, in order."""
    return _PRIVATE.findall(text)


def unused_characters(n: int, texts: Iterable[str]) -> list[str]:
    """`n` private-use characters that stand in none of `texts`."""
    used = {c for text in texts for c in private_characters(text)}
    return list(islice((c for c in map(chr, range(0xF0000, 0x10FFFE)) if c not in used), n))


class Guard:
    """Breaks the spellings of some special tokens in a text."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = [text for text in tokens if len(text) > 1]
        self._specials = Specials(((text, 0) for text in self.tokens), frozenset())

    def protect(self, text: str, guard: str) -> str:
        """`text` with `guard` in every spelling of a token, and where the text around might complete one."""
        places = self._specials.places(text)
        if places:
            cuts = [0, *(place + 1 for place in places), len(text)]
            text = guard.join(text[a:b] for a, b in pairwise(cuts))
        inner = text.strip()
        if not inner:
            return text
        lead, trail = text[: text.index(inner[0])], text[len(text.rstrip()) :]
        lengths = range(1, min(len(inner), self._longest) + 1)
        inside = len(inner) <= self._longest and any(inner in token for token in self.tokens)
        before = inside or any(_starts_one(self._backwards, inner[:n][::-1]) for n in lengths)
        after = inside or any(_starts_one(self._sorted, inner[-n:]) for n in lengths)
        return f"{lead}{guard if before else ''}{inner}{guard if after else ''}{trail}"

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.tokens), default=0)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.tokens)

    @cached_property
    def _backwards(self) -> list[str]:
        return sorted(token[::-1] for token in self.tokens)


def _starts_one(tokens: list[str], part: str) -> bool:
    """Whether some of the sorted `tokens` starts with `part`."""
    i = bisect_left(tokens, part)
    return i < len(tokens) and tokens[i].startswith(part)
