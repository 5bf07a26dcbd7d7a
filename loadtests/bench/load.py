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
from collections.abc import Callable
from dataclasses import dataclass, field

from loadtests.bench.canned import FIRST_EVENTS
from loadtests.bench.client import Connection, Tally
from loadtests.bench.rig import Target

OPENING_AT_ONCE = 128
# The loop's clock counts milliseconds: a timer of less turns it without a rest.
TICK_SECONDS = 0.001
DRAIN_SECONDS = 120.0


@dataclass(frozen=True)
class Ask:
    """What is asked in a piece of work, and by how many connections."""

    connections: int
    events: int = 0  # 0: no stream
    pause_ms: int = 0  # the upstream's between two events
    image_bytes: int = 0
    is_translated: bool = False
    rate: float | None = None  # requests a second as they come; None: each answer asks again
    opening_seconds: float = 0.0  # over which the connections begin, evenly
    in_a_row: int = 1  # windows of one opening
    window_seconds: float | None = None  # None: as the scale says
    is_opening_told: bool = False  # first bytes are those of the opening, not of the windows
    wants_inside: bool = False  # what the gateway says itself

    @property
    def shape(self) -> tuple[int, int]:
        """Events and pause, as the upstream's model is named after."""
        return (self.events or FIRST_EVENTS, self.pause_ms)

    @property
    def events_due(self) -> int:
        """The least a stream has; 0 for none. A translated one has others around the same text."""
        fewer = FIRST_EVENTS if self.is_translated and self.events else 0
        return max(self.events - fewer, min(self.events, 1))


@dataclass(frozen=True)
class Subject:
    """A server with what is asked of it; the requests go round."""

    name: str
    target: Target
    requests: tuple[bytes, ...]
    ask: Ask
    idle_mb: float = 0.0
    seconds: float = 1.0  # of a window
    skipped: int = 0  # requests of the round that others have made
    calls: int | None = None  # after so many nothing more is asked


@dataclass
class Load:
    """The connections to a subject, and what they see: before the windows, in each, and after."""

    subject: Subject
    tallies: list[Tally] = field(default_factory=lambda: [Tally()])

    def __post_init__(self) -> None:
        asked = self.subject.requests
        first = self.subject.skipped % len(asked)
        self.requests = itertools.cycle(asked[first:] + asked[:first])
        self._left = self.subject.calls
        self._connections: list[Connection] = []
        self._on_idle: Callable[[Connection], None] = (
            self._ask_again if self.subject.ask.rate is None else self.idle
        )
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
        step = self.subject.ask.opening_seconds / self.subject.ask.connections
        begun = time.perf_counter()
        opening = set[asyncio.Task[None]]()
        for number in range(self.subject.ask.connections):
            wait = begun + number * step - time.perf_counter()
            if wait >= TICK_SECONDS:
                await asyncio.sleep(wait)
            opening.add(asyncio.create_task(self._connect()))
            if len(opening) >= OPENING_AT_ONCE:
                opened, opening = await asyncio.wait(opening, return_when=asyncio.FIRST_COMPLETED)
                for task in opened:
                    task.result()
        await asyncio.gather(*opening)
        if self.subject.ask.rate is not None:
            self._arrive(self.subject.ask.rate, time.perf_counter())

    def next_window(self) -> None:
        """Count into another tally from now on."""
        self.tallies.append(Tally())

    async def close(self) -> None:
        """Let every answer under way arrive. Raises TimeoutError."""
        self._stop_arrivals()
        if self.subject.calls is None:
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
            self._send(self._idle.popleft(), at)
        else:
            self._due.append(at)

    def idle(self, connection: Connection) -> None:
        """A connection is free for what is due."""
        if self._due:
            self._send(connection, self._due.popleft())
        else:
            self._idle.append(connection)

    async def _connect(self) -> None:
        target, events = self.subject.target, self.subject.ask.events_due
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(lambda: self.tallies[-1], self._on_idle, events=events),
            target.host,
            target.port,
        )
        self._connections.append(connection)
        self._on_idle(connection)

    def _ask_again(self, connection: Connection) -> None:
        if self._left is not None:
            if not self._left:
                connection.close()
                return
            self._left -= 1
        self._send(connection, time.perf_counter())

    def _send(self, connection: Connection, at: float) -> None:
        connection.ask(next(self.requests), at)

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
