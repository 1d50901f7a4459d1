"""Calls of tools in the forms of several families, whatever the cuts of the stream."""

import time

import pytest

from llm.chat.tools import ToolCall, ToolParser

HI = ToolCall("hi", '{"n": 1}')


def parse(pieces: list[str]) -> tuple[str, list[ToolCall]]:
    parser = ToolParser(["hi"])
    parts = [*map(parser.push, pieces), parser.flush()]
    return "".join(p.text for p in parts), [call for p in parts for call in p.calls]


@pytest.mark.parametrize(
    ("answer", "text", "calls"),
    [
        ('Well\n<tool_call>\n{"name": "hi", "arguments": {"n": 1}}\n</tool_call>', "Well\n", [HI]),
        ('<tool_call>{"name": "hi", "arguments": "{\\"n\\": 1}"}</tool_call> so', " so", [HI]),
        ('<tool_call>{"name": "hi", "arguments": {"n": 1}}', "", [HI]),
        ('<tool_call>\n{"name": "hi", "arguments": {"n": 1}}\n</tool_call>' * 2, "", [HI, HI]),
        (
            "<tool_call>\n<function=hi>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
            "",
            [HI],
        ),
        ('[TOOL_CALLS] [{"name": "hi", "arguments": {"n": 1}, "id": "a"}]', "", [HI]),
        ('[TOOL_CALLS]hi[ARGS]{"n": 1}[TOOL_CALLS]hi{"n": 1}', "", [HI, HI]),
        ('<|python_tag|>{"name": "hi", "parameters": {"n": 1}}', "", [HI]),
        (' {"name": "hi", "parameters": {"n": 1}}', "", [HI]),
        ('{"name": "hi", "parameters": {"n": 1}}; {"name": "hi", "parameters": {"n": 1}}', "", [HI, HI]),
        ('{"name": "other", "parameters": {}}', '{"name": "other", "parameters": {}}', []),
        ("<tool_call>never</tool_call>!", "<tool_call>never</tool_call>!", []),
        ("a < b [TOOL <tool", "a < b [TOOL <tool", []),
        ("[" * 5000, "[" * 5000, []),
        ("", "", []),
    ],
)
def test_any_cut_gives_the_same(answer: str, text: str, calls: list[ToolCall]) -> None:
    assert parse([answer]) == (text, calls)
    assert parse(list(answer)) == (text, calls)


def test_words_come_at_once() -> None:
    parser = ToolParser(["hi"])
    assert parser.push("one <to") == ("one ", [])
    assert parser.push("ken") == ("<token", [])


def test_long_arguments_are_read_once() -> None:
    start = time.perf_counter()
    answer = '<tool_call>{"name": "hi", "arguments": {"n": "' + "x" * 200_000 + '"}}</tool_call>'
    _, calls = parse([answer[i : i + 4] for i in range(0, len(answer), 4)])
    assert len(calls) == 1 and time.perf_counter() - start < 5
