"""One thread owns a pipeline; others hand it questions and are told of the answers as they grow.

    service = Service(mtmd.load)                  # loads in the thread that will compute
    stream = service.stream(Question(messages))   # in a coroutine; raises BusyError when too many wait
    async for event in stream:                    # Progress, Read and Piece, at last Done or Failed
        ...
    service.close()

Without asyncio: `submit(question, tell)` calls `tell(event)` instead. `call(work)` runs a function of the
pipeline in its thread and gives a Future. Closing a stream, or `cancel`, ends a question at the next token or
layer, also within a tile or the prompt; one that still waits is never begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from llm.errors import LlmError
from llm.kernels.interrupt import interruptible
from llm.sampling import Logprob, Sampling
from mtmd.answer import Answer, Usage
from mtmd.pipeline import DEFAULT, Pipeline, Reasoning
from mtmd.prompt import Message, Receipt
from mtmd.turns import BusyError as BusyError
from mtmd.turns import ClosedError as ClosedError
from mtmd.turns import Turns

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What is asked, as the arguments of `Pipeline.chat`; with `prompt`, of `Pipeline.complete` instead."""

    messages: Sequence[Message] = ()
    sampling: Sampling = DEFAULT
    n_predict: int = -1
    stop: tuple[str, ...] = ()
    loop_guard: int = 0
    reasoning: Reasoning = "none"
    variables: Mapping[str, Any] | None = None
    prompt: Sequence[str | list[int] | Message] | None = None


@dataclass(frozen=True)
class Progress:
    """Before the first word: questions ahead, tiles or tokens of the prompt; done and to do."""

    stage: Literal["wait", "encode", "prefill"]
    done: int
    total: int


@dataclass(frozen=True)
class Read:
    """The prompt has been read: what it took, and what became of its media."""

    usage: Usage
    media: Sequence[Receipt]


@dataclass(frozen=True)
class Piece:
    """What is new in an answer: text, thought, the log probabilities of its tokens if asked for.

    `n_tok` counts all tokens so far.
    """

    text: str
    reasoning: str
    n_tok: int
    logprobs: tuple[Logprob, ...] = ()


@dataclass(frozen=True)
class Done:
    """The complete answer. Nothing comes after it."""

    answer: Answer


@dataclass(frozen=True)
class Failed:
    """Why there is no answer: LlmError, Cancelled, or a fault of the program. Nothing comes after it."""

    error: Exception


Event = Progress | Read | Piece | Done | Failed


class Cancelled(Exception):  # noqa: N818 - not an error: the asker's wish
    """The question is not wanted any more."""


class Job:
    """A question on its way. `tell` must not raise, nor take long: the model waits for it."""

    def __init__(self, question: Question, tell: Callable[[Event], None], withdraw: _Withdraw) -> None:
        self.question, self.tell, self._withdraw = question, tell, withdraw
        self._reason: Exception | None = None

    def cancel(self, reason: Exception | None = None) -> None:
        """End it: at once if it waits, else at the next layer or token. Any thread may, repeatedly."""
        self._reason = self._reason or reason or Cancelled("cancelled")
        if self._withdraw(self):
            self.fail(self._reason)

    def fail(self, error: Exception) -> None:
        self.tell(Failed(error))

    def check(self) -> None:
        """Raises what it was cancelled with."""
        if self._reason:
            raise self._reason

    def run(self, pipeline: Pipeline) -> None:
        """Answer, and tell of it. Raises nothing: a question must not end the thread that others wait for."""
        try:
            self.check()
            with interruptible(self.check):
                self._answer(pipeline)
        except (Cancelled, LlmError) as error:
            self.fail(error)
        except Exception as error:
            log.exception("a question failed")
            self.fail(error)

    def _answer(self, pipeline: Pipeline) -> None:
        answer = self._begin(pipeline)
        self.tell(Read(answer.usage, answer.media))
        n_thought = n_logprob = 0
        with contextlib.closing(answer):
            for text in answer:
                self.check()
                thought, logprobs = answer.reasoning[n_thought:], tuple(answer.logprobs[n_logprob:])
                n_thought, n_logprob = n_thought + len(thought), n_logprob + len(logprobs)
                self.tell(Piece(text, thought, answer.usage.completion_tokens, logprobs))
        self.tell(Done(answer))

    def _begin(self, pipeline: Pipeline) -> Answer:
        q = self.question
        if q.prompt is not None:
            return pipeline.complete(
                q.prompt,
                n_predict=q.n_predict,
                sampling=q.sampling,
                stop=q.stop,
                loop_guard=q.loop_guard,
                progress=self._progress,
            )
        return pipeline.chat(
            q.messages,
            n_predict=q.n_predict,
            sampling=q.sampling,
            stop=q.stop,
            loop_guard=q.loop_guard,
            progress=self._progress,
            reasoning=q.reasoning,
            variables=q.variables,
        )

    def _progress(self, stage: Literal["encode", "prefill"], done: int, total: int) -> None:
        self.check()
        self.tell(Progress(stage, done, total))


