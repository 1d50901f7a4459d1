"""One thread owns the model. Handlers hand it questions and are told of every piece of the answer."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llm.errors import LlmError
from llm.sampling import Sampling
from mtmd.answer import Answer
from mtmd.pipeline import Pipeline

log = logging.getLogger(__name__)

STAGES = {"encode": "looking, tile {} of {}", "prefill": "reading, {} of {} tokens"}


@dataclass(frozen=True)
class Event:
    """How far a job is: the text so far, a line about it; at last the answer, or what went wrong."""

    text: str = ""
    status: str = ""
    answer: Answer | None = None
    error: str | None = None

    @property
    def last(self) -> bool:
        return self.answer is not None or self.error is not None


class Cancelled(Exception):  # noqa: N818 - not an error: the user's wish
    """The job is not wanted any more."""


class Job:
    """One question. `tell` is called in the engine's thread and must not raise.

    `cancel` ends it at the next tile, batch of the prompt or token.
    """

    def __init__(
        self, messages: Sequence[dict[str, Any]], sampling: Sampling, tell: Callable[[Event], None]
    ) -> None:
        self.messages, self.sampling, self.tell = messages, sampling, tell
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Raises Cancelled."""
        if self._cancelled.is_set():
            raise Cancelled


class Engine:
    """Answers jobs in the order in which they come."""

    def __init__(self, load: Callable[[], Pipeline]) -> None:
        """Load the pipeline in the thread that will use it. Raises what `load` raises."""
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._loaded: queue.Queue[Exception | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, args=[load], name="engine", daemon=True)
        self._thread.start()
        if error := self._loaded.get():
            raise error

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def close(self) -> None:
        """End the thread once the jobs that were submitted are done."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self, load: Callable[[], Pipeline]) -> None:
        try:
            pipeline = load()
        except Exception as error:
            self._loaded.put(error)
            return
        self._loaded.put(None)
        while job := self._jobs.get():
            try:
                _answer(pipeline, job)
            except Cancelled:
                job.tell(Event(error="stopped"))
            except LlmError as error:
                job.tell(Event(error=str(error)))
            except Exception as error:  # a question must not end the thread that all others wait for
                log.exception("a question failed")
                job.tell(Event(error=f"this should not happen: {type(error).__name__}: {error}"))


def _answer(pipeline: Pipeline, job: Job) -> None:
    def progress(stage: str, done: int, total: int) -> None:
        job.check()
        job.tell(Event(status=STAGES[stage].format(done, total)))

    job.check()
    answer = pipeline.chat(job.messages, sampling=job.sampling, progress=progress)
    try:
        for _ in answer:
            job.check()
            job.tell(Event(answer.text, f"{answer.usage.completion_tokens} tokens"))
    finally:
        answer.close()
    job.tell(Event(answer.text, answer=answer))
