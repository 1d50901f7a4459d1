"""mtmd-cli as a process: signals, pipes, terminals, and streams that are closed, full or not UTF-8."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tiny import make_text_gguf

CLI = [sys.executable, "-c", "import sys; from mtmd_cli.main import main; sys.exit(main())"]
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("LLAMA_ARG_")}, "MTMD_KERNELS": "reference"}


def start(*argv: str | bytes, **how: object) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENV}
    return subprocess.Popen([*CLI, *argv], **{**pipes, **how})  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Flags for a random model, whose likeliest answer does not end for many seconds."""
    model = make_text_gguf(tmp_path_factory.mktemp("endless") / "model.gguf", n_ctx=32768)
    return ["-m", str(model), "--temp", "0"]


@pytest.mark.parametrize("moment", ["start", "load", "answer"])
def test_ctrl_c_ends_it_at_once_without_a_word(endless: list[str], moment: str) -> None:
    process = start(*endless, "-p", "Count.", "-v", "-fa")
    assert process.stdout is not None and process.stderr is not None
    assert b"without effect here: -fa" in process.stderr.readline()
    if moment == "load":
        time.sleep(0.3)
    elif moment == "answer":
        process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and b"Traceback" not in err
    assert time.monotonic() - pressed < 2


def test_a_reader_that_leaves_is_no_error_message(samples: Path) -> None:
    process = start("--image", str(samples / "four-shapes.png"), "-p", "Describe this image.", "--temp", "0")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_one_line_and_exit_1(samples: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = start("--image", str(samples / "star.jpg"), "-n", "3", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith(b"mtmd-cli: error: cannot write the answer: ") and err.count(b"\n") == 1


def test_closed_standard_streams(samples: Path) -> None:
    program = " ".join(f"'{word}'" for word in CLI)
    picture = f"--image {samples}/star.jpg -n 1"
    done = subprocess.run(["sh", "-c", f"{program} {picture} >&-"], capture_output=True, env=ENV, timeout=60)
    assert done.returncode == 1 and b"standard output is closed" in done.stderr
    done = subprocess.run(
        ["sh", "-c", f"{program} {picture} <&- 2>&-"], capture_output=True, env=ENV, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout


def test_names_that_are_not_utf_8_and_locales_that_are_not(samples: Path, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9 \xff.jpg"
    Path(os.fsdecode(odd)).write_bytes((samples / "star.jpg").read_bytes())
    env = {**ENV, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    process = start(b"--image", odd, b"-n", b"3", b"-v", env=env)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out and b"star" not in err
    missing = start("--image", "/画像/ü.png", env=env)
    _, err = missing.communicate(timeout=60)
    assert missing.returncode == 4 and "/画像/ü.png: no such file".encode() in err


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *argv: str) -> None:
        master, slave = pty.openpty()
        env = {**ENV, "TERM": "xterm"}
        self.process = subprocess.Popen(
            [*CLI, *argv], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self._master, self.shown = master, ""

    def until(self, pattern: str, seconds: float = 60) -> str:
        """What is shown up to a match of `pattern`."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.shown, re.DOTALL)):
            assert time.monotonic() < end, self.shown
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._master, 4096).decode(errors="replace")
                except OSError:  # the other side is gone
                    assert re.search(pattern, self.shown, re.DOTALL), self.shown
        seen, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return seen

    def type(self, line: str) -> None:
        os.write(self._master, line.encode())


def test_a_chat_on_a_terminal(samples: Path) -> None:
    chat = Terminal("--conversation", "--temp", "0")
    try:
        chat.until("/exit leaves.*> ")
        chat.type(f"/image {samples}/star.jpg\n")
        chat.until("goes with your next line.*> ")
        chat.type("Describe this image.\n")
        chat.until("A large purple star on a light blue background.*> ")
        chat.type("\x1b[A\n")  # the arrow key brings the question back
        chat.until("Describe this image.*> ")
        chat.type("\x04")
        assert chat.process.wait(20) == 0
    finally:
        chat.process.kill()


def test_progress_is_shown_on_a_terminal_and_taken_away(samples: Path) -> None:
    single = Terminal("--image", f"{samples}/star.jpg", "-p", "Describe this image.", "--temp", "0")
    try:
        seen = single.until("background\\.")
        assert "loading the model" in seen and "encoding tile 1 of" in seen
        assert seen.split("\n")[-1].endswith("\rA large purple star on a light blue background.")
        assert single.process.wait(20) == 0
    finally:
        single.process.kill()


def test_ctrl_c_in_a_chat_stops_the_answer_then_the_program(endless: list[str]) -> None:
    chat = Terminal("--conversation", *endless)
    try:
        chat.until("/exit leaves.*> ")
        chat.type("Count.\n")
        chat.until("reading the prompt.*\r +\r.")
        chat.process.send_signal(signal.SIGINT)
        chat.until("\r\n> ", 10)
        time.sleep(0.5)  # readline shows its prompt a moment before it listens
        chat.process.send_signal(signal.SIGINT)
        assert chat.process.wait(10) == 130
        assert "Traceback" not in chat.shown
    finally:
        chat.process.kill()
