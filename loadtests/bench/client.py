"""The clients of a benchmark: keep-alive connections that count what comes back.

They parse as little as they can, because they share the machine with what they measure: an answer
with a length ends at that length, a chunked one with its last chunk, and an event of a stream with
an empty line. An answer counts when its status is 200 and it is whole; anything else is a failure.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LAST_CHUNK = b"\r\n0\r\n\r\n"
LENGTH = b"\r\ncontent-length:"


def _floats() -> array[float]:
    return array("d")


@dataclass
class Tally:
    """What was seen in one stretch of time. Times in seconds."""

    answers: int = 0
    events: int = 0
    seconds: array[float] = field(default_factory=_floats)  # to the last byte
    first: array[float] = field(default_factory=_floats)  # to the first byte
    gaps: array[float] = field(default_factory=_floats)  # between reads of one stream
    faults: Counter[str] = field(default_factory=Counter)


class Connection(asyncio.Protocol):
    """One connection. `on_idle` is called with it whenever it can take the next request."""

    def __init__(
        self, tally: Callable[[], Tally], on_idle: Callable[[Connection], None], *, events: int
    ) -> None:
        self._tally, self._on_idle = tally, on_idle
        self._events_due = events  # at least so many in an answer; 0: answers are no streams
        self._is_asked = self._has_head = self._is_closing = False
        self._asked_at = self._read_at = 0.0
        self._head = self._tail = b""
        self._left: int | None = None  # bytes to come, None in a chunked answer
        self._events = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, request: bytes, asked_at: float) -> None:
        """Send a request that was due at this moment of `time.perf_counter`."""
        self._is_asked, self._asked_at = True, asked_at
        self._head, self._has_head, self._tail, self._events = b"", False, b"\r\n", 0
        self._transport.write(request)

    def close(self) -> None:
        """Close it now when it is idle, else after the answer under way."""
        self._is_closing = True
        if not self._is_asked:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once, whatever is under way."""
        self._is_closing = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now, tally = time.perf_counter(), self._tally()
        if not self._is_asked:
            tally.faults["bytes that nobody asked for"] += 1
            self.abort()
            return
        if not self._has_head:
            if not self._head:
                tally.first.append(now - self._asked_at)
                self._read_at = now
            self._head, end, data = (self._head + data).partition(b"\r\n\r\n")
            if not end:
                return
            self._has_head = True
            _, named, length = self._head.lower().partition(LENGTH)
            self._left = int(length.split(b"\r\n", 1)[0]) if named else None
        if self._events_due:
            self._count_events(tally, data, now)
        if self._left is None:
            self._tail = (self._tail + data)[-7:] if len(data) < 7 else data[-7:]
            is_whole = self._tail == LAST_CHUNK
        else:
            self._left -= len(data)
            is_whole = self._left <= 0
        if is_whole:
            self._end(tally, now)

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_asked or not self._is_closing:
            self._tally().faults["cut" if self._is_asked else "closed while idle"] += 1
        self._is_asked = False
        self.closed.set_result(None)

    def _count_events(self, tally: Tally, body: bytes, now: float) -> None:
        # The last byte before may be the first half of an event's end.
        ended = (self._tail[-1:] + body if body[:1] == b"\n" else body).count(b"\n\n")
        if ended:
            if self._events:
                tally.gaps.append(now - self._read_at)
            self._read_at = now
            self._events += ended
            tally.events += ended

    def _end(self, tally: Tally, now: float) -> None:
        self._is_asked = False
        if not self._head.startswith(b"HTTP/1.1 200"):
            tally.faults[self._head[:12].decode("latin-1")] += 1
        elif self._events < self._events_due:
            tally.faults["too few events"] += 1
        else:
            tally.answers += 1
            tally.seconds.append(now - self._asked_at)
        self.close() if self._is_closing else self._on_idle(self)
