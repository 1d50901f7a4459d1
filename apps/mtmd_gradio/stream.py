"""From the engine's thread to a page: the events of a job, as an async generator that may be cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from llm.sampling import Sampling
from mtmd_gradio.engine import Engine, Event, Job

FRAME = 0.08  # seconds between two updates of the page


async def stream(
    engine: Engine, messages: Sequence[dict[str, Any]], sampling: Sampling
) -> AsyncIterator[Event]:
    """Events of one question, twelve a second at most, and one a second at least: so a closed tab is noticed.

    Async, because Gradio abandons a plain generator while its thread still computes. When this one is closed,
    by Stop or with the tab, the job is cancelled.
    """
    loop = asyncio.get_running_loop()
    box: asyncio.Queue[Event] = asyncio.Queue()

    def tell(event: Event) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended, and its loop with it
            loop.call_soon_threadsafe(box.put_nowait, event)

    job = Job(messages, sampling, tell)
    engine.submit(job)
    event, shown = Event(status="waiting"), 0.0
    try:
        while not event.last:
            try:
                event = await asyncio.wait_for(box.get(), 1.0)
            except TimeoutError:
                shown = 0.0
            if event.last or time.monotonic() - shown >= FRAME:
                shown = time.monotonic()
                yield event
    finally:
        job.cancel()
