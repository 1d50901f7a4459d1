"""Pre-tokenizers: all compile and lose nothing; each family's own way of cutting."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm.tokenizer.pre import PRE

_SNIPPETS = st.sampled_from(
    [
        "a",
        "Ab",
        "É",
        "é",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "1",
        "2345",
        "'s",
        "'LL",
        "!",
        "...",
        "日本",
        "한",
        "\u0301",
        "\u3000",
        "🙂",
    ]
)


@pytest.mark.parametrize("name", sorted({str(pre.patterns): name for name, pre in PRE.items()}.values()))
@settings(max_examples=15, deadline=None)
@given(parts=st.lists(_SNIPPETS, max_size=20))
def test_words_make_up_the_text(name: str, parts: list[str]) -> None:
    text = "".join(parts)
    words = PRE[name].split(text)
    assert "".join(words) == text
    assert "" not in words


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("gpt-2", "I'll  pay 1234!\n\nok", ["I", "'ll", " ", " pay", " 1234", "!", "\n", "\n", "ok"]),
        ("smollm", "pay 1234", ["pay", " ", "1", "2", "3", "4"]),
        ("llama-bpe", "I'LL pay 12345 (x)\n\n", ["I", "'LL", " pay", " ", "123", "45", " (", "x", ")\n\n"]),
        ("qwen2", "pay 123 .\n", ["pay", " ", "1", "2", "3", " .\n"]),
        ("tekken", "camelCase étudeÉCOLE", ["camel", "Case", " étude", "ÉCOLE"]),
        ("gpt-4o", "it's HTTPServer/\n", ["it's", " HTTPServer", "/\n"]),
        ("falcon", "a==b 12345", ["a", "==", "b", " ", "123", "45"]),
        ("deepseek-llm", "a 漢字 12\n", ["a", " ", "漢字", " ", "12", "\n"]),
        ("deepseek-v3", "x=1234 漢字か", ["x", "=", "123", "4", " ", "漢字か"]),
        ("superbpe", "n=1234567", ["n=", "1", "234", "567"]),
        ("kimi-k2", "漢字abc", ["漢字", "abc"]),
        ("bloom", "a, b. c", ["a", ",", " b", ".", " c"]),
        ("gemma4", "a b\n\nc", ["a b", "\n\n", "c"]),
    ],
)
def test_families(name: str, text: str, words: list[str]) -> None:
    assert PRE[name].split(text) == words


def test_control_characters_are_no_white_space() -> None:
    """Python's own \\s would take the separators 1C..1F in."""
    assert PRE["gpt-2"].split("a\x1cb") == ["a", "\x1c", "b"]
