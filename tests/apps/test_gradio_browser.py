"""The page in a real browser that reaches this machine only: pictures, clips, camera, microphone, Stop."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
UPLOADS = tempfile.TemporaryDirectory(prefix="mtmd-test-")
os.environ.setdefault("GRADIO_TEMP_DIR", UPLOADS.name)
pytest.importorskip("gradio")
playwright = pytest.importorskip("playwright.sync_api")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium here")]

from mtmd.media import load_audio, load_image  # noqa: E402
from mtmd.service import Service  # noqa: E402
from mtmd_gradio.main import settings  # noqa: E402
from mtmd_gradio.page import Page  # noqa: E402


class Watched:
    """The embedded model, which also remembers what it was asked, and can be made slow."""

    def __init__(self) -> None:
        import mtmd

        self._pipeline = mtmd.load()
        self._pipeline.describe(np.zeros((64, 64, 3), np.uint8))  # compiles what a fresh checkout has not yet
        self.asked: list[dict[str, Any]] = []
        self.pause, self.n_progress = 0.0, 0

    def chat(self, messages: list[dict[str, Any]], *, progress: Any, **settings: Any) -> Any:
        self.asked.append(messages[0]["content"][0])

        def slowly(stage: str, done: int, total: int) -> None:
            for _ in range(int(self.pause / 0.05)):
                time.sleep(0.05)
                progress(stage, done, total)
                self.n_progress += 1
            progress(stage, done, total)

        return self._pipeline.chat(messages, progress=slowly, **settings)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Watched]]:
    held: list[Watched] = []

    def load() -> Any:
        held.append(Watched())
        return held[0]

    service = Service(load)
    page = Page(service).build().queue(max_size=32)
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **settings("127.0.0.1"))
    yield url, held[0]
    page.close(verbose=False)
    service.close()


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Chromium's flags for a camera whose left half is red, and a microphone that hears a tone."""
    folder = tmp_path_factory.mktemp("devices")
    w, h = 640, 480
    planes = [np.full((h, w), 80), np.full((h // 2, w // 2), 90), np.full((h // 2, w // 2), 240)]  # red
    planes[0][:, w // 2 :], planes[1][:, w // 4 :], planes[2][:, w // 4 :] = 40, 240, 110  # blue
    frame = b"FRAME\n" + b"".join(plane.astype(np.uint8).tobytes() for plane in planes)
    (folder / "camera.y4m").write_bytes(f"YUV4MPEG2 W{w} H{h} F10:1 Ip A1:1 C420\n".encode() + frame * 10)
    with wave.open(str(folder / "microphone.wav"), "wb") as tone:
        tone.setparams((1, 2, 48000, 0, "NONE", ""))
        t = np.arange(48000 * 5) / 48000
        tone.writeframes((12000 * np.sin(2 * np.pi * 440 * t)).astype(np.int16).tobytes())
    return [
        "--no-sandbox",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-video-capture={folder}/camera.y4m",
        f"--use-file-for-fake-audio-capture={folder}/microphone.wav",
    ]


@pytest.fixture
def page(server: tuple[str, Watched], devices: list[str]) -> Iterator[Any]:
    """A fresh page; a request to any other host is refused and fails the test."""
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=BROWSER, args=devices)
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        strangers: list[str] = []

        def only_ours(route: Any) -> None:
            if route.request.url.startswith((server[0], "data:", "blob:")):
                route.continue_()
            else:
                strangers.append(route.request.url)
                route.abort()

        page.route("**/*", only_ours)
        page.goto(server[0])
        page.get_by_role("button", name="Ask").wait_for()
        yield page
        browser.close()
    assert strangers == []


def answer(page: Any, box: str, until: str = " tokens in ") -> str:
    """The text in `box` once the line below says that it is complete."""
    page.locator("[role=status]:visible", has_text=until).wait_for(timeout=60_000)
    return str(page.locator(f"#{box} textarea").input_value())


def test_a_picture_is_described_upright(page: Any, samples: Path) -> None:
    page.locator("input[type=file]").first.set_input_files(str(samples / "exif-rotated.jpg"))
    page.get_by_role("button", name="Ask").click()
    assert answer(page, "answer") == "A medium blue star is above a large green square on a pink background."
    assert page.locator("[role=status]:visible", has_text="300 x 400 seen as").is_visible()


def test_a_clip_is_transcribed(page: Any, samples: Path) -> None:
    page.get_by_role("tab", name="Recording").click()
    page.locator("input[type=file]").last.set_input_files(str(samples / "digits-47.wav"))
    page.get_by_role("button", name="Transcribe").click()
    assert answer(page, "transcript") == "4 7"


def test_the_camera_is_not_mirrored(page: Any, server: tuple[str, Watched]) -> None:
    page.get_by_label("Capture from camera").click()
    page.get_by_text("Click to Access Webcam").click()
    page.wait_for_function("document.querySelector('video')?.videoWidth > 0")
    page.wait_for_timeout(500)
    page.get_by_label("capture photo").click()
    page.get_by_label("capture photo").wait_for(state="detached")
    page.wait_for_timeout(500)  # for the upload
    page.get_by_role("button", name="Ask").click()
    answer(page, "answer")
    pixels = load_image(server[1].asked[-1]["image"]).pixels
    left, right = (
        pixels[:, : pixels.shape[1] // 3].mean((0, 1)),
        pixels[:, -pixels.shape[1] // 3 :].mean((0, 1)),
    )
    assert left[0] > left[2] and right[2] > right[0], (left, right)


def test_the_microphone_is_heard(page: Any, server: tuple[str, Watched]) -> None:
    page.get_by_role("tab", name="Recording").click()
    page.get_by_label("Record audio").first.click()
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Stop", exact=True).first.click()
    page.wait_for_timeout(2000)
    page.get_by_role("button", name="Transcribe").click()
    answer(page, "transcript")
    heard = load_audio(server[1].asked[-1]["audio"])
    spectrum = np.abs(np.fft.rfft(heard.samples))
    assert heard.rate == 48000 and 1 < heard.seconds < 4
    assert abs(spectrum.argmax() / heard.seconds - 440) < 3


def test_stop_stops_the_computation_and_the_next_question_is_answered(
    page: Any, server: tuple[str, Watched], samples: Path
) -> None:
    watched = server[1]
    page.locator("input[type=file]").first.set_input_files(str(samples / "star.jpg"))
    watched.pause = 20.0
    page.get_by_role("button", name="Ask").click()
    page.locator("[role=status]:visible", has_text="looking").wait_for(timeout=20_000)
    page.get_by_role("button", name="Stop").first.click()
    page.locator("[role=status]:visible", has_text="stopped").wait_for(timeout=5_000)
    page.wait_for_timeout(300)
    n_progress = watched.n_progress
    page.wait_for_timeout(500)
    assert watched.n_progress == n_progress, "it went on after Stop"
    watched.pause = 0.0
    page.get_by_role("button", name="Ask").click()
    assert "purple star" in answer(page, "answer")


def test_an_unreadable_file_is_a_message_and_not_markup(page: Any, tmp_path: Path) -> None:
    odd = tmp_path / "<img src=x onerror=alert(1)>.png"
    odd.write_bytes(b"no picture")
    page.on("dialog", lambda dialog: pytest.fail("the file name ran as a script"))
    page.locator("input[type=file]").first.set_input_files(str(odd))
    page.wait_for_timeout(1000)
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("which is not read here").or_(page.get_by_text("neither a picture")).first.wait_for(
        timeout=20_000
    )
