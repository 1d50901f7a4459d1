"""What one run is asked: the texts and media that flags and standard input give, read and checked."""

from __future__ import annotations

import csv
import os
import re
import stat
import sys
import threading
from dataclasses import dataclass
from typing import IO, Any

from llm.errors import UsageError
from mtmd.media import load_media
from mtmd.source import is_path
from mtmd_cli.args import MediaArg, Options
from mtmd_cli.console import Console
from mtmd_flags.texts import InputError, decoded, read_text

MARKER = "<__media__>"  # where llama-mtmd-cli's users put a medium inside -p
DESCRIBE, TRANSCRIBE = "Describe this image.", "Transcribe the audio."
Part = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """The user's message, media and all; None for a chat, whose first line `media` wait for."""

    system: str | None
    media: list[Part]
    content: list[Part] | None

    def opening(self) -> list[dict[str, Any]]:
        """The messages before the user's first."""
        return [{"role": "system", "content": self.system}] if self.system else []


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def media_part(source: str | bytes, kind: str | None) -> Part:
    """One loaded picture or recording. Raises MediaError."""
    medium = load_media(source, kind)  # type: ignore[arg-type]
    found = type(medium).__name__.lower()
    return {"type": found, found: medium}


def gather(options: Options, console: Console) -> Request:
    """Read all that the flags name. Raises UsageError, InputError or MediaError."""
    named = [MediaArg(m.kind, name) for m in options.media for name in split_names(m.value)]
    dashes = [m.value for m in named] + [options.prompt, options.file]
    if dashes.count("-") > 1:
        raise UsageError("'-' is given more than once, but there is one standard input")
    system = _system(options)
    given, typed = _texts(options, bool(named), "-" in dashes, console)
    media = [media_part(_stdin_bytes() if m.value == "-" else m.value, m.kind) for m in named]
    if given or typed:
        return Request(system, media, _content(media, given, typed))
    if not options.conversation:
        embedded = options.model is None and options.hf_repo is None
        if media and (embedded or not _is_terminal(sys.stdin)):
            question = TRANSCRIBE if {m.kind for m in named} == {"audio"} else DESCRIBE
            return Request(system, media, _content(media, "", question))
        if not _is_terminal(sys.stdin):
            raise UsageError(
                "nothing to answer: --image, --audio and -p say what; --conversation chats over a pipe"
            )
    return Request(system, media, None)


def split_names(value: str) -> list[str]:
    """One --image or --audio: a,b,c is a list, unless a file has that name or it is a data URI."""
    if "," not in value or is_path(value) or value.lstrip()[:5].lower() == "data:":
        return [value]
    return next(csv.reader([value]))


def unescape(text: str) -> str:
    r"""llama.cpp's escapes: \n \r \t \' \" \\ \xHH; any other backslash stays."""
    meaning = {"n": "\n", "r": "\r", "t": "\t"}

    def char(m: re.Match[str]) -> str:
        return chr(int(m[1][1:], 16)) if len(m[1]) == 3 else meaning.get(m[1], m[1])

    return re.sub(r"""\\([nrt'"\\]|x[0-9a-fA-F]{2})""", char, text)


def _texts(options: Options, has_media: bool, has_dash: bool, console: Console) -> tuple[str, str]:
    """The text from a file or from standard input, and what was typed as the question; "" for none."""
    if options.prompt == "-":
        typed = _stdin_text(console)
    else:
        typed = unescape(options.prompt or "") if options.escape else options.prompt or ""
    # With a question and a picture standard input is left alone: a shell loop's list is not ours to eat.
    unclaimed = not (has_dash or options.conversation or (typed and has_media))
    if options.file is not None:
        given = _stdin_text(console) if options.file == "-" else read_text(options.file)
    else:
        given = _stdin_text(console) if unclaimed and _is_piped(sys.stdin) else ""
    return given.strip() and given, typed.strip() and typed


def _content(media: list[Part], given: str, typed: str) -> list[Part]:
    """Media, then the text, as models are trained; or each medium where `typed` says MARKER."""
    texts = typed.split(MARKER) if media else [typed]
    opening = "\n\n".join(text for text in (given, texts[0]) if text)
    if len(texts) == 1:
        return [*media, text_part(opening)]
    if len(texts) != len(media) + 1:
        raise UsageError(f"the prompt has {len(texts) - 1} {MARKER}, and {len(media)} media are given")
    parts = [text_part(opening)]
    for medium, text in zip(media, texts[1:]):
        parts += [medium, text_part(text)]
    return [part for part in parts if part.get("text") != ""]


def _system(options: Options) -> str | None:
    if options.system is not None and options.system_file is not None:
        raise UsageError("-sys and -sysf both give the system message; use one")
    return read_text(options.system_file) if options.system_file is not None else options.system


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and stream.isatty()


def _is_piped(stream: IO[str] | None) -> bool:
    if stream is None:
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _stdin_text(console: Console) -> str:
    if sys.stdin is None:
        raise InputError("standard input is closed")
    hint = threading.Timer(1.0, console.note, ["reading the question from standard input"])
    hint.daemon = True
    hint.start()
    try:
        return decoded(_stdin_bytes(), "standard input")
    finally:
        hint.cancel()


def _stdin_bytes() -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed")
    return sys.stdin.buffer.read()
