"""Telling what a model thinks from what it answers, while the text streams."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


@dataclass(frozen=True)
class Marks:
    """What a family writes around its thoughts; `between` may follow before the answer begins."""

    begin: str
    end: str
    between: str = ""


MARKS = (
    Marks("<think>", "</think>"),  # DeepSeek-R1, Qwen3, GLM and most others
    Marks("<thinking>", "</thinking>"),
    Marks("<thought>", "</thought>"),
    Marks("<reasoning>", "</reasoning>"),
    Marks("<seed:think>", "</seed:think>"),
    Marks("[THINK]", "[/THINK]"),  # Magistral, Ministral
    Marks("◁think▷", "◁/think▷"),  # Kimi-VL
    Marks("<|START_THINKING|>", "<|END_THINKING|>"),  # Command R7B
    Marks("<|channel>thought\n", "<channel|>"),  # Gemma 4
    # gpt-oss; its <|end|> is text of the stream
    Marks("<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant<|channel|>final<|message|>"),
    Marks("<|channel|>final<|message|>", ""),  # the same without a thought
)
# Longer than any run of white space that a model writes around its thoughts.
_LONGEST_GAP = 64


class Split(NamedTuple):
    """New text of a stream: the part that was thought, and the part that is the answer."""

    reasoning: str
    answer: str


class _At(Enum):
    START = "before either"
    THOUGHT = "inside the thought"
    GAP = "between the thought and the answer"
    ANSWER = "in the answer"


class ReasoningSplitter:
    """Cuts one answer in two: `push` its text as it comes, `flush` at the end.

    A thought stands first or nowhere: once the answer has begun, marks are text that the model quotes. All
    parts together are the text less the marks and the white space around them.
    """

    def __init__(self, opened: Marks | None = None) -> None:
        """`opened`: the prompt ended with the first of these marks, so that the thought goes on at once."""
        self._marks = opened
        self._at = _At.START if opened is None else _At.THOUGHT
        self._held = ""  # not decided yet
        self._begun = False  # some of the thought was shown

    def push(self, text: str) -> Split:
        """What of the text so far is certain and new."""
        self._held += text
        return self._advance(at_end=False)

    def flush(self) -> Split:
        """What was held back because a mark might have come of it."""
        return self._advance(at_end=True)

    def _advance(self, at_end: bool) -> Split:
        reasoning = answer = ""
        if self._at is _At.START:
            self._start(at_end)
        if self._at is _At.THOUGHT:
            reasoning = self._think(at_end)
        if self._at is _At.GAP:
            self._cross(at_end)
        if self._at is _At.ANSWER:
            answer, self._held = self._held, ""
        return Split(reasoning, answer)

    def _start(self, at_end: bool) -> None:
        lead = self._held.lstrip()
        if marks := next((m for m in MARKS if lead.startswith(m.begin)), None):
            self._marks, self._held = marks, lead[len(marks.begin) :]
            self._at = _At.THOUGHT if marks.end else _At.ANSWER
        elif at_end or len(self._held) - len(lead) > _LONGEST_GAP or not _begins_one(lead):
            self._at = _At.ANSWER

    def _think(self, at_end: bool) -> str:
        assert self._marks is not None
        end = self._marks.end
        if not self._begun:
            self._held = self._held.lstrip()
        thought, found, rest = self._held.partition(end)
        if found:
            self._at, self._held = _At.GAP, rest
            thought = thought.rstrip()
        elif at_end:
            self._held = ""
            thought = thought.rstrip()
        else:
            n = overlap(thought, end)
            kept = thought[: len(thought) - n].rstrip()
            thought, self._held = kept, thought[len(kept) :]
        self._begun |= bool(thought)
        return thought

    def _cross(self, at_end: bool) -> None:
        assert self._marks is not None
        between = self._marks.between
        lead = self._held.lstrip()
        if between and lead.startswith(between):
            self._at, self._held = _At.ANSWER, lead[len(between) :].lstrip()
        elif (lead and not between.startswith(lead)) or at_end:
            self._at, self._held = _At.ANSWER, lead


def opened(prompt: str) -> Marks | None:
    """The marks that a prompt (or its end) leaves open: some templates write the first one themselves."""
    end = prompt.rstrip()
    return next((m for m in MARKS if m.end and end.endswith(m.begin.rstrip())), None)


def _begins_one(text: str) -> bool:
    """Whether a mark could still come of `text`."""
    return any(marks.begin.startswith(text) for marks in MARKS)


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of `text` begin `mark`."""
    return next((n for n in range(min(len(text), len(mark) - 1), 0, -1) if text.endswith(mark[:n])), 0)
