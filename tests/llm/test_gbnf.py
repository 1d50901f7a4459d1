import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm.errors import UsageError
from llm.gbnf import to_lark
from llm.grammar import Grammar
from llm.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(samples: Path) -> Tokenizer:
    return Tokenizer.from_gguf(samples / "scenes-text.gguf")


def lark(text: str) -> str:
    return to_lark(text, {"<think>": 5}.get)


def matches(tokenizer: Tokenizer, grammar: str, text: str) -> bool:
    """Whether a grammar lets all of `text` come, byte by byte, and end there."""
    matcher = Grammar("gbnf", grammar).matcher(tokenizer)
    tok_of = {tokenizer.piece(tok): tok for tok in range(300) if len(tokenizer.piece(tok)) == 1}
    try:
        for byte in text.encode():
            matcher.accept(tok_of[bytes([byte])])
    except UsageError:
        return False
    return bool(matcher.allowed(tokenizer.n_vocab)[sorted(tokenizer.eog)].all())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rule root"),
        ('x ::= "a"', "no rule root"),
        ("root ::= x", "line 1: rule x is not defined"),
        ('root ::= "a"\n\nroot ::= "b"', "line 3: rule root is defined twice"),
        ('root ::= "a', "line 1: '\"a' cannot be read"),
        ("root ::= [a", "cannot be read"),
        ("root ::= []", "an empty set"),
        ("root ::= [z-a]", "the range z-a is empty"),
        ('root ::= "a" ) "b"', r"'\)' was not expected"),
        ('root ::= ("a"', "before the bracket is closed"),
        ("root ::= (" + "(" * 5000, "more than 100 open brackets"),
        ('root ::= "a"{2001}', "at most 2000 times"),
        ('root ::= "a"{3,2}', "smaller than the first"),
        (r'root ::= "\q"', r"\\q is no escape"),
        (r'root ::= "\uD800"', "is no character"),
        (r'root ::= "\UFFFFFFFF"', "is no character"),
        ("root ::= <nope>", "no token <nope>"),
        ('root = "a"', "cannot be read"),
        ('root "a"', "where ::= was expected"),
        ('root ::= "a"\n"b"', "where the name of a rule was expected"),
        ('root ::= "a"\n* ::= "b"', "line 2"),
    ],
)
def test_complaints_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lark(text)


def test_tokens() -> None:
    assert lark("root ::= <think> !<think>* <[7]>").splitlines()[1] == "r0: <[5]> (<[^5]>)* <[7]>"


def test_lines_break_after_a_bar_and_in_brackets_only() -> None:
    one = lark('root ::= "a" | ("b" "c") # said\n x ::= "d"')
    assert lark('root ::= "a" |\n ("b"\n "c"\n) \nx ::= # said\n "d"') == one


@pytest.mark.parametrize(
    ("grammar", "right", "wrong"),
    [
        ('root ::= [a-z]+ "x"', ["ax", "xx", "axbx"], ["a", "x", "axb"]),
        ('root ::= "a" root "b" | ""', ["", "ab", "aabb"], ["a", "aab", "abab"]),
        ('root ::= root "b" | "a"', ["a", "abb"], ["b", "ba"]),
        (r"root ::= [^\n\x41-]{2,3}", ["bé", "漢B😀"], ["b", "bA", "b-", "b\n", "bbbb"]),
        (r'root ::= "\x41\u00e9\U0001F600\t\"\\"', ['Aé😀\t"\\'], ["Aé"]),
        ("root ::= [-+]? [0-9]+ [a-]", ["-1a", "12-"], ["--1a", "a"]),
        ('root ::= . | "ab"{2}', ["\n", "é", "abab"], ["ab", "éé"]),
        ("root ::= Some-Rule{3,}\nSome-Rule ::= [/\"'`$]", ["/\"'", "$$$$"], ["//", "abc"]),
    ],
)
def test_language(tokenizer: Tokenizer, grammar: str, right: list[str], wrong: list[str]) -> None:
    assert [text for text in right if not matches(tokenizer, grammar, text)] == []
    assert [text for text in wrong if matches(tokenizer, grammar, text)] == []


# pairs of the same thing: as GBNF, as a regular expression
pairs = st.recursive(
    st.sampled_from([('"a"', "a"), ('"ab"', "ab"), ("[ab]", "[ab]"), ("[^a]", "[^a]"), ('""', "")]),
    lambda inner: (
        st.tuples(inner, inner).map(lambda t: (f"({t[0][0]} | {t[1][0]})", f"({t[0][1]}|{t[1][1]})"))
        | st.tuples(inner, inner).map(lambda t: (f"{t[0][0]} {t[1][0]}", t[0][1] + t[1][1]))
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(
            lambda t: (f"({t[0][0]}){t[1]}", f"({t[0][1]}){t[1]}")
        )
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(pair=pairs, texts=st.lists(st.text("abc", max_size=6), min_size=1, max_size=6))
def test_regular_grammars_match_what_regular_expressions_do(
    tokenizer: Tokenizer, pair: tuple[str, str], texts: list[str]
) -> None:
    grammar, pattern = pair
    for text in texts:
        assert matches(tokenizer, f"root ::= {grammar}", text) == bool(re.fullmatch(pattern, text))