_Withdraw = Callable[[Job], bool]


class Service:
    """Answers questions one after the other, clients in turn. `pipeline` is there to be looked at only."""

    def __init__(self, load: Callable[[], Pipeline], max_waiting: int = 64) -> None:
        """Load the pipeline in the thread that will use it. Raises what `load` raises."""
        self._turns: Turns[Job | _Call] = Turns(max_waiting)
        self._running: Job | None = None
        self._seconds = 1.0  # that a question takes, about
        loaded: Future[Pipeline] = Future()
        self._thread = threading.Thread(target=self._work, args=[load, loaded], name="service", daemon=True)
        self._thread.start()
        self.pipeline = loaded.result()

    @property
    def n_waiting(self) -> int:
        """Questions that are not begun."""
        return len(self._turns)

    @property
    def n_running(self) -> int:
        return int(self._running is not None)

    def submit(self, question: Question, tell: Callable[[Event], None], client: str = "") -> Job:
        """Ask; `tell` hears of it in the service's thread. `client` names who asks: clients take turns.

        Raises BusyError when too many questions wait, ClosedError after `close`.
        """
        job = Job(question, tell, self._turns.remove)
        tell(Progress("wait", 0, self.n_waiting + self.n_running))
        self._put(client, job)
        return job

    def stream(self, question: Question, client: str = "") -> Stream:
        """Ask from a coroutine. Raises as `submit`."""
        return Stream(lambda tell: self.submit(question, tell, client))

    def call(self, work: Callable[[Pipeline], T], client: str = "") -> Future[T]:
        """The result of `work` in the service's thread, when its turn comes. Raises as `submit`."""
        future: Future[T] = Future()
        self._put(client, _Call(work, future))
        return future

    def close(self, seconds: float | None = None) -> None:
        """Take no more questions, and end. What is not answered after `seconds` (None: ever) fails."""
        self._turns.close()
        self._thread.join(seconds)
        while self._thread.is_alive():
            error = ClosedError("the service has ended before the answer")
            for waiting in self._turns.drain():
                waiting.fail(error)
            if job := self._running:
                job.cancel(error)
            self._thread.join(0.1)

    def _put(self, client: str, job: Job | _Call) -> None:
        self._turns.put(client, job, retry_after=self._seconds * (1 + self.n_waiting))

    def _work(self, load: Callable[[], Pipeline], loaded: Future[Pipeline]) -> None:
        try:
            pipeline = load()
        except Exception as error:
            loaded.set_exception(error)
            return
        loaded.set_result(pipeline)
        while (job := self._turns.take()) is not None:
            if isinstance(job, _Call):
                job.run(pipeline)
                continue
            start, self._running = time.monotonic(), job
            job.run(pipeline)
            self._running = None
            self._seconds += 0.2 * (time.monotonic() - start - self._seconds)


class _Call:
    """A function that wants the pipeline."""

    def __init__(self, work: Callable[[Pipeline], Any], future: Future[Any]) -> None:
        self._work, self._future = work, future

    def run(self, pipeline: Pipeline) -> None:
        if self._future.set_running_or_notify_cancel():
            try:
                self._future.set_result(self._work(pipeline))
            except Exception as error:
                self._future.set_exception(error)

    def fail(self, error: Exception) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_exception(error)


class Stream:
    """The events of one question, in a coroutine's loop; ends after Done or Failed."""

    def __init__(self, submit: Callable[[Callable[[Event], None]], Job]) -> None:
        self._loop = asyncio.get_running_loop()
        self._box: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False
        self._job = submit(self._tell)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Event:
        if self._ended:
            raise StopAsyncIteration
        event = await self._box.get()
        self._ended = isinstance(event, Done | Failed)
        return event

    async def answer(self) -> Answer:
        """The complete answer. Raises what it failed with; cancels it when cancelled itself."""
        try:
            async for event in self:
                if isinstance(event, Done):
                    return event.answer
                if isinstance(event, Failed):
                    raise event.error
        finally:
            self.close()
        raise AssertionError("a question ends with Done or Failed")

    def close(self) -> None:
        """The events are not wanted any more."""
        if not self._ended:
            self._job.cancel()

    def _tell(self, event: Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._box.put_nowait, event)
