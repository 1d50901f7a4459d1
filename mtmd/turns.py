"""A bounded queue in which clients take turns: who asks much waits longer than who asks little."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

from llm.errors import LlmError

T = TypeVar("T")


class BusyError(LlmError):
    """Too many questions wait already. `retry_after` is about how many seconds they take."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ClosedError(LlmError):
    """The service ends."""


class Turns(Generic[T]):
    """First come, first served within a client; between clients, one each in turn."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()  # whose turn it is stands first
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        with self._changed:
            return sum(map(len, self._lines.values()))

    def put(self, client: str, item: T, retry_after: float = 0.0) -> None:
        """Raises BusyError when full, ClosedError after `close`."""
        with self._changed:
            if self._closed:
                raise ClosedError("no more questions are taken: the service is ending")
            if sum(map(len, self._lines.values())) >= self.limit:
                raise BusyError(f"{self.limit} questions wait already: ask again later", retry_after)
            self._lines.setdefault(client, deque()).append(item)
            self._changed.notify()

    def take(self) -> T | None:
        """The next item, when there is one; None when closed and empty."""
        with self._changed:
            while not self._lines and not self._closed:
                self._changed.wait()
            if not self._lines:
                return None
            client, line = self._lines.popitem(last=False)
            item = line.popleft()
            if line:
                self._lines[client] = line
            return item

    def remove(self, item: T) -> bool:
        """Take out `item`; whether it was there."""
        with self._changed:
            for client, line in self._lines.items():
                if item in line:
                    line.remove(item)
                    if not line:
                        del self._lines[client]
                    return True
            return False

    def drain(self) -> list[T]:
        """All items, taken out."""
        with self._changed:
            items = [item for line in self._lines.values() for item in line]
            self._lines.clear()
            return items

    def close(self) -> None:
        """Take no more; those that wait can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
