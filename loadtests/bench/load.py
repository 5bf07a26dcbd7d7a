"""The load processes: each keeps its share of the connections busy and reports what it saw.

They are processes of their own, so that what they cost is known apart and, where there are cores,
several can share the work. A run is opened, warmed, measured between two moments that all of them
are told, and drained: what goes wrong outside of the window makes it as void as what does inside.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess

import uvloop

from loadtests.bench.client import Arrivals, Connection, Tally
from loadtests.bench.machine import pin
from loadtests.bench.placement import Cores

OPENING_AT_ONCE = 128
DRAIN_SECONDS = 120.0
ANSWER_SECONDS = 300.0


@dataclass(frozen=True)
class Plan:
    """What to send. `requests` go round; `events` is the least a stream has, 0 for none."""

    host: str
    port: int
    requests: tuple[bytes, ...]
    connections: int
    events: int = 0
    rate: float | None = None  # requests a second as they come; None: each answer asks again
    opening_seconds: float = 0.0  # over which the connections begin

    def share(self, number: int, of: int) -> Plan:
        """What one of several load processes does of it."""
        return replace(
            self,
            connections=len(range(number, self.connections, of)),
            requests=self.requests[number::of] or self.requests,
            rate=None if self.rate is None else self.rate / of,
        )


@dataclass(frozen=True)
class Seen:
    """What came of a run: inside of the window, and all that failed before and after it."""

    window: Tally
    outside: Tally


class LoadFailed(Exception):
    """A load process could not do what it was asked."""


class Crew:
    """The load processes, told what to do in step."""

    def __init__(self, cores: Sequence[Cores]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Pipe] = []
        self._processes: list[BaseProcess] = []
        for own in cores:
            here, there = context.Pipe()
            process = context.Process(target=work, args=(there, own), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes if process.pid is not None]

    def open(self, plan: Plan) -> None:
        """Connect and begin; returns when every connection is busy. Raises LoadFailed."""
        for number, pipe in enumerate(self._pipes):
            pipe.send(plan.share(number, len(self._pipes)))
        for pipe in self._pipes:
            self._receive(pipe)

    def measure(self, begin: float, end: float) -> None:
        """Let the window be between these moments of `time.perf_counter`."""
        for pipe in self._pipes:
            pipe.send((begin, end))

    def collect(self) -> Seen:
        """Return what came of it, when all connections are closed. Raises LoadFailed."""
        window, outside = Tally(), Tally()
        for pipe in self._pipes:
            seen = self._receive(pipe)
            assert isinstance(seen, Seen)
            window.add(seen.window)
            outside.add(seen.outside)
        return Seen(window, outside)

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            with suppress(BrokenPipeError):  # told to end by a signal like this one, it is gone
                pipe.send(None)
            pipe.close()
        for process in self._processes:
            process.join()

    def _receive(self, pipe: Pipe) -> object:
        if not pipe.poll(ANSWER_SECONDS):
            raise LoadFailed("a load process is silent")
        answer = pipe.recv()
        if isinstance(answer, str):
            raise LoadFailed(answer)
        return answer


@contextmanager
def crew(cores: Sequence[Cores]) -> Iterator[Crew]:
    """Load processes, one for each set of cores."""
    made = Crew(cores)
    try:
        yield made
    finally:
        made.close()


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
    load = Load(plan)
    try:
        await load.open()
        pipe.send(True)
        begin, end = await loop.run_in_executor(None, pipe.recv)
        await asyncio.sleep(begin - time.perf_counter())
        outside = load.swap(Tally())
        await asyncio.sleep(end - time.perf_counter())
        window = load.swap(Tally())
        await load.close()
    finally:
        load.abort()
    outside.add(load.swap(Tally()))
    return Seen(window, outside)


class Load:
    """The connections of one load process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tally = Tally()
        self._requests = itertools.cycle(plan.requests)
        self._connections: list[Connection] = []
        self._arrivals = Arrivals(self._send) if plan.rate is not None else None
        self._random = random.Random(7)
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Open all connections, a few at a time; each asks at once unless requests arrive."""
        count = self._plan.connections
        pause = self._plan.opening_seconds / count * OPENING_AT_ONCE
        for first in range(0, count, OPENING_AT_ONCE):
            some = [self._connect() for _ in range(first, min(count, first + OPENING_AT_ONCE))]
            await asyncio.gather(*some)
            if pause:
                await asyncio.sleep(pause)
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
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._next_at - now, self._arrive)
