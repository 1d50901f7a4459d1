"""Bytes out of whatever names them: a path, a data URI, bare base64."""

import base64
import os
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote_to_bytes

from llm.errors import MediaError

_URI = re.compile(r"\s*data:([^,]{0,200}),", re.IGNORECASE)
_URL = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_BAD = re.compile(rb"[^A-Za-z0-9+/]")


def printable(name: str) -> str:
    """`name` fit for a message: undecodable bytes escaped, and not longer than a line."""
    name = name.encode("utf-8", "backslashreplace").decode()
    name = "".join(ch if ch.isprintable() else ascii(ch)[1:-1] for ch in name)
    return name if len(name) <= 200 else name[:120] + "..." + name[-60:]


def read_path(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """The bytes of a file. A name is also tried in the other Unicode normal forms: systems differ in them.

    Raises MediaError when there is no such file, or it is a folder, unreadable or larger than `max_bytes`.
    """
    name = printable(os.fspath(path))
    if not name:
        raise MediaError("the path of a picture or recording is empty")
    try:
        found = next((p for p in _spellings(os.fspath(path)) if p.exists()), None)
        if found is None:
            raise MediaError(f"{name}: no such file")
        if found.is_dir():
            raise MediaError(f"{name}: is a folder, a file was expected")
        with found.open("rb") as file:
            data = file.read(max_bytes + 1)  # bounded: a pipe or a device has no size to ask for
    except (OSError, ValueError) as err:
        reason = (err.strerror or str(err)) if isinstance(err, OSError) else str(err)
        raise MediaError(f"{name}: cannot be read: {reason}") from err
    if len(data) > max_bytes:
        raise MediaError(f"{name}: larger than the limit of {max_bytes:,} bytes; raise Limits.max_bytes")
    return data


def _spellings(path: str) -> list[Path]:
    forms = [path, unicodedata.normalize("NFC", path), unicodedata.normalize("NFD", path)]
    return [Path(form) for form in dict.fromkeys(forms)]


def is_path(text: str) -> bool:
    """Whether `text` names something that exists on this machine."""
    try:
        return any(p.exists() for p in _spellings(text))
    except (OSError, ValueError):  # too long, or a NUL: no path on any system
        return False


def decode_url(text: str) -> bytes:
    """The bytes of a data URI or of bare base64. Never opens a file or a connection.

    The scheme and the marker `;base64` are case-insensitive; the MIME type is not believed: not returned.
    Raises MediaError, worded by what the text was taken for.
    """
    if uri := _URI.match(text):
        body = text[uri.end() :]
        if uri[1].replace(" ", "").lower().endswith(";base64"):
            return decode_base64(body, "the data URI")
        data = unquote_to_bytes(body)
        if not data:
            raise MediaError("the data URI holds no data")
        return data
    if text.lstrip()[:5].lower() == "data:":
        raise MediaError("the data URI has no comma: expected data:image/png;base64,...")
    if url := _URL.match(text):
        scheme = url[1].lower()
        if scheme in ("http", "https"):
            raise MediaError(
                f"{printable(text)}: addresses are not fetched here; download the file and pass its bytes"
            )
        raise MediaError(f"{printable(text)}: {scheme}: addresses are not opened; pass a data URI or base64")
    return decode_base64(text, "the text, taken for base64,")


def try_base64(text: str) -> bytes:
    """The bytes of `text` if it is base64 of a length that no file name is likely to have, else nothing."""
    try:
        return decode_base64(text, "base64") if len(text) >= 64 else b""
    except MediaError:
        return b""


def decode_base64(text: str, what: str) -> bytes:
    """Bytes of base64 text, standard or URL-safe alphabet, with or without padding and line breaks.

    Raises MediaError that begins with `what` and says where the text goes wrong.
    """
    try:
        packed = b"".join(text.encode("ascii").split())
    except UnicodeEncodeError as err:
        raise MediaError(
            f"{what} has {text[err.start]!r} at position {err.start}, which is not base64"
        ) from err
    packed = unquote_to_bytes(packed) if b"%" in packed else packed
    packed = packed.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    if not packed:
        raise MediaError(f"{what} holds no data")
    if bad := _BAD.search(packed):
        raise MediaError(f"{what} has {bad[0].decode()!r} at position {bad.start()}, which is not base64")
    if len(packed) % 4 == 1:
        raise MediaError(f"{what} is cut: {len(packed)} base64 digits are no whole number of bytes")
    return base64.b64decode(packed + b"=" * (-len(packed) % 4))
