"""What a run takes of the machine: CPU and memory of each process, read once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import linear_regression

from loadtests.rig.machine import cpu_seconds, of_tree, proportional_mb

EVERY_SECONDS = 1.0
SETTLING_SHARE = 0.2  # of a run, in which memory grows to what it needs
SHORTEST_SECONDS = 600.0  # after which growth is reported


@dataclass
class Taken:
    """Readings of one process and all it has started: seconds since the first, CPU s, MB."""

    at: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    mb: list[float] = field(default_factory=list)

    def read(self, pid: int, at: float) -> None:
        """Add a reading; what has ended takes no more."""
        cpu, mb = of_tree(cpu_seconds, pid), of_tree(proportional_mb, pid)
        if mb:
            self.at.append(at)
            self.cpu.append(cpu)
            self.mb.append(mb)

    @property
    def cpu_seconds(self) -> float:
        """What it has spent."""
        return self.cpu[-1] - self.cpu[0]

    @property
    def busiest(self) -> float:
        """The most cores that it had between two readings."""
        points = pairwise(zip(self.at, self.cpu, strict=True))
        return max((spent - before) / (at - since) for (since, before), (at, spent) in points)

    @property
    def mb_per_hour(self) -> float | None:
        """How memory grew, None after too short a run."""
        settled = self.at[-1] * SETTLING_SHARE
        points = [point for point in zip(self.at, self.mb, strict=True) if point[0] >= settled]
        if self.at[-1] < SHORTEST_SECONDS:
            return None
        at, mb = zip(*points, strict=True)
        return linear_regression(at, mb).slope * 3600


@contextmanager
def watched(pids: Mapping[str, int]) -> Iterator[dict[str, Taken]]:
    """Read these processes until the end; what is yielded is whole after it."""
    taken, is_over, began = {name: Taken() for name in pids}, threading.Event(), time.monotonic()

    def read() -> None:
        for name, pid in pids.items():
            taken[name].read(pid, time.monotonic() - began)

    def watch() -> None:
        while not is_over.wait(EVERY_SECONDS):
            read()

    read()
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield taken
    finally:
        is_over.set()
        watching.join()
        read()


def report(taken: Mapping[str, Taken], requests: int) -> Sequence[str]:
    """A table for people: what each process took, and of one request."""
    lines = [f"{'process':<12}{'cores':>8}{'at most':>9}{'CPU ms/request':>16}"
             f"{'MB first':>10}{'at most':>9}{'last':>8}{'MB/hour':>9}"]  # fmt: skip
    for name, one in taken.items():
        if len(one.at) < 2:
            continue
        grown = one.mb_per_hour
        lines.append(
            f"{name:<12}{one.cpu_seconds / (one.at[-1] - one.at[0]):>8.2f}{one.busiest:>9.2f}"
            f"{one.cpu_seconds / max(1, requests) * 1000:>16.3f}"
            f"{one.mb[0]:>10.0f}{max(one.mb):>9.0f}{one.mb[-1]:>8.0f}"
            f"{'–' if grown is None else f'{grown:.1f}':>9}"
        )
    return lines
