"""The clients of a benchmark: keep-alive connections that count what comes back.

They parse as little as they can, because they share the machine with what they measure: an answer
with a length ends at that length, a chunked one with its last chunk, and an event of a stream with
an empty line. An answer counts when its status is 200 and it is whole; anything else is a failure.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

LAST_CHUNK = b"\r\n0\r\n\r\n"
EVENT_END = b"\n\n"


def _floats() -> array[float]:
    return array("d")


@dataclass
class Tally:
    """What was seen in one stretch of time. Times in seconds."""

    answers: int = 0
    events: int = 0
    failures: int = 0
    seconds: array[float] = field(default_factory=_floats)  # from a request to its last byte
    first: array[float] = field(default_factory=_floats)  # from a request to its first byte
    gaps: array[float] = field(default_factory=_floats)  # between reads of one stream
    faults: dict[str, int] = field(default_factory=dict)

    def fail(self, why: str) -> None:
        """Count a failure."""
        self.failures += 1
        self.faults[why] = self.faults.get(why, 0) + 1

    def add(self, other: Tally) -> None:
        """Take in what another saw."""
        self.answers += other.answers
        self.events += other.events
        self.failures += other.failures
        self.seconds.extend(other.seconds)
        self.first.extend(other.first)
        self.gaps.extend(other.gaps)
        for why, count in other.faults.items():
            self.faults[why] = self.faults.get(why, 0) + count


class Connection(asyncio.Protocol):
    """One connection. `on_idle` is called with it whenever it can take the next request."""

    _transport: asyncio.Transport

    def __init__(
        self,
        tally: Callable[[], Tally],
        on_idle: Callable[[Connection], None],
        *,
        events: int,
    ) -> None:
        self._tally = tally
        self._on_idle = on_idle
        self._events_due = events  # at least so many in an answer; 0: answers are no streams
        self._is_asked = False
        self._asked_at = 0.0
        self._read_at = 0.0
        self._head = b""
        self._has_head = False
        self._left: int | None = None  # bytes to come, None in a chunked answer
        self._tail = b""
        self._events = 0
        self.is_closing = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def ask(self, request: bytes, asked_at: float) -> None:
        """Send a request that was due at this moment of `time.perf_counter`."""
        self._is_asked = True
        self._asked_at = asked_at
        self._head, self._has_head, self._tail, self._events = b"", False, b"\r\n", 0
        self._transport.write(request)

    def close(self) -> None:
        """Close it now when it is idle, else after the answer under way."""
        self.is_closing = True
        if not self._is_asked:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once, whatever is under way."""
        self.is_closing = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        tally = self._tally()
        if not self._is_asked:
            self._break(tally, "bytes that nobody asked for")
            return
        if self._has_head:
            body = data
        else:
            if not self._head:
                tally.first.append(now - self._asked_at)
                self._read_at = now
            body_or_none = self._read_head(self._head + data)
            if body_or_none is None:
                return
            body = body_or_none
        if self._events_due:
            self._count_events(tally, body, now)
        if self._left is None:
            tail = (self._tail + body)[-7:] if len(body) < 7 else body[-7:]
            self._tail = tail
            is_whole = tail == LAST_CHUNK
        else:
            self._left -= len(body)
            is_whole = self._left <= 0
        if is_whole:
            self._end(tally, now)

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_asked:
            self._is_asked = False
            self._tally().fail("cut")
        elif not self.is_closing:
            self._tally().fail("closed while idle")
        if not self.closed.done():
            self.closed.set_result(None)

    def _read_head(self, data: bytes) -> bytes | None:
        """Return the first bytes of the body, or None while the head is not there yet."""
        head, found, body = data.partition(b"\r\n\r\n")
        if not found:
            self._head = data
            return None
        self._head = head
        self._has_head = True
        lowered = head.lower()
        place = lowered.find(b"\r\ncontent-length:")
        self._left = None if place < 0 else int(lowered[place + 17 :].split(b"\r\n", 1)[0])
        return body

    def _count_events(self, tally: Tally, body: bytes, now: float) -> None:
        # The last byte before may be the first half of an event's end.
        ended = (
            (self._tail[-1:] + body).count(EVENT_END)
            if body[:1] == b"\n"
            else (body.count(EVENT_END))
        )
        if ended:
            if self._events:
                tally.gaps.append(now - self._read_at)
            self._read_at = now
            self._events += ended
            tally.events += ended

    def _end(self, tally: Tally, now: float) -> None:
        self._is_asked = False
        if not self._head.startswith(b"HTTP/1.1 200"):
            tally.fail(self._head[:12].decode("latin-1"))
        elif self._events < self._events_due:
            tally.fail("too few events")
        else:
            tally.answers += 1
            tally.seconds.append(now - self._asked_at)
        if self.is_closing:
            self._transport.close()
        else:
            self._on_idle(self)

    def _break(self, tally: Tally, why: str) -> None:
        tally.fail(why)
        self.is_closing = True
        self._transport.abort()


class Arrivals:
    """Requests that come when they come: one is sent as soon as a connection is free for it."""

    def __init__(self, send: Callable[[Connection, float], None]) -> None:
        self._send = send
        self._idle: deque[Connection] = deque()
        self._waiting: deque[float] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def arrive(self, at: float) -> None:
        """A request is due."""
        if self._idle:
            self._send(self._idle.popleft(), at)
        else:
            self._waiting.append(at)

    def idle(self, connection: Connection) -> None:
        """A connection is free."""
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._idle.append(connection)


def http_request(path: str, host: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of one POST."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
