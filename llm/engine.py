"""The engine: many sequences at once, built around `step()`.

    engine = Engine(model.arch, n_slot=8, n_ctx=4096)
    job = engine.submit(Request(spans, Sampler(sampling, tokenizer), push=text.push))   # from any thread
    while engine.step():                       # one thread: it owns the model; others `submit` and `cancel`
        ...

A step is one pass through the layers: the next token of each answer under way, and beside them a chunk of
the prompts that are being read. A program around it has one thread that calls `step` as long as it gives
True, then `wait`; `push` is called there with each token, and `job.finish` says how it ended. What goes wrong
in one sequence (an encoder, a grammar that cannot go on, numbers that are not finite) ends that one alone.
(Continuous batching: Yu et al., Orca, OSDI 2022; the shape of the code follows nano-vllm.)
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from llm.cache import KvType
from llm.decoder import Decoder, Part
from llm.errors import LlmError
from llm.kernels.interrupt import interruptible
from llm.kernels.operands import F32
from llm.models import Arch
from llm.sampling import Sampler
from llm.slot import Intake, Slot, without_items
from llm.span import Span, tokens

N_BESIDE = 128  # rows of prompts in a pass while answers are under way: their tokens wait for it
N_LEAST = 32  # rows of one prompt, where several are read at once


class QueueFullError(LlmError):
    """More requests wait than the engine takes."""


Finish = Literal["stop", "length", "cancelled", "error"]


def _go_on(tok: int) -> bool:
    return False


@dataclass(frozen=True)
class Request:
    """What is asked: the prompt, how to choose tokens, and when to end.

    n_predict  tokens at most, -1: as many as fit
    history    what penalties look at besides the new tokens
    push       is told of each token; True ends the answer ("stop")
    """

    spans: Sequence[Span]
    sampler: Sampler
    n_predict: int = -1
    history: Sequence[int] = ()
    push: Callable[[int], bool] = _go_on


@dataclass(eq=False)
class Job:
    """A request on its way. `finish` is None until it ends; `error` says what went wrong.

    n_prompt, n_cached, n_read  rows of the prompt; those that a slot held already; those that are there now
    ids                         tokens so far
    """

    request: Request
    n_prompt: int
    n_cached: int = 0
    n_read: int = 0
    ids: list[int] = field(default_factory=list)
    finish: Finish | None = None
    error: Exception | None = None
    cancelled: bool = False
    slot: Slot | None = None
    intake: Intake | None = None  # until the prompt has been read

    def cancel(self) -> None:
        """End it at the next token or, in an encoder or a prompt, at the next layer. Any thread may."""
        self.cancelled = True

    def end(self, finish: Finish, error: Exception | None = None) -> None:
        self.finish, self.error, self.slot, self.intake = finish, error, None, None


class _Unwanted(Exception):  # noqa: N818 - leaves a pass when a job in it was cancelled
    pass


class Engine:
    """`n_slot` sequences of at most `n_ctx` rows each; `n_waiting` more requests may wait."""

    def __init__(
        self,
        arch: Arch,
        n_slot: int = 4,
        n_ctx: int = 4096,
        n_ubatch: int = 512,
        n_waiting: int = 64,
        kv_type: KvType = "f16",
    ) -> None:
        self.decoder = Decoder(arch, n_ctx, n_slot, kv_type)
        self.n_ubatch, self.n_waiting = n_ubatch, n_waiting
        self._free = list(self.decoder.slots)  # the one that was used longest ago comes first
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._changed = threading.Condition()

    def submit(self, request: Request) -> Job:
        """Have a request answered, first come, first served. Any thread may.

        Raises QueueFullError when too many wait, ContextError when the prompt does not fit a slot.
        """
        job = Job(request, sum(s.n_tok for s in request.spans))
        assert job.n_prompt, "a prompt has at least one row"
        self.decoder.slots[0].check_room(job.n_prompt)
        with self._changed:
            if len(self._waiting) >= self.n_waiting:
                raise QueueFullError(f"{len(self._waiting)} requests wait already: ask again later")
            self._waiting.append(job)
            self._changed.notify_all()
        return job

    def wait(self, seconds: float | None = None) -> bool:
        """Until there is something to do; whether there is."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._waiting or self._running), seconds)

    def step(self) -> bool:
        """One pass; whether there is more to do. A fault of the program ends all jobs, and is raised."""
        self._drop_cancelled()
        self._admit()
        try:
            with interruptible(self._check):
                self._pass(self._next_tokens() + self._next_chunks())
        except _Unwanted:
            self._start_over()
        except Exception as error:
            for job in self._running:
                if not job.finish:
                    self._end(job, "error", error)
            raise
        finally:
            self._running = [job for job in self._running if not job.finish]
        return bool(self._running or self._waiting)

    def _check(self) -> None:
        if any(job.cancelled for job in self._running if not job.finish):
            raise _Unwanted

    def _start_over(self) -> None:
        """After a pass that was left: what it has written counts for nothing."""
        self._drop_cancelled()
        for job in self._running:
            if job.intake:
                self._read(job)

    def _drop_cancelled(self) -> None:
        with self._changed:
            for job in [j for j in self._waiting if j.cancelled]:
                self._waiting.remove(job)
                job.end("cancelled")
        for job in self._running:
            if job.cancelled and not job.finish:
                self._end(job, "cancelled")
        self._running = [job for job in self._running if not job.finish]

    def _end(self, job: Job, finish: Finish, error: Exception | None = None) -> None:
        assert job.slot
        self._free.append(job.slot)
        job.end(finish, error)

    def _admit(self) -> None:
        """Give slots to those that wait, each the one that holds most of its prompt already."""
        while self._free and self._waiting:
            with self._changed:
                job = self._waiting.popleft()
            spans = job.request.spans
            job.slot = slot = max(self._free, key=lambda s: s.common(spans))
            self._free.remove(slot)
            other = max(self.decoder.slots, key=lambda s: s.common(spans))
            same = other.common(spans)
            if same > slot.common(spans):
                self.decoder.copy(other, same, slot)
            job.n_cached = slot.rows_of(same)
            self._running.append(job)
            self._read(job)

    def _read(self, job: Job) -> None:
        """Go on from what of the prompt is in the slot."""
        assert job.slot
        same = job.slot.common(job.request.spans)
        job.slot.keep(same)
        job.n_read = job.slot.n_rows
        job.intake = Intake(job.slot, list(without_items(job.request.spans, same)))

    def _next_tokens(self) -> list[tuple[Job, Part]]:
        return [
            (job, Part(job.slot.next_piece(tokens(job.ids[-1:])), n_want=1))
            for job in self._running
            if job.slot and not job.intake
        ]

    def _next_chunks(self) -> list[tuple[Job, Part]]:
        """Rows of prompts, those first that had none for the longest time."""
        reading = [job for job in self._running if job.intake]
        n_left = N_BESIDE if len(reading) < len(self._running) else self.n_ubatch
        share, parts = max(n_left // max(len(reading), 1), N_LEAST), []
        for job in reading:
            if n_left <= 0:
                break
            parts += (of_job := self._chunk(job, min(share, n_left)))
            n_left -= sum(part.piece.n_tok for _, part in of_job)
            self._running.remove(job)
            self._running.append(job)
        return parts

    def _chunk(self, job: Job, n_max: int) -> list[tuple[Job, Part]]:
        assert job.intake
        try:
            taken = job.intake.take(n_max)
        except _Unwanted:
            raise
        except Exception as error:  # whatever an encoder may raise concerns this sequence alone
            self._end(job, "error", error)
            return []
        last = len(taken) - 1 if not job.intake.n_left else -1
        return [(job, Part(piece, rows, int(i == last))) for i, (piece, rows) in enumerate(taken)]

    def _pass(self, work: list[tuple[Job, Part]]) -> None:
        if not work:
            return
        logits = self.decoder.run([part for _, part in work])
        n_done = 0
        for job, part in work:
            own = logits[n_done : n_done + part.n_want]
            n_done += part.n_want
            if job.finish:
                continue
            assert job.slot
            try:
                if part.n_want:
                    self.decoder.check(own, [part.piece])
                job.slot.remember([part.piece])
                job.n_read = min(job.slot.n_rows, job.n_prompt) if job.intake else job.n_prompt
                if part.n_want:
                    job.intake = None
                    self._choose(job, own[0])
            except Exception as error:  # and so does what its sampler, or who listens, may raise
                self._end(job, "error", error)

    def _choose(self, job: Job, logits: F32) -> None:
        """The next token of an answer, from logits [n_vocab], and whether it is the last."""
        assert job.slot
        r = job.request
        if r.n_predict == 0:
            self._end(job, "length")
            return
        tok = r.sampler.sample(logits, [*r.history, *job.ids])
        job.ids.append(tok)
        if r.push(tok):
            self._end(job, "stop")
        elif len(job.ids) == r.n_predict or job.slot.n_rows == job.slot.n_ctx:
            self._end(job, "length")
