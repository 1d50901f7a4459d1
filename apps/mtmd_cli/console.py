"""Standard error: notes, errors and a progress line. Standard output belongs to the answer alone."""

from __future__ import annotations

import logging
import sys


class Console:
    """What a person at the terminal is told; `quiet` leaves errors only."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._shown = 0  # width of the progress line that stands on the terminal

    def error(self, message: object) -> None:
        self._write(f"mtmd-cli: error: {_one_line(str(message))}")

    def note(self, message: str) -> None:
        if not self.quiet:
            self._write(f"mtmd-cli: {_one_line(message)}")

    def progress(self, text: str) -> None:
        """Show what is being done, over what was shown before; only a terminal sees it."""
        if self.quiet or sys.stderr is None or not sys.stderr.isatty():
            return
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)

    def clear(self) -> None:
        """Take the progress line away."""
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0

    def _write(self, line: str) -> None:
        self.clear()
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


class Notes(logging.Handler):
    """What the libraries warn of, as notes."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.note(record.getMessage())


def _one_line(text: str) -> str:
    return " ".join(text.split())
