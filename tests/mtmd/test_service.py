"""The thread that owns a pipeline: events, turns, cancelling, the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from llm.errors import MediaError, ModelError
from llm.kernels import reference
from mtmd.service import (
    BusyError,
    Cancelled,
    ClosedError,
    Done,
    Event,
    Failed,
    Piece,
    Progress,
    Question,
    Read,
    Service,
)
from mtmd.turns import Turns
from tests.apps.fake_pipeline import FakePipeline


def question(text: str = "Hello") -> Question:
    return Question([{"role": "user", "content": [{"type": "text", "text": text}]}])


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline("A ", "red ", "circle.")


@pytest.fixture
def service(pipeline: FakePipeline) -> Iterator[Service]:
    service = Service(lambda: pipeline)
    yield service
    service.close(1.0)


def ask(service: Service) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in service.stream(question())]

    return asyncio.run(collect())


class Blocked:
    """Holds the service in the middle of a question, from `with` to its end."""

    def __init__(self, pipeline: FakePipeline, service: Service) -> None:
        self._go, self._there = threading.Event(), threading.Event()
        self.told: list[Event] = []

        def wait() -> None:
            pipeline.on_delta = lambda: None
            self._there.set()
            self._go.wait(10)

        pipeline.on_delta = wait
        self.job = service.submit(question("blocked"), self.told.append)

    def __enter__(self) -> Blocked:
        assert self._there.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._go.set()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_events_come_in_order_and_end_with_the_answer(service: Service) -> None:
    events = ask(service)
    stages = [event.stage for event in events if isinstance(event, Progress)]
    assert stages == ["wait", "encode", "prefill"]
    [read] = [event for event in events if isinstance(event, Read)]
    assert read.usage.prompt_tokens == 9
    assert "".join(event.text for event in events if isinstance(event, Piece)) == "A red circle."
    assert [event.n_tok for event in events if isinstance(event, Piece)] == [1, 2, 3]
    assert isinstance(events[-1], Done) and events[-1].answer.text == "A red circle."
    assert not any(isinstance(event, Done | Failed) for event in events[:-1])


def test_thoughts_are_pieces_of_their_own(service: Service, pipeline: FakePipeline) -> None:
    pipeline.deltas = ("<think>red", "ness</think>", "A circle.")
    told: list[Event] = []
    asked = question()
    service.submit(Question(asked.messages, reasoning="deepseek"), told.append)
    service.close()
    pieces = [event for event in told if isinstance(event, Piece)]
    assert "".join(p.reasoning for p in pieces) == "redness"
    assert "".join(p.text for p in pieces) == "A circle."


def test_a_failure_is_an_event_and_the_thread_goes_on(service: Service, pipeline: FakePipeline) -> None:
    for failure in (MediaError("no picture"), ZeroDivisionError("x")):
        pipeline.failure = failure
        last = ask(service)[-1]
        assert isinstance(last, Failed) and last.error is failure
    pipeline.failure = None
    assert isinstance(ask(service)[-1], Done)


def test_loading_fails_where_the_service_is_made() -> None:
    def load() -> FakePipeline:
        raise ModelError("no such model")

    with pytest.raises(ModelError, match="no such model"):
        Service(load)


def test_all_questions_are_answered_in_one_thread(service: Service, pipeline: FakePipeline) -> None:
    threads = set()
    pipeline.on_progress = lambda: threads.add(threading.current_thread().name)
    ends = [threading.Thread(target=ask, args=[service]) for _ in range(4)]
    for end in ends:
        end.start()
    for end in ends:
        end.join(10)
    assert threads == {"service"} and len(pipeline.asked) == 4


def test_clients_take_turns(service: Service, pipeline: FakePipeline) -> None:
    with Blocked(pipeline, service):
        for text, client in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c")):
            service.submit(question(text), lambda _: None, client)
    service.close()
    texts = [asked[0]["content"][0]["text"] for asked in pipeline.asked]
    assert texts == ["blocked", "a1", "b1", "c1", "a2", "a3"]


def test_a_full_queue_is_an_error_that_says_when_to_come_back(pipeline: FakePipeline) -> None:
    service = Service(lambda: pipeline, max_waiting=2)
    with Blocked(pipeline, service):
        jobs = [service.submit(question(), lambda _: None) for _ in range(2)]
        with pytest.raises(BusyError, match="2 questions wait already") as busy:
            service.submit(question(), lambda _: None)
        assert busy.value.retry_after > 0
        jobs[0].cancel()  # makes room at once
        service.submit(question(), lambda _: None)
    service.close()
    assert len(pipeline.asked) == 3


def test_one_cancelled_while_it_waits_ends_at_once_and_is_never_begun(
    service: Service, pipeline: FakePipeline
) -> None:
    with Blocked(pipeline, service):
        told: list[Event] = []
        job = service.submit(question(), told.append)
        job.cancel()
        job.cancel()
        assert isinstance(told[0], Progress) and told[0].total == 1
        assert [type(event.error) for event in told if isinstance(event, Failed)] == [Cancelled]
    service.close()
    assert len(pipeline.asked) == 1


def test_one_cancelled_in_the_middle_ends_before_the_next_token(
    service: Service, pipeline: FakePipeline
) -> None:
    with Blocked(pipeline, service) as blocked:
        blocked.job.cancel()
    until(lambda: isinstance(blocked.told[-1], Failed))
    assert sum(isinstance(event, Piece) for event in blocked.told) == 1
    assert isinstance(ask(service)[-1], Done)


def test_one_cancelled_in_the_middle_of_a_tile_ends_at_the_next_layer(
    service: Service, pipeline: FakePipeline
) -> None:
    weights, told, n_layer = reference.DenseLinear(np.zeros((2, 2), np.float32), None), list[Event](), 0
    ended = threading.Event()

    def tell(event: Event) -> None:
        told.append(event)
        if isinstance(event, Done | Failed):
            ended.set()

    def encode() -> None:
        nonlocal n_layer
        for n_layer in range(100):
            if n_layer == 3:
                job.cancel()
            reference.linear(np.zeros((1, 2), np.float32), weights)

    with Blocked(pipeline, service):  # until there is a job to cancel
        pipeline.on_progress = encode
        job = service.submit(question(), tell)
    assert ended.wait(10)
    assert n_layer == 3 and isinstance(told[-1], Failed) and isinstance(told[-1].error, Cancelled)


def test_leaving_a_stream_cancels(service: Service, pipeline: FakePipeline) -> None:
    pipeline.deltas = ("word ",) * 500  # ten seconds
    pipeline.on_delta = lambda: time.sleep(0.02)

    async def leave() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(service.stream(question()).answer(), 0.1)

    asyncio.run(leave())
    until(lambda: service.n_running == 0)
    assert len(pipeline.asked) == 1


def test_calls_run_in_the_same_thread_and_fail_where_they_are_awaited(service: Service) -> None:
    assert service.call(lambda _: threading.current_thread().name).result(10) == "service"
    with pytest.raises(ZeroDivisionError):
        service.call(lambda _: 1 // 0).result(10)
    assert isinstance(ask(service)[-1], Done)


def test_the_end_waits_and_then_fails_what_is_left(pipeline: FakePipeline) -> None:
    service = Service(lambda: pipeline)
    told: list[Event] = []
    with Blocked(pipeline, service) as blocked:
        service.submit(question(), told.append)
        called = service.call(lambda _: None)
        threading.Timer(0.3, blocked.__exit__).start()
        service.close(0.05)
    for last in (blocked.told[-1], told[-1]):
        assert isinstance(last, Failed) and isinstance(last.error, ClosedError)
    with pytest.raises(ClosedError):
        called.result(0)
    with pytest.raises(ClosedError):
        service.submit(question(), told.append)


def test_turns_give_what_waits_even_when_closed() -> None:
    turns: Turns[str] = Turns(3)
    turns.put("a", "one")
    turns.put("b", "two")
    turns.close()
    assert len(turns) == 2 and turns.remove("two") and not turns.remove("two")
    assert turns.take() == "one" and turns.take() is None
