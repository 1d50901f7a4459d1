"""Exit statuses, and the errors that only a command line has."""

from __future__ import annotations

from llm.errors import ContextError, LlmError, MediaError, ModelError, TemplateError, UsageError
from mtmd_flags.texts import InputError

OK, FAILED, USAGE, MODEL, INPUT, CONTEXT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class OutputError(LlmError):
    """The answer cannot be written: the disk is full, or standard output is closed."""


_STATUS: dict[type[LlmError], int] = {
    UsageError: USAGE,
    ModelError: MODEL,
    TemplateError: MODEL,
    MediaError: INPUT,
    InputError: INPUT,
    ContextError: CONTEXT,
}


def status_of(error: Exception) -> int:
    """The exit status that `error` ends the program with."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), FAILED)
