"""A sequence in a file: what its rows hold, and their keys and values. Media are in it by their keys.

The file is MAGIC, the length of a header and the header (JSON), then keys and values of each layer as they
lie in the cache, [n_head_kv, n_rows, d_head], and last a digest of all that. It fits the model that made it,
on a machine of the same byte order; anything else is refused before the cache is touched.
"""

import hashlib
import json
import os
import struct
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from llm.decoder import Decoder
from llm.errors import LlmError
from llm.gguf import GGUF
from llm.slot import Item, Slot

MAGIC = b"mtmd session 1\n"
SAMPLE = 4096  # bytes of a tensor that its model is known by


class SessionError(LlmError):
    """A session file that cannot be read or written, is damaged, or belongs to another model."""


def fingerprint(*files: GGUF) -> str:
    """Names files by their tensors: names, types, shapes and the first numbers of each."""
    digest = hashlib.sha256()
    for t in (t for file in files for t in file.tensors.values()):
        digest.update(f"{t.name} {t.type_name} {t.shape};".encode())
        digest.update(t.data[:SAMPLE].tobytes())
    return digest.hexdigest()


def save(path: str | os.PathLike[str], decoder: Decoder, slot: Slot, model: str) -> None:
    """Write what `slot` holds; `model` is the fingerprint. A file that is there is replaced at the end."""
    header = {
        "model": model,
        "type": decoder.kv_type,
        "items": [item if isinstance(item, int) else [item[0].hex(), item[1]] for item in slot.items],
        "ends": slot.ends,
    }
    text = json.dumps(header).encode()
    partial = Path(f"{os.fspath(path)}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            digest = hashlib.blake2b()
            rows = (r.tobytes() for r in _rows(decoder, slot, slot.n_rows))
            for part in chain((MAGIC, struct.pack("<Q", len(text)), text), rows):
                file.write(part)
                digest.update(part)
            file.write(digest.digest())
        os.replace(partial, path)
    except OSError as error:
        raise SessionError(f"{os.fspath(path)}: the session cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | os.PathLike[str], decoder: Decoder, slot: Slot, model: str) -> None:
    """Have `slot` hold what is in the file. Raises SessionError, and leaves the slot as it is then."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            header = _header(name, file)
            if header["model"] != model:
                raise SessionError(
                    f"{name}: a session of another model or mmproj; delete it, or name another"
                )
            if header["type"] != decoder.kv_type:
                found = f"keys and values of type {header['type']}"
                raise SessionError(f"{name}: {found}, this context has {decoder.kv_type}: see -ctk and -ctv")
            ends = [(int(row), int(pos)) for row, pos in header["ends"]]
            n_rows = ends[-1][0] if ends else 0
            if n_rows > slot.n_ctx:
                raise SessionError(
                    f"{name}: {n_rows} rows, and the context holds {slot.n_ctx}: give more (-c)"
                )
            slot.keep(0)
            for rows in _rows(decoder, slot, n_rows):
                data = file.read(rows.nbytes)
                rows[...] = np.frombuffer(data, rows.dtype).reshape(rows.shape)
    except OSError as error:
        raise SessionError(f"{name}: the session cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SessionError(f"{name}: this session is not one of this program's: {error}") from error
    slot.items, slot.ends = [_item(i) for i in header["items"]], ends


def _header(name: str, file: BinaryIO) -> dict[str, Any]:
    """The header, once the whole file has been found as it was written."""
    if file.read(len(MAGIC)) != MAGIC:
        raise SessionError(f"{name}: not a session file of this program")
    file.seek(0)
    left, digest = os.fstat(file.fileno()).st_size - 64, hashlib.blake2b()
    while left > 0:
        part = file.read(min(left, 1 << 20))
        digest.update(part)
        left -= len(part)
    if left < 0 or file.read() != digest.digest():
        raise SessionError(f"{name}: this session is cut off or damaged: delete it")
    file.seek(len(MAGIC))
    (n,) = struct.unpack("<Q", file.read(8))
    header: dict[str, Any] = json.loads(file.read(n))
    return header


def _item(stored: Any) -> Item:
    return stored if isinstance(stored, int) else (bytes.fromhex(stored[0]), int(stored[1]))


def _rows(decoder: Decoder, slot: Slot, n_rows: int) -> list[NDArray[Any]]:
    """Views of the slot's first rows: keys and values, layer by layer."""
    own = slice(slot.first, slot.first + n_rows)
    return [array[:, own] for kv in decoder.kv for array in (kv.k, kv.v)]
