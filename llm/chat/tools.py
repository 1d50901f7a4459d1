"""Calls of tools in what a model writes, told from its words while the text streams."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from llm.chat.reasoning import overlap


@dataclass(frozen=True)
class ToolCall:
    """A tool's name, and its arguments as the JSON text of an object."""

    name: str
    arguments: str


class ToolSplit(NamedTuple):
    """What is new in a stream: words for the reader, and calls that are complete."""

    text: str
    calls: list[ToolCall]


class _NoCallError(ValueError):
    """Not a call after all."""


def _from_json(body: str) -> list[ToolCall]:
    """{"name": ..., "arguments" or "parameters": {...}}, or a list of such, or several in a row."""
    decoder = json.JSONDecoder()
    calls: list[ToolCall] = []
    at = 0
    while at < len(body):
        value, at = decoder.raw_decode(body, at)
        calls += map(_call, value if isinstance(value, list) else [value])
        at += len(body[at:]) - len(body[at:].lstrip(" \t\r\n;,"))
    return calls


def _call(value: Any) -> ToolCall:
    if not isinstance(value, dict):
        raise _NoCallError
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):  # some models quote them
        arguments = json.loads(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise _NoCallError
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


def _from_hermes(body: str) -> list[ToolCall]:
    """JSON, or <function=NAME> <parameter=KEY> VALUE (Qwen3-Coder); values that are no JSON are strings."""
    if not body.startswith("<"):
        return _from_json(body)
    return [
        ToolCall(name, json.dumps({k: _value(v) for k, v in _PARAMETER.findall(inner)}, ensure_ascii=False))
        for name, inner in _FUNCTION.findall(body)
    ]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*(?=\{)")


def _from_mistral(body: str) -> list[ToolCall]:
    """A list in JSON, or NAME[ARGS]{...}, each after a mark of its own."""
    calls: list[ToolCall] = []
    for part in filter(None, map(str.strip, body.split("[TOOL_CALLS]"))):
        named = _NAMED.match(part)
        if named:
            calls.append(_call({"name": named[1], "arguments": json.loads(part[named.end() :])}))
        else:
            calls += _from_json(part)
    return calls


@dataclass(frozen=True)
class _Form:
    """What stands around calls; without `end` they go on to the end of the answer."""

    begin: str
    end: str
    read: Callable[[str], list[ToolCall]]


_FORMS = (
    _Form("<tool_call>", "</tool_call>", _from_hermes),  # Hermes, Qwen
    _Form("[TOOL_CALLS]", "", _from_mistral),
    _Form("<|python_tag|>", "", _from_json),  # Llama 3
    _Form("<|tool_call|>", "<|/tool_call|>", _from_json),  # Phi-4-mini
    _Form("<tool_calls>", "</tool_calls>", _from_json),
)
_BEGIN = re.compile("|".join(re.escape(form.begin) for form in _FORMS))


class ToolParser:
    """`push` an answer as it comes, `flush` at the end: words at once, calls when they are complete.

    What looks like a call and cannot be read is given back as text. An answer that is nothing but JSON with
    the name of an offered tool is a call, too (Llama 3).
    """

    def __init__(self, names: Iterable[str]) -> None:
        """`names` of the tools that the model was offered."""
        self._names = frozenset(names)
        self._held = ""
        self._form: _Form | None = None  # whose mark has come
        self._searched = 0  # of `_held`, for the end of the calls
        self._fresh = True  # only white space so far

    def push(self, text: str) -> ToolSplit:
        """What is certain and new."""
        self._held += text
        return self._advance(at_end=False)

    def flush(self) -> ToolSplit:
        """The rest: calls without an end, text that might have become a mark."""
        return self._advance(at_end=True)

    def _advance(self, at_end: bool) -> ToolSplit:
        said: list[str] = []
        calls: list[ToolCall] = []
        while self._held:
            found = self._in_calls(at_end) if self._form else self._in_text(at_end)
            if found is None:
                break
            said.append(found.text)
            calls += found.calls
        return ToolSplit("".join(said), calls)

    def _in_text(self, at_end: bool) -> ToolSplit | None:
        """Text up to the next mark."""
        held = self._held
        if self._fresh and held.lstrip()[:1] in ("", "{", "["):
            if not at_end and not _BEGIN.match(held.lstrip()):
                return None
            bare = _read(_from_json, held)
            if bare and all(call.name in self._names for call in bare):
                self._held = ""
                return ToolSplit("", bare)
        self._fresh = False
        if mark := _BEGIN.search(held):
            self._form = next(form for form in _FORMS if form.begin == mark[0])
            self._held, self._searched = held[mark.end() :], 0
            return ToolSplit(held[: mark.start()], [])
        keep = 0 if at_end else max(overlap(held, form.begin) for form in _FORMS)
        if keep == len(held):
            return None
        self._held = held[len(held) - keep :]
        return ToolSplit(held[: len(held) - keep], [])

    def _in_calls(self, at_end: bool) -> ToolSplit | None:
        """The calls between two marks, as text if they cannot be read."""
        assert self._form is not None
        form, end = self._form, -1
        if form.end:
            end = self._held.find(form.end, self._searched)
            self._searched = max(0, len(self._held) - len(form.end))
        if end < 0 and not at_end:
            return None
        body = self._held if end < 0 else self._held[:end]
        closing = "" if end < 0 else form.end
        self._held, self._form = self._held[len(body) + len(closing) :], None
        calls = _read(form.read, body)
        return ToolSplit("", calls) if calls else ToolSplit(form.begin + body + closing, [])


def _read(read: Callable[[str], list[ToolCall]], body: str) -> list[ToolCall]:
    try:
        return read(body.strip())
    except (ValueError, RecursionError):
        return []
