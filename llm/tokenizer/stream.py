"""Token ids -> text, piece by piece."""

import codecs
from collections.abc import Callable

_utf8 = codecs.getincrementaldecoder("utf-8")


class Stream:
    """Decodes one sequence as it grows: `push` an id, get the text that is certain; `flush` at the end.

    Bytes of an unfinished character are held back; bytes that are no UTF-8 become U+FFFD. Whatever the cuts,
    the parts together are the text of the whole.
    """

    def __init__(self, piece: Callable[[int], bytes], strip_first_space: bool) -> None:
        self._piece = piece
        self._strip = strip_first_space
        self._bytes = _utf8("replace")

    def push(self, tok: int) -> str:
        piece = self._piece(tok)
        if self._strip and piece:
            self._strip = False
            piece = piece.removeprefix(b" ")
        return self._bytes.decode(piece)

    def flush(self) -> str:
        return self._bytes.decode(b"", final=True)
