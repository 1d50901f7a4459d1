"""Standard output: the answer's text as it comes, ended by exactly one line break."""

from __future__ import annotations

import contextlib
import os
import sys

from mtmd_cli.status import OutputError

# Escape sequences in an answer are text; a terminal would obey them.
_VISIBLE = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "�")


class Output:
    """Raises OutputError when the text cannot be written, BrokenPipeError when nobody reads it any more."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise OutputError("standard output is closed, there is nowhere to put the answer")
        self._terminal = sys.stdout.isatty()
        self._held = ""  # line breaks that may turn out to be the last

    def text(self, delta: str) -> None:
        """Show a piece of the answer at once."""
        whole = self._held + delta
        shown = whole.rstrip("\n")
        self._held = whole[len(shown) :]
        self._write(shown)

    def end(self) -> None:
        """End the answer, and with it the line."""
        self._held = ""
        self._write("\n")

    def line(self, text: str) -> None:
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text.translate(_VISIBLE) if self._terminal else text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:  # ValueError: closed under our feet
            raise OutputError(f"cannot write the answer: {error}") from error


def abandon() -> None:
    """Throw away what standard output still holds, so that the interpreter does not try again at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
