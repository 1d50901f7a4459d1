"""Texts in files that flags name."""

from __future__ import annotations

from llm.errors import LlmError


class InputError(LlmError):
    """A text that cannot be read: a file that is missing, standard input that is no text."""


def read_text(path: str) -> str:
    """A text file, UTF-8 with or without a mark, without its last line break. Raises InputError."""
    try:
        with open(path, "rb") as file:
            return decoded(file.read(), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def decoded(data: bytes, name: str) -> str:
    """UTF-8 text, without a mark and the last line break. Raises InputError that begins with `name`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"is not UTF-8 text (byte {error.start})"
        raise InputError(f"{name}: {found}; pictures go to --image, recordings to --audio") from error
    return text.removesuffix("\n").removesuffix("\r")
