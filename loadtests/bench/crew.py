"""The load processes, as the benchmark sees them: told what to do in step, asked what came of it.

They are processes of their own, so that what they cost is known apart and, where there are cores,
several can share the work.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess

from loadtests.bench.load import Plan, Seen, work
from loadtests.bench.placement import Cores

ANSWER_SECONDS = 300.0


class LoadFailed(Exception):
    """A load process could not do what it was asked."""


class Crew:
    """The load processes."""

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

    def measure(self, moments: Sequence[float]) -> None:
        """Let a window be between each of these moments of `time.perf_counter` and the next.

        None at all: what was asked for ends by itself.
        """
        for pipe in self._pipes:
            pipe.send(tuple(moments))

    def collect(self) -> Seen:
        """Return what came of it, when all connections are closed. Raises LoadFailed."""
        seen = [self._receive(pipe) for pipe in self._pipes]
        total, *others = [one for one in seen if isinstance(one, Seen)]
        for other in others:
            total.add(other)
        return total

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
