"""One question and its answer: progress while it is prepared, text as it comes, Ctrl-C, and what it took."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from mtmd.answer import Answer
from mtmd_cli import report
from mtmd_cli.args import Options
from mtmd_cli.console import Console
from mtmd_cli.output import Output

if TYPE_CHECKING:
    from llm.sampling import Sampling
    from mtmd.pipeline import Pipeline

STAGES = {"encode": "encoding tile {} of {}", "prefill": "reading the prompt, {} of {} tokens"}


class Stopped(Exception):  # noqa: N818 - not an error: the user's wish
    """Ctrl-C before the answer began."""


class Interrupts:
    """Ctrl-C while an answer is made: the first asks for its end, the second leaves the program."""

    def __init__(self) -> None:
        self.stopped = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _pressed(self, signum: int, frame: FrameType | None) -> None:
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True


class Turn:
    """Puts messages to the pipeline and shows what comes back."""

    def __init__(
        self, pipeline: Pipeline, sampling: Sampling, options: Options, console: Console, output: Output
    ) -> None:
        self._pipeline, self._sampling = pipeline, sampling
        self._options, self._console, self._output = options, console, output

    def run(self, messages: Sequence[dict[str, Any]], stopped: Callable[[], bool] = lambda: False) -> Answer:
        """The answer to `messages`, shown as it comes; cut short, and marked so, once `stopped` says so.

        Raises Stopped when that happens before its first word.
        """

        def progress(stage: str, done: int, total: int) -> None:
            if stopped():
                raise Stopped
            self._console.progress(STAGES[stage].format(done, total))

        answer = self._pipeline.chat(
            messages,
            n_predict=self._options.n_predict,
            sampling=self._sampling,
            loop_guard=self._options.loop_guard,
            progress=progress,
            reasoning=self._options.reasoning_format,
            variables={"enable_thinking": False} if self._options.reasoning_budget == "0" else None,
        )
        for delta in answer:
            self._console.clear()
            if not self._options.json:
                self._output.text(delta)
            if stopped():
                answer.close()
                break
        self._console.clear()
        self._end(answer)
        return answer

    def _end(self, answer: Answer) -> None:
        options = self._options
        warnings = report.warnings(answer, options)
        if options.json:
            self._output.line(json.dumps(report.as_json(answer, options, warnings), ensure_ascii=False))
        else:
            self._output.end()
        for warning in warnings:
            self._console.note(warning)
        if options.verbose:
            for receipt in answer.media:
                self._console.note(report.receipt_line(receipt))
        if options.verbose or options.perf:
            for line in report.timing_lines(answer):
                self._console.note(line)
