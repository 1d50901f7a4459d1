"""Chat messages as turns, and the forms in which templates want them."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from llm.errors import UsageError

Message = Mapping[str, Any]
SYSTEM = ("system", "developer")


@dataclass(frozen=True)
class Part:
    """A text, or the mark that stands for a medium."""

    text: str
    is_media: bool = False


@dataclass(frozen=True)
class Turn:
    """One message: who, the parts of what was said, and further fields (tool calls, say)."""

    role: str
    parts: list[Part]
    fields: Mapping[str, Any] = field(default_factory=dict)

    def as_string(self) -> Message:
        """Content as one string: a line break goes between two texts, none around a medium."""
        text = ""
        before = Part("", is_media=True)
        for part in self.parts:
            text += "\n" * (not before.is_media and not part.is_media) + part.text
            before = part
        return {**self.fields, "role": self.role, "content": text}

    def as_parts(self) -> Message:
        """Content as a list. Media are texts too, or the template would write a placeholder of its own."""
        return {
            **self.fields,
            "role": self.role,
            "content": [{"type": "text", "text": p.text} for p in self.parts],
        }


def read_turns(messages: Sequence[Message]) -> list[Turn]:
    """Checks the messages' structure; media are marked by "" for now. Raises UsageError."""
    return [_read_turn(message) for message in messages]


def _read_turn(message: Message) -> Turn:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise UsageError(f"a message must be an object with a role, not {message!r:.80}")
    if not re.fullmatch(r"[\w-]{1,64}", message["role"]):
        raise UsageError(f"{message['role']!r:.80} cannot be the role of a message")
    content = message.get("content")
    if content is None or isinstance(content, str):
        parts = [Part(content or "")]
    elif isinstance(content, Sequence):
        parts = [_read_part(part) for part in content]
    else:
        raise UsageError(
            f"the content of a message must be text or a list of parts, not {type(content).__name__}"
        )
    return Turn(message["role"], parts, {k: v for k, v in message.items() if k not in ("role", "content")})


def _read_part(part: object) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return Part(text)
        case {"type": "media"}:
            return Part("", is_media=True)
    raise UsageError(f"a part of a message must be text or media, not {part!r:.80}")


def merged(turns: Sequence[Turn]) -> list[Turn]:
    """Neighbours of the same role made one."""
    out: list[Turn] = []
    for turn in turns:
        if out and out[-1].role == turn.role and not turn.fields and not out[-1].fields:
            out[-1] = replace(turn, parts=_joined(out[-1].parts, turn.parts))
        else:
            out.append(turn)
    return out


def folded(turns: Sequence[Turn]) -> list[Turn]:
    """Every system message put in front of the user's next one."""
    out: list[Turn] = []
    pending: list[Part] = []
    for turn in turns:
        if turn.role in SYSTEM:
            pending = _joined(pending, turn.parts)
        elif turn.role == "user":
            out.append(replace(turn, parts=_joined(pending, turn.parts)))
            pending = []
        else:
            out.append(turn)
    return [*out, Turn("user", pending)] if pending else out


def _joined(first: list[Part], second: list[Part]) -> list[Part]:
    """The parts of two messages as those of one, a blank line between texts."""
    if not first or not second or first[-1].is_media:
        return [*first, *second]
    if second[0].is_media:
        return [*first[:-1], Part(first[-1].text + "\n\n"), *second]
    return [*first[:-1], Part(f"{first[-1].text}\n\n{second[0].text}"), *second[1:]]


Form = Callable[[Sequence[Turn]], list[Turn]]
FORMS: Sequence[Form] = (list, merged, folded, lambda turns: merged(folded(turns)))
Style = Callable[[Turn], Message]
# Most templates take strings (media always travel as text, so nothing is lost by it); some loop over parts,
# and of these some do so for certain roles only.
STYLES: Sequence[Style] = (
    Turn.as_string,
    lambda turn: turn.as_parts() if turn.role == "user" else turn.as_string(),
    lambda turn: turn.as_string() if turn.role in SYSTEM else turn.as_parts(),
    Turn.as_parts,
)


def forms(turns: Sequence[Turn]) -> Iterable[list[Turn]]:
    """`turns` in each form that differs from those before, the least changed first."""
    seen: list[list[Turn]] = []
    # Most templates want the arguments of a call as an object, some as the JSON text of OpenAI's clients.
    for change, form in product((_parsed, _dumped), FORMS):
        changed = form([_with_arguments(turn, change) for turn in turns])
        if changed not in seen:
            seen.append(changed)
            yield changed


def _with_arguments(turn: Turn, change: Callable[[Any], Any]) -> Turn:
    """`turn` with the arguments of its calls changed."""
    calls = turn.fields.get("tool_calls")
    if not isinstance(calls, list):
        return turn
    changed = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and "arguments" in function:
            call = {**call, "function": {**function, "arguments": change(function["arguments"])}}
        changed.append(call)
    return replace(turn, fields={**turn.fields, "tool_calls": changed})


def _parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _dumped(arguments: Any) -> Any:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
