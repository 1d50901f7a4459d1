"""A pipeline that answers at once: what the chat and the reports are tested with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llm.chat.reasoning import ReasoningSplitter
from llm.sampling import Sampling
from mtmd.answer import Answer, Timings, Usage
from mtmd.media import Image
from mtmd.prompt import Receipt


class FakePipeline:
    """Answers every question with `deltas`, and remembers what it was asked."""

    kinds = ("image", "audio")

    def __init__(self, *deltas: str, finish: str = "stop") -> None:
        self.deltas, self.finish = deltas, finish
        self.asked: list[list[dict[str, Any]]] = []
        self.sampling: Sampling | None = None
        self.variables: Mapping[str, Any] | None = None
        self.on_delta: Callable[[], None] = lambda: None
        self.on_progress: Callable[[], None] = lambda: None
        self.failure: Exception | None = None

    def chat(
        self,
        messages: Sequence[dict[str, Any]],
        stream: bool = True,
        n_predict: int = -1,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
        loop_guard: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
        reasoning: str = "none",
        variables: Mapping[str, Any] | None = None,
    ) -> Answer:
        self.asked.append([dict(m) for m in messages])
        self.sampling, self.variables = sampling, variables
        if self.failure:
            raise self.failure
        self.on_progress()
        if progress:
            progress("encode", 1, 2)
            progress("prefill", 5, 9)
        parts = [part for m in messages if m["role"] == "user" for part in m["content"]]
        media = [_receipt(part) for part in parts if part["type"] != "text"]
        fake: Any = FakeStream(self)
        splitter = None if reasoning == "none" else ReasoningSplitter()
        return Answer(fake, media, Usage(9, 0, 2), Timings(0.5, 0.25, 0.1, 0.0), (), splitter)


class FakeStream:
    """Stands for llm.generate.TextStream."""

    def __init__(self, pipeline: FakePipeline) -> None:
        self._pipeline, self.finish = pipeline, pipeline.finish
        self.ids: list[int] = []

    def __iter__(self) -> Iterator[str]:
        for delta in self._pipeline.deltas:
            self.ids.append(len(self.ids))
            yield delta
            self._pipeline.on_delta()


def _receipt(part: dict[str, Any]) -> Receipt:
    medium = part[part["type"]]
    if isinstance(medium, str):
        return Receipt(part["type"], medium, 1.0, 1.0, 1, 7, False, 0.25, ())
    size = medium.original if isinstance(medium, Image) else medium.seconds
    return Receipt(part["type"], medium.source, size, size, 1, 7, False, 0.25, medium.notes)
