"""File names as people type, paste or drag them into a chat line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from urllib.parse import unquote

from mtmd.source import is_path


def named_files(text: str) -> list[str]:
    """The existing files that `text` names, in whatever spelling; [] when it is not all file names.

    The name as it stands wins; then quotes, backslashes, %20, file:// and ~ mean what they mean to a shell
    or a browser. Several names in a row, as terminals paste them when files are dropped, are several files.
    """
    for spelling in _spellings(text.strip()):
        names = [os.path.expanduser(name) for name in spelling]
        if names and all(n and is_path(n) and not os.path.isdir(n) for n in names):
            return names
    return []


def _spellings(text: str) -> Iterator[list[str]]:
    yield [text]
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe: prose, or a name that the line above has matched
        words = []
    yield words
    yield [unquote(word.removeprefix("file://").removeprefix("localhost")) for word in words]
