"""A tiny random projector for each file of this package save base.py: add a file, and every test finds it.

The file NAME.py makes the mmproj of one family or of one form that its files come in:

    MEDIA            what it is shown: pictures "WIDTHxHEIGHT" and clips "SECONDS", as base.medium makes them
    make(path, ...)  writes the mmproj, small, with every tensor that such files may have
    text(path)       writes the text model that such files are paired with, of the width of the rows

Its goldens are tests/golden/peer/NAME.npz (python -m tests.peer.projectors PEER_PYTHON NAME) and, where
tests/authors has a NAME.py, tests/golden/authors/NAME.npz (python -m tests.authors.projectors PYTHON NAME).
"""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast


class Case(Protocol):
    MEDIA: tuple[str, ...]

    def make(self, path: Path, types: Mapping[str, str] | None = None, **changes: Any) -> Path: ...

    def text(self, path: Path) -> Path: ...


NAMES = [m.name for m in pkgutil.iter_modules(__path__) if m.name != "base"]
CASES = {name: cast(Case, importlib.import_module(f"tests.mmproj.{name}")) for name in NAMES}
