"""The events of a question, as a page shows them: an async generator that may be cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm.errors import LlmError
from llm.sampling import Sampling
from mtmd.answer import Answer
from mtmd.service import Cancelled, Done, Event, Failed, Piece, Progress, Question, Read, Service

FRAME = 0.08  # seconds between two updates of the page
STAGES = {
    "wait": "waiting, {} of {} done",
    "encode": "looking, tile {} of {}",
    "prefill": "reading, {} of {} tokens",
}


@dataclass(frozen=True)
class Shown:
    """How far an answer is: the text so far, a line about it; at last the answer, or what went wrong."""

    text: str = ""
    status: str = ""
    answer: Answer | None = None
    error: str | None = None

    @property
    def last(self) -> bool:
        return self.answer is not None or self.error is not None


async def stream(
    service: Service, messages: Sequence[dict[str, Any]], sampling: Sampling
) -> AsyncIterator[Shown]:
    """One question, shown twelve times a second at most, and once at least: so a closed tab is noticed.

    Async, because Gradio abandons a plain generator while its thread still computes. When this one is closed,
    by Stop or with the tab, the question is cancelled.
    """
    shown, at = Shown(status="waiting"), 0.0
    try:
        events = service.stream(Question(messages, sampling))
    except LlmError as error:
        yield Shown(error=str(error))
        return
    try:
        while not shown.last:
            try:
                shown = after(shown, await asyncio.wait_for(anext(events), 1.0))
            except TimeoutError:
                at = 0.0
            if shown.last or time.monotonic() - at >= FRAME:
                at = time.monotonic()
                yield shown
    finally:
        events.close()


def after(shown: Shown, event: Event) -> Shown:
    """What is shown once `event` has come."""
    match event:
        case Progress("wait", _, 0) | Read():
            return shown
        case Progress(stage, done, total):
            return replace(shown, status=STAGES[stage].format(done, total))
        case Piece(text, _, n_tok):
            return Shown(shown.text + text, f"{n_tok} tokens")
        case Done(answer):
            return Shown(answer.text, answer=answer)
        case Failed(Cancelled()):
            return replace(shown, error="stopped")
        case Failed(LlmError() as error):
            return replace(shown, error=str(error))
        case Failed(error):
            return replace(shown, error=f"this should not happen: {type(error).__name__}: {error}")
