"""The heap against the plain definition of merging."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.tokenizer.merge import merge
from llm.tokenizer.special import Specials

_tokens = st.text("abc", min_size=2, max_size=5)


@given(st.text("abc", max_size=30), st.dictionaries(_tokens, st.integers(0, 6), max_size=25))
def test_merge_takes_best_then_leftmost(text: str, ranks: dict[str, int]) -> None:
    plain = list(text)
    while True:
        ranked = [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(plain)) if a + b in ranks]
        if not ranked:
            break
        _, i = min(ranked)
        plain[i : i + 2] = [plain[i] + plain[i + 1]]
    assert merge(list(text), lambda a, b: ranks.get(a + b)) == plain


@given(st.text("ab ", max_size=30), st.sets(st.text("ab", min_size=1, max_size=4), max_size=6), st.booleans())
def test_specials_take_longest_first(text: str, tokens: set[str], strip: bool) -> None:
    order = sorted(tokens, key=lambda t: (-len(t), t))
    ids = {token: i for i, token in enumerate(order)}
    parts: list[str | int] = [text]
    for token in order:
        cut: list[str | int] = []
        for part in parts:
            while isinstance(part, str) and token in part:
                before, part = part.split(token, 1)
                cut += [before, ids[token]]
                part = part.lstrip() if strip else part
            cut.append(part)
        parts = cut
    found = Specials(ids.items(), frozenset(ids.values()) if strip else frozenset()).split(text)
    assert found == [part for part in parts if part != ""]


@pytest.mark.parametrize("text", ["a" * 200_000, "<" * 200_000, "<x>" * 60_000])
def test_specials_stay_linear(text: str) -> None:
    specials = Specials([("<x>", 0), ("<", 1), *((f"<unused{i}>", i + 2) for i in range(5000))], frozenset())
    parts = specials.split(text)
    assert "".join("<x>" if p == 0 else "<" if p == 1 else str(p) for p in parts) == text
