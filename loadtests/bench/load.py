"""The load: connections that are kept busy, counted in windows, and drained.

It runs in the benchmark's own process, whose CPU is the rig's; nothing else runs there meanwhile.
What goes wrong outside of the windows makes them as void as what does inside. Clients parse as
little as they can: an answer with a length ends at that length, a chunked one with its last chunk,
and an event of a stream with an empty line. An answer counts when its status is 200 and it is
whole; anything else is a failure.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import signal
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtests.bench.upstream import FIRST_EVENTS
from loadtests.rig.targets import Target

LAST_CHUNK = b"\r\n0\r\n\r\n"
LENGTH = b"\r\ncontent-length:"


def _floats() -> array[float]:
    return array("d")


@dataclass
class Tally:
    """What was seen in one stretch of time. Times in seconds."""

    responses: int = 0
    events: int = 0
    seconds: array[float] = field(default_factory=_floats)  # to the last byte
    refused: array[float] = field(default_factory=_floats)  # to the last byte of a 503
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
        self._is_busy = self._has_head = self._is_closing = False
        self._due_at = self._read_at = 0.0
        self._head = self._tail = b""
        self._left: int | None = None  # bytes to come, None in a chunked answer
        self._events = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, request: bytes, due_at: float) -> None:
        """Send a request that was due at this moment of `time.perf_counter`."""
        self._is_busy, self._due_at = True, due_at
        self._head, self._has_head, self._tail, self._events = b"", False, b"\r\n", 0
        self._transport.write(request)

    def close(self) -> None:
        """Close it now when it is idle, else after the answer under way."""
        self._is_closing = True
        if not self._is_busy:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once, whatever is under way."""
        self._is_closing = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now, tally = time.perf_counter(), self._tally()
        if not self._is_busy:
            tally.faults["bytes that nobody asked for"] += 1
            self.abort()
            return
        if not self._has_head:
            if not self._head:
                tally.first.append(now - self._due_at)
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
        if self._is_busy or not self._is_closing:
            self._tally().faults["cut" if self._is_busy else "closed while idle"] += 1
        self._is_busy = False
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
        self._is_busy = False
        if not self._head.startswith(b"HTTP/1.1 200"):
            if self._head.startswith(b"HTTP/1.1 503"):
                tally.refused.append(now - self._due_at)
            tally.faults[self._head[:12].decode("latin-1")] += 1
        elif self._events < self._events_due:
            tally.faults["too few events"] += 1
        else:
            tally.responses += 1
            tally.seconds.append(now - self._due_at)
        self.close() if self._is_closing else self._on_idle(self)


OPENING_AT_ONCE = 128
# The loop's clock counts milliseconds: a timer of less turns it without a rest.
TICK_SECONDS = 0.001
DRAIN_SECONDS = 120.0


class Ask(NamedTuple):
    """What is asked in a piece of work, and by how many connections."""

    connections: int
    events: int = 0  # 0: no stream
    pause_ms: int = 0  # the upstream's between two events
    image_bytes: int = 0
    is_translated: bool = False
    rate: float | None = None  # requests a second as they come; None: each answer asks again
    opening_seconds: float = 0.0  # over which the connections begin, evenly
    in_a_row: int = 1  # windows of one opening
    window_seconds: float = 1.0
    measures_opening: bool = False  # first bytes are those of the opening, not of the windows
    headers: Mapping[str, str] | None = None  # beside those of every call

    @property
    def shape(self) -> tuple[int, int]:
        """Events and pause, as the upstream's model is named after."""
        return (self.events or FIRST_EVENTS, self.pause_ms)

    @property
    def events_due(self) -> int:
        """The least a stream has; 0 for none. A translated one has others around the same text."""
        fewer = FIRST_EVENTS if self.is_translated and self.events else 0
        return max(self.events - fewer, min(self.events, 1))


class Subject(NamedTuple):
    """A server with what is asked of it; the requests go round."""

    name: str
    target: Target
    requests: tuple[bytes, ...]
    ask: Ask
    idle_mb: float = 0.0
    skipped: int = 0  # requests of the round that others have made
    calls: int | None = None  # after so many nothing more is asked
    prepare: Callable[[], None] | None = None  # before each of its turns


