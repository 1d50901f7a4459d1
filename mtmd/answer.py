"""An answer: text that streams, and what it took."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from llm.chat.reasoning import ReasoningSplitter, Split
from llm.generate import TextStream
from llm.sampling import Logprob
from mtmd.prompt import Receipt

Finish = Literal["stop", "length", "loop", "interrupted"]


@dataclass(frozen=True)
class Usage:
    """Tokens; a row of a medium counts as one. `cached` is how many of the prompt's were there already."""

    prompt_tokens: int
    completion_tokens: int
    cached: int


@dataclass(frozen=True)
class Timings:
    """Seconds: loading the files (once), encoding media, reading the prompt besides, decoding."""

    load: float
    encode: float
    prefill: float
    decode: float


class Answer:
    """Iterates over the text as it comes; `text` is all that has come, `reasoning` what was thought before.

    `finish` is None until it ends: "stop" by the model or a stop string, "length" when its number of tokens
    or the context is used up, "loop" when it went in circles, "interrupted" by close. `media` says what
    became of pictures and recordings.
    `logprobs` has an entry for each token so far, the one that ended it included, if they were asked for.
    """

    def __init__(
        self,
        stream: TextStream,
        media: list[Receipt],
        usage: Usage,
        timings: Timings,
        logprobs: Sequence[Logprob] = (),
        splitter: ReasoningSplitter | None = None,
    ) -> None:
        self.text = self.reasoning = ""
        self.finish: Finish | None = None
        self.media, self.usage, self.timings, self.logprobs = media, usage, timings, logprobs
        self._stream, self._splitter = stream, splitter
        self._deltas = self._run()

    def __iter__(self) -> "Answer":
        return self

    def __next__(self) -> str:
        return next(self._deltas)

    def close(self) -> None:
        """End it here."""
        self._deltas.close()
        self.finish = self.finish or "interrupted"

    def _run(self) -> Generator[str, None, None]:
        deltas = iter(self._stream)
        while (delta := self._timed_next(deltas)) is not None:
            if self._splitter:
                delta = self._told_apart(self._splitter.push(delta))
            self.text += delta
            yield delta
        if self._splitter and (rest := self._told_apart(self._splitter.flush())):
            self.text += rest
            yield rest
        self.finish = self._stream.finish

    def _told_apart(self, split: Split) -> str:
        self.reasoning += split.reasoning
        return split.answer

    def _timed_next(self, deltas: Iterator[str]) -> str | None:
        """The next delta, with the time and the tokens it took entered; None at the end."""
        start = time.perf_counter()
        delta = next(deltas, None)
        seconds = time.perf_counter() - start
        self.timings = replace(self.timings, decode=self.timings.decode + seconds)
        self.usage = replace(self.usage, completion_tokens=len(self._stream.ids))
        return delta
