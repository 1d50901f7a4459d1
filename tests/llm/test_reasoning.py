"""Thoughts told from answers, whatever the cuts of the stream."""

import random

import pytest

from llm.chat.reasoning import MARKS, Marks, ReasoningSplitter, opened

THINK = MARKS[0]


def split(pieces: list[str], first: Marks | None = None) -> tuple[str, str]:
    splitter = ReasoningSplitter(first)
    parts = [*map(splitter.push, pieces), splitter.flush()]
    return "".join(p.reasoning for p in parts), "".join(p.answer for p in parts)


@pytest.mark.parametrize("marks", [m for m in MARKS if m.end], ids=lambda m: m.begin)
def test_each_family(marks: Marks) -> None:
    text = f"{marks.begin}\nI see a <b>cat</b>.\n\nSo: \n{marks.end}{marks.between}\n\nA cat."
    assert split([text]) == ("I see a <b>cat</b>.\n\nSo:", "A cat.")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("\n<think>\na < b </thin k>\n</think>\n\n Yes </think>.", ("a < b </thin k>", "Yes </think>.")),
        ("<think></think>Yes", ("", "Yes")),
        ("<thinner> than\n", ("", "<thinner> than\n")),
        ("  Yes <think>no</think>", ("", "  Yes <think>no</think>")),
        ("<think>never ends\n", ("never ends", "")),
        ("<|channel|>final<|message|>Yes", ("", "Yes")),
        ("<", ("", "<")),
        ("", ("", "")),
    ],
)
def test_any_cut_gives_the_same(text: str, want: tuple[str, str]) -> None:
    assert split(list(text)) == want
    for seed in range(20):
        cuts = sorted(random.Random(seed).choices(range(len(text) + 1), k=3))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert split(pieces) == want


def test_thought_opened_by_the_prompt() -> None:
    assert opened("<|im_start|>assistant\n<think>\n") is THINK
    assert opened("<|im_start|>assistant\n<think>\n\n</think>\n\n") is None
    assert opened("<|im_start|>assistant\n") is None
    assert split(["hm", " hm</th", "ink>\n\nYes"], THINK) == ("hm hm", "Yes")


def test_tags_after_the_thought_are_text_b109() -> None:
    assert split(["<think>a</think>Write </think> or <think>."]) == ("a", "Write </think> or <think>.")


def test_streams_at_once() -> None:
    splitter = ReasoningSplitter()
    assert splitter.push("<think>") == ("", "")
    assert splitter.push("one") == ("one", "")
    assert splitter.push(" two </") == (" two", "")
    assert splitter.push("b>") == (" </b>", "")
    assert splitter.push("</think>") == ("", "")
    assert splitter.push("\n\nYes") == ("", "Yes")


def test_a_long_thought_is_not_read_twice() -> None:
    splitter = ReasoningSplitter()
    splitter.push("<think>")
    for _ in range(20_000):
        splitter.push("word word ")
    assert len(splitter._held) < 80
