"""SentencePiece's precompiled rules of normalisation: longest matches replaced, as in T5's NFKC."""

from typing import NamedTuple

import numpy as np


class _Match(NamedTuple):
    n_byte: int
    text: int  # where its replacement begins


class Charsmap:
    """Rules in a double array compressed by XOR (Kanda, 2018), and the texts that they put in place.

    An entry has its label in bits 0-7, whether a rule ends there in bit 8, and in bits 10-30 its base, which
    bit 9 shifts by 8 more. A rule's number, with bit 31, stands where a label of 0 would lead.
    """

    def __init__(self, blob: bytes) -> None:
        """Raises ValueError if the sizes in `blob` contradict each other."""
        n = int.from_bytes(blob[:4], "little")
        if len(blob) <= 4 + n or n < 4 or n % 4:
            raise ValueError(f"{len(blob)} bytes cannot hold an array of {n} and texts")
        self._entries: list[int] = np.frombuffer(blob, "<u4", n // 4, offset=4).tolist()
        self._texts = blob[4 + n :]

    def normalise(self, text: str) -> str:
        """`text` with the longest rule applied at every place, from the left."""
        data = text.encode()
        out: list[bytes] = []
        kept = at = 0
        while at < len(data):
            match = self._longest(data, at)
            if match:
                out += data[kept:at], self._texts[match.text : self._texts.find(b"\0", match.text)]
                kept = at = at + match.n_byte
            else:
                at += 1
                while at < len(data) and data[at] & 0xC0 == 0x80:
                    at += 1
        return b"".join([*out, data[kept:]]).decode("utf-8", "replace")

    def _longest(self, data: bytes, start: int) -> _Match | None:
        entries, found = self._entries, None
        index = _base(entries[0])
        for at in range(start, len(data)):
            byte = data[at]
            index ^= byte
            if byte == 0 or index >= len(entries) or entries[index] & 0x800000FF != byte:
                break
            entry = entries[index]
            index ^= _base(entry)
            if entry & 0x100 and index < len(entries):
                found = _Match(at + 1 - start, entries[index] & 0x7FFFFFFF)
        return found


def _base(entry: int) -> int:
    return entry >> 10 << ((entry & 0x200) >> 6)
