"""The load: connections that are kept busy, counted in windows, and drained.

It runs in the benchmark's own process, whose CPU is the rig's; nothing else runs there meanwhile.
What goes wrong outside of the windows makes them as void as what does inside.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter, deque
from typing import NamedTuple

from loadtests.bench.canned import FIRST_EVENTS
from loadtests.bench.client import Connection, Tally
from loadtests.rig.processes import Target

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
    is_opening_told: bool = False  # first bytes are those of the opening, not of the windows

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
        self._timer: asyncio.TimerHandle | None = None

    @property
    def faults(self) -> Counter[str]:
        """All that went wrong, whenever it was."""
        return sum((one.faults for one in self.tallies), Counter[str]())

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
        if self._ask.rate is not None:
            self._arrive(self._ask.rate, time.perf_counter())

    async def close(self) -> None:
        """Let every answer under way arrive. Raises TimeoutError."""
        self._stop_arrivals()
        if self._left is None:
            for connection in self._connections:
                connection.close()
        closed = [connection.closed for connection in self._connections]
        _, open_still = await asyncio.wait(closed, timeout=DRAIN_SECONDS)
        if open_still:
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

    def _arrive(self, rate: float, next_at: float) -> None:
        """Let what is due arrive. It counts from here: a late timer is no one else's delay."""
        now = time.perf_counter()
        while next_at <= now:
            self.arrive(now)
            next_at += self._random.expovariate(rate)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TICK_SECONDS, self._arrive, rate, next_at)

    def _stop_arrivals(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
