"""The page: its handlers, and the server as a client sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm.errors import MediaError
from llm.sampling import Sampling
from mtmd.service import Service
from tests.apps.fake_pipeline import FakePipeline

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
UPLOADS = tempfile.TemporaryDirectory(prefix="mtmd-test-")
os.environ["GRADIO_TEMP_DIR"] = UPLOADS.name
gr = pytest.importorskip("gradio")

from mtmd_gradio.page import Page, line  # noqa: E402
from mtmd_gradio.stream import Shown, stream  # noqa: E402

QUESTION: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline("A ", "red ", "circle.")


@pytest.fixture
def service(pipeline: FakePipeline) -> Iterator[Service]:
    service = Service(lambda: pipeline)
    yield service
    service.close()


def ask(service: Service) -> list[Shown]:
    async def collect() -> list[Shown]:
        return [shown async for shown in stream(service, QUESTION, Sampling())]

    return asyncio.run(collect())


def test_what_is_shown_ends_with_the_answer(service: Service) -> None:
    *before, last = ask(service)
    assert last.text == "A red circle." and last.answer is not None and last.error is None
    assert not any(shown.last for shown in before)


def test_a_failure_is_shown_and_the_next_question_answered(service: Service, pipeline: FakePipeline) -> None:
    for failure, said in (
        (MediaError("no picture"), "no picture"),
        (ZeroDivisionError("x"), "ZeroDivisionError"),
    ):
        pipeline.failure = failure
        assert said in (ask(service)[-1].error or "")
    pipeline.failure = None
    assert ask(service)[-1].text == "A red circle."


def test_too_many_questions_are_an_error_on_the_page(pipeline: FakePipeline) -> None:
    service = Service(lambda: pipeline, max_waiting=0)
    assert "ask again later" in (ask(service)[-1].error or "")
    service.close()


def test_closing_the_stream_stops_the_computation(pipeline: FakePipeline) -> None:
    n_computed = 0

    def compute() -> None:
        nonlocal n_computed
        n_computed += 1
        time.sleep(0.02)

    pipeline.deltas = ("word ",) * 500  # ten seconds
    pipeline.on_delta = compute
    service = Service(lambda: pipeline)

    async def leave_early() -> None:
        shown = stream(service, QUESTION, Sampling())
        async for now in shown:
            if now.text:
                break
        await shown.aclose()

    asyncio.run(leave_early())
    start = time.monotonic()
    service.close()
    assert time.monotonic() - start < 0.3 and n_computed < 50


def test_submit_before_the_recording_has_arrived_is_a_notice_b146(service: Service) -> None:
    async def first(shown: Any) -> None:
        await anext(shown)

    page = Page(service)
    with pytest.raises(gr.Error, match="has not arrived yet"):
        asyncio.run(first(page.transcribe(None, True)))
    with pytest.raises(gr.Error, match="record a clip first"):
        asyncio.run(first(page.transcribe(None, False)))
    with pytest.raises(gr.Error, match="picture first"):
        asyncio.run(first(page.describe(None, "What?")))


def test_text_is_never_markup() -> None:
    assert (
        line("<img src=x onerror=alert(1)>") == '<div role="status">&lt;img src=x onerror=alert(1)&gt;</div>'
    )


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, FakePipeline]]:
    from mtmd_gradio.main import settings

    pipeline = FakePipeline("A ", "red ", "circle.")
    service = Service(lambda: pipeline)
    page = Page(service).build().queue(max_size=32)
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **settings("127.0.0.1"))
    yield url, pipeline
    page.close(verbose=False)
    service.close()


@pytest.fixture(scope="module")
def client(server: tuple[str, FakePipeline]) -> Any:
    from gradio_client import Client

    return Client(server[0], verbose=False, download_files=False)


@pytest.mark.parametrize(
    "name", ["photo-size.jpg", "three-shapes.webp", "exif-rotated.jpg", "circle-and-square.png"]
)
def test_pictures_reach_the_model_byte_for_byte_b145(
    client: Any, server: tuple[str, FakePipeline], samples: Path, name: str
) -> None:
    from gradio_client import handle_file

    pipeline = server[1]
    job = client.submit(handle_file(str(samples / name)), "What is it?", api_name="/describe")
    answer, seen = job.result(30)
    assert answer == "A red circle." and 'role="status"' in seen
    picture, question = pipeline.asked[-1][0]["content"]
    assert Path(picture["image"]).read_bytes() == (samples / name).read_bytes()
    assert question["text"] == "What is it?"


@pytest.mark.parametrize("suffix", [".ogg", ".opus", ".m4a", ".flac", ".mp3", ".wav", ".webm"])
def test_clips_of_any_name_reach_the_model_b145(
    client: Any, server: tuple[str, FakePipeline], tmp_path: Path, suffix: str
) -> None:
    from gradio_client import handle_file

    clip = tmp_path / f"clip{suffix}"
    clip.write_bytes(b"whatever")
    client.submit(handle_file(str(clip)), api_name="/transcribe").result(30)
    assert Path(server[1].asked[-1][0]["content"][0]["audio"]).read_bytes() == b"whatever"


def test_an_error_is_told_with_the_files_own_name(
    client: Any, server: tuple[str, FakePipeline], tmp_path: Path
) -> None:
    from gradio_client import handle_file

    odd = tmp_path / "a<b>.png"
    odd.write_bytes(b"no picture")
    server[1].failure = MediaError(f"{odd}: <no> picture")
    with pytest.raises(Exception, match="&lt;no&gt; picture"):
        client.submit(handle_file(str(odd)), "?", api_name="/describe").result(30)
    server[1].failure = None


def test_a_name_that_is_not_ours_is_turned_away(server: tuple[str, FakePipeline]) -> None:
    request = urllib.request.Request(server[0], headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 400
    assert urllib.request.urlopen(server[0], timeout=10).status == 200


def test_the_page_asks_no_other_host(server: tuple[str, FakePipeline]) -> None:
    shown = urllib.request.urlopen(server[0], timeout=10).read().decode()
    assert "fonts.googleapis.com" not in shown and "cdnjs" not in shown


@pytest.mark.slow
def test_program_starts_answers_and_ends_with_ctrl_c(samples: Path) -> None:
    env = {**os.environ, "MTMD_KERNELS": "reference", "PYTHONUNBUFFERED": "1"}
    program = subprocess.Popen(
        [sys.executable, "-c", "import sys; from mtmd_gradio.main import main; sys.exit(main([]))"],
        stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    try:
        assert program.stderr is not None
        said = program.stderr.readline()
        assert "open http://127.0.0.1:" in said, said
        url = said.split("open ")[1].split()[0]
        assert urllib.request.urlopen(url, timeout=10).status == 200
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 130
    finally:
        program.kill()


def test_a_missing_model_is_one_line_and_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    from mtmd_gradio.main import main

    assert main(["-m", "/no/such.gguf"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("mtmd-gradio: error: ") and "/no/such.gguf" in err and err.count("\n") == 1
