"""What a load process does: it keeps its share of the connections busy and counts what it sees.

A run is opened, measured in windows between moments that all load processes are told, and drained:
what goes wrong outside of the windows makes them as void as what does inside.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe

import uvloop

from loadtests.bench.client import Arrivals, Connection, Tally
from loadtests.bench.machine import pin
from loadtests.bench.placement import Cores

OPENING_AT_ONCE = 128
# The loop's clock counts milliseconds: a timer of less turns it without a rest.
TICK_SECONDS = 0.001
DRAIN_SECONDS = 120.0


@dataclass(frozen=True)
class Plan:
    """What to send. `requests` go round; `events` is the least a stream has, 0 for none."""

    host: str
    port: int
    requests: tuple[bytes, ...]
    connections: int
    events: int = 0
    rate: float | None = None  # requests a second as they come; None: each answer asks again
    opening_seconds: float = 0.0  # over which the connections begin, evenly
    skipped: int = 0  # requests of the round that others have made
    calls: int | None = None  # after so many nothing more is asked

    def share(self, number: int, of: int) -> Plan:
        """What one of several load processes does of it."""
        return replace(
            self,
            connections=len(range(number, self.connections, of)),
            requests=self.requests[number::of] or self.requests,
            rate=None if self.rate is None else self.rate / of,
            skipped=self.skipped // of,
            calls=None if self.calls is None else len(range(number, self.calls, of)),
        )


@dataclass
class Seen:
    """What came of a run: before the windows, in each of them, and after."""

    before: Tally = field(default_factory=Tally)
    windows: list[Tally] = field(default_factory=list)
    after: Tally = field(default_factory=Tally)

    @property
    def faults(self) -> dict[str, int]:
        """All that went wrong, wherever it was."""
        total = Tally()
        for one in (self.before, *self.windows, self.after):
            total.add(one)
        return total.faults

    def add(self, other: Seen) -> None:
        """Take in what another load process saw of the same windows."""
        self.before.add(other.before)
        self.after.add(other.after)
        for mine, its in zip(self.windows, other.windows, strict=True):
            mine.add(its)


def work(pipe: Pipe, cores: Cores) -> None:
    """A load process from start to end."""
    pin(multiprocessing.current_process().pid or 0, cores)
    gc.disable()  # a collection would be a gap that nobody but this process made
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        while (plan := pipe.recv()) is not None:
            try:
                pipe.send(runner.run(_run(plan, pipe)))
            except (OSError, TimeoutError) as error:
                pipe.send(f"{type(error).__name__}: {error}")
            gc.collect()


async def _run(plan: Plan, pipe: Pipe) -> Seen:
    loop = asyncio.get_running_loop()
    load, seen = Load(plan), Seen()
    try:
        await load.open()
        pipe.send(True)
        moments: Sequence[float] = await loop.run_in_executor(None, pipe.recv)
        for number, moment in enumerate(moments):
            await asyncio.sleep(moment - time.perf_counter())
            last = load.swap(Tally())
            if number:
                seen.windows.append(last)
            else:
                seen.before = last
        await load.close()
    finally:
        load.abort()
    seen.after.add(load.swap(Tally()))
    return seen


class Load:
    """The connections of one load process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tally = Tally()
        first = plan.skipped % len(plan.requests)
        self._requests = itertools.cycle(plan.requests[first:] + plan.requests[:first])
        self._left = plan.calls
        self._connections: list[Connection] = []
        self._arrivals = Arrivals(self._send) if plan.rate is not None else None
        self._random = random.Random(7)
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Open all connections, evenly; each asks at once unless requests arrive.

        Raises OSError.
        """
        count = self._plan.connections
        step = self._plan.opening_seconds / count
        begun = time.perf_counter()
        opening = set[asyncio.Task[None]]()
        for number in range(count):
            wait = begun + number * step - time.perf_counter()
            if wait >= TICK_SECONDS:
                await asyncio.sleep(wait)
            opening.add(asyncio.create_task(self._connect()))
            if len(opening) >= OPENING_AT_ONCE:
                opened, opening = await asyncio.wait(opening, return_when=asyncio.FIRST_COMPLETED)
                for task in opened:
                    task.result()
        await asyncio.gather(*opening)
        if self._arrivals is not None:
            self._next_at = time.perf_counter()
            self._arrive()

    def swap(self, tally: Tally) -> Tally:
        """Count into another tally from now on; return the last."""
        last, self._tally = self._tally, tally
        return last

    async def close(self) -> None:
        """Let every answer under way arrive. Raises TimeoutError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._plan.calls is None:
            for connection in self._connections:
                connection.close()
        if self._connections:
            _, open_still = await asyncio.wait(
                [connection.closed for connection in self._connections],
                timeout=DRAIN_SECONDS,
            )
            if open_still:
                raise TimeoutError(f"{len(open_still)} answers do not end")

    def abort(self) -> None:
        """Leave nothing open."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._connections:
            connection.abort()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        on_idle: Callable[[Connection], None] = (
            self._ask_again if self._arrivals is None else self._arrivals.idle
        )
        _, connection = await loop.create_connection(
            lambda: Connection(lambda: self._tally, on_idle, events=self._plan.events),
            self._plan.host,
            self._plan.port,
        )
        self._connections.append(connection)
        on_idle(connection)

    def _ask_again(self, connection: Connection) -> None:
        if self._left is not None:
            if not self._left:
                connection.close()
                return
            self._left -= 1
        self._send(connection, time.perf_counter())

    def _send(self, connection: Connection, at: float) -> None:
        connection.ask(next(self._requests), at)

    def _arrive(self) -> None:
        """Let what is due arrive. It counts from here: a late timer is no one else's delay."""
        assert self._arrivals is not None
        assert self._plan.rate is not None
        now = time.perf_counter()
        while self._next_at <= now:
            self._arrivals.arrive(now)
            self._next_at += self._random.expovariate(self._plan.rate)
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._arrive)
