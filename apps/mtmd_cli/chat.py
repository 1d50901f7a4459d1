"""The chat: lines that are commands, media or questions."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from llm.errors import LlmError, MediaError, UsageError
from mtmd_cli.console import Console
from mtmd_cli.paths import named_files
from mtmd_cli.request import Part, Request, media_part, text_part
from mtmd_cli.turn import Interrupts, Stopped, Turn
from mtmd_flags.texts import read_text

HELP = """\
/image PATH   show it a picture          /clear   forget everything but the system message
/audio PATH   let it hear a recording    /regen   answer the last question again
/read PATH    let it read a text file    /exit    leave, and so does Ctrl-D
All three go with your next line. A line that is the path of a picture or recording attaches it, too.
Ctrl-C stops an answer, and leaves when there is none."""


class Chat:
    """A conversation: the messages so far, and the parts that wait for the next."""

    def __init__(self, request: Request, turn: Turn, console: Console) -> None:
        self._turn, self._console = turn, console
        self._opening = request.opening()
        self._messages: list[dict[str, Any]] = list(self._opening)
        self._waiting: list[Part] = list(request.media)
        self._commands: dict[str, Callable[[str], None]] = {
            "/image": lambda path: self._attach(path, "image"),
            "/audio": lambda path: self._attach(path, "audio"),
            "/read": self._read,
            "/clear": self._clear,
            "/regen": self._regenerate,
            "/help": lambda _: print(HELP, file=sys.stderr),
        }

    def run(self) -> None:
        """Until /exit or the end of the input; KeyboardInterrupt when Ctrl-C finds no answer to stop."""
        _enable_line_editing()
        self._console.note("chat; /image PATH and /audio PATH attach, /help says more, /exit leaves")
        while (line := _next_line()) is not None:
            word, _, argument = line.strip().partition(" ")
            if word in ("/exit", "/quit"):
                return
            try:
                if word in self._commands:
                    self._commands[word](argument.strip())
                elif line.strip():
                    self._say(line)
            except LlmError as error:
                self._console.error(error)

    def _say(self, line: str) -> None:
        if files := named_files(line):
            self._attach_all(files)
        elif line.startswith("/"):
            raise UsageError(f"{line.split()[0]} is no command; /help lists them")
        else:
            self._messages.append({"role": "user", "content": [*self._waiting, text_part(line)]})
            self._waiting.clear()
            self._answer()

    def _answer(self) -> None:
        """Answer the last message; it is taken back when that cannot be done."""
        with Interrupts() as interrupts:
            try:
                answer = self._turn.run(self._messages, lambda: interrupts.stopped)
            except Stopped:
                self._messages.pop()
                self._console.note("stopped; the question is taken back")
            except LlmError:
                self._messages.pop()
                raise
            else:
                self._messages.append({"role": "assistant", "content": answer.text})

    def _attach(self, path: str, kind: str) -> None:
        if not path:
            raise UsageError(f"/{kind} needs a path")
        self._attach_all(named_files(path) or [path], kind)

    def _attach_all(self, files: Sequence[str], kind: str | None = None) -> None:
        for file in files:
            try:
                part = media_part(file, kind)
            except MediaError as error:
                raise MediaError(f"{error} (/read takes texts)" if kind is None else str(error)) from error
            self._wait(part, file)

    def _read(self, path: str) -> None:
        for name in named_files(path) or [path]:
            self._wait(text_part(read_text(name)), name)

    def _wait(self, part: Part, name: str) -> None:
        self._waiting.append(part)
        self._console.note(f"{os.path.basename(name)} ({part['type']}) goes with your next line")

    def _clear(self, _: str) -> None:
        self._messages = list(self._opening)
        self._waiting.clear()
        self._console.note("forgotten")

    def _regenerate(self, _: str) -> None:
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._messages.pop()
            self._answer()
        else:
            self._console.note("there is no answer yet")


def _enable_line_editing() -> None:
    """Arrow keys, history and Tab for file names in input(), where the platform has readline."""
    if not sys.stdin.isatty():
        return
    with contextlib.suppress(ImportError):
        import readline

        readline.set_completer_delims(" \t\n")
        readline.parse_and_bind("tab: complete")


def _next_line() -> str | None:
    """A line of the user's, None at the end. The prompt sign goes to terminals only."""
    try:
        return input("> " if sys.stdin.isatty() and sys.stdout.isatty() else "")
    except EOFError:
        return None