class Load:
    """The connections to a subject, and what they see: before the windows, in each, and after."""

    def __init__(self, subject: Subject) -> None:
        self.tallies = [Tally()]  # adding another one begins a window
        self._ask, self._target, self._left = subject.ask, subject.target, subject.calls
        first = subject.skipped % len(subject.requests)
        self.requests = itertools.cycle(subject.requests[first:] + subject.requests[:first])
        self._connections: list[Connection] = []
        self._idle: deque[Connection] = deque()
        self._due: deque[float] = deque()  # requests that wait for a connection, and since when
        self._random = random.Random(7)
        self._next_at = math.inf  # when the next request arrives

    @property
    def faults(self) -> Counter[str]:
        """All that went wrong, whenever it was."""
        return sum((one.faults for one in self.tallies), Counter[str]())

    @property
    def waiting(self) -> int:
        """Requests that arrived and are not answered."""
        return len(self._connections) - len(self._idle) + len(self._due)

    async def open(self) -> None:
        """Open all, evenly; each asks at once unless requests arrive. Raises OSError."""
        step = self._ask.opening_seconds / self._ask.connections
        begun, at_once = time.perf_counter(), asyncio.Semaphore(OPENING_AT_ONCE)
        opening = []
        for number in range(self._ask.connections):
            wait = begun + number * step - time.perf_counter()
            if wait >= TICK_SECONDS:
                await asyncio.sleep(wait)
            await at_once.acquire()
            opening.append(asyncio.create_task(self._connect()))
            opening[-1].add_done_callback(lambda _: at_once.release())
        await asyncio.gather(*opening)
        if (rate := self._ask.rate) is not None:
            self._next_at = time.perf_counter()
            asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, self._arrive, rate)
            self._arrive(rate)

    async def close(self) -> None:
        """Let every answer under way arrive. Raises TimeoutError."""
        self._stop_arrivals()
        if self._left is None:
            for connection in self._connections:
                connection.close()
        closed = [connection.closed for connection in self._connections]
        if open_still := (await asyncio.wait(closed, timeout=DRAIN_SECONDS))[1]:
            raise TimeoutError(f"{len(open_still)} answers do not end")

    def abort(self) -> None:
        """Leave nothing open."""
        self._stop_arrivals()
        for connection in self._connections:
            connection.abort()

    def arrive(self, at: float) -> None:
        """A request is due: it is sent as soon as a connection is free for it."""
        if self._idle:
            self._idle.popleft().ask(next(self.requests), at)
        else:
            self._due.append(at)

    def idle(self, connection: Connection) -> None:
        """A connection is free for what is due."""
        if self._due:
            connection.ask(next(self.requests), self._due.popleft())
        else:
            self._idle.append(connection)

    async def _connect(self) -> None:
        on_idle = self._ask_again if self._ask.rate is None else self.idle
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(lambda: self.tallies[-1], on_idle, events=self._ask.events_due),
            self._target.host,
            self._target.port,
        )
        self._connections.append(connection)
        on_idle(connection)

    def _ask_again(self, connection: Connection) -> None:
        if self._left == 0:
            connection.close()
            return
        if self._left is not None:
            self._left -= 1
        connection.ask(next(self.requests), time.perf_counter())

    def _arrive(self, rate: float) -> None:
        """Let what is due arrive. It counts from here: a late timer is no one else's delay."""
        now = time.perf_counter()
        while self._next_at <= now:
            self.arrive(now)
            self._next_at += self._random.expovariate(rate)
        if self._next_at < math.inf:  # in bursts by the loop's clock, which counts milliseconds
            signal.setitimer(signal.ITIMER_REAL, max(self._next_at - time.perf_counter(), 1e-6))

    def _stop_arrivals(self) -> None:
        self._next_at = math.inf  # for a signal that has come already
        signal.setitimer(signal.ITIMER_REAL, 0)
