"""What a run took of the machine, what it must not exceed, and the report of whether it did."""

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


BUSIEST_SECONDS = 10  # in which the rate of calls that a machine holds is taken
FULL_SHARE = 0.85  # of a core, or of all of them: more work waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run came to. `p95_first_event_ms`: of the slowest protocol, None without a stream."""

    calls: int
    failures: int
    p95_first_event_ms: float | None

    @property
    def failure_ratio(self) -> float:
        """The share of calls that ended as they must not."""
        return self.failures / self.calls if self.calls else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The most that is accepted; `p95_first_event_ms` is None without streams."""

    p95_first_event_ms: float | None
    failure_ratio: float

    def verdicts(self, measured: Measured) -> Iterator[tuple[bool, str]]:
        """Yield for each threshold whether it was kept, and a line for people."""
        first, most = measured.p95_first_event_ms, self.p95_first_event_ms
        if most is not None:
            is_quick = first is not None and first <= most
            shown = "no stream had an event" if first is None else f"{first:.0f} ms"
            yield is_quick, f"p95 time to first event: {shown}, at most {most:g} ms"
        ratio = measured.failure_ratio
        yield (
            ratio <= self.failure_ratio,
            f"failures: {measured.failures} of {measured.calls} calls ({ratio:.3%}), "
            f"at most {self.failure_ratio:.3%}",
        )


def busiest_rate(per_second: Mapping[int, int]) -> float:
    """The most calls a second over `BUSIEST_SECONDS` in a row, or over a shorter run.

    `per_second` has how many were answered in each second of Unix time.
    """
    if not per_second:
        return 0.0
    first, last = min(per_second), max(per_second)
    counts = [per_second.get(second, 0) for second in range(first, last + 1)]
    length = min(BUSIEST_SECONDS, len(counts))
    sums = (sum(counts[start : start + length]) for start in range(len(counts) - length + 1))
    return max(sums) / length


def conclusion(
    *,
    rate: float,
    p95_ms: float,
    broken: Sequence[str],
    gateway: Taken | None,
    requests: int,
    users: int,
    busy_cores: float,
    cores: int,
) -> Sequence[str]:
    """The sentences that a run ends with: what was offered and held, and what to try next.

    `rate` is what the users asked for in the busiest seconds, so no more than a lower bound of what
    the gateway can serve. `broken`: the thresholds that were not kept. `gateway`: its one process,
    None for a gateway of unknown processes; `busy_cores`: what all processes took at most, of the
    machine's `cores`.
    """
    request = f"{rate:.0f} calls/s of {users} users at p95 {p95_ms:.0f} ms"
    if broken:
        lines = [f"it does not hold {request}: {'; '.join(broken)}"]
    else:
        lines = [f"it holds at least {request}: they asked for no more"]
    if gateway is None or rate <= 0:
        return [*lines, "what a call costs, and how many users to try next, is seen without --host"]
    share, each = gateway.busiest, gateway.cpu_seconds / max(1, requests)
    lines.append(
        f"the gateway took {share:.2f} of its core at most, {each * 1000:.2f} ms of CPU a call"
    )
    if share >= FULL_SHARE:
        if busy_cores > FULL_SHARE * cores:
            more = f"one more process needs a core first: all took {busy_cores:.1f} of {cores}"
        else:
            more = "its core is full: try one more process"
        return [*lines, more]
    if broken:
        fewer = _users(users / 2)
        return [
            *lines,
            f"its core was not full: look for what broke it; next: --users {fewer}, then less",
        ]
    estimate = FULL_SHARE / each
    return [
        *lines,
        f"by that, {FULL_SHARE:.0%} of its core serve about {_rounded(estimate)} calls/s; "
        f"next: --users {_users(users * estimate / rate)}",
    ]


def _rounded(number: float) -> int:
    """Round an estimate to the two digits that it is worth."""
    return int(float(f"{number:.2g}"))


def _users(number: float) -> int:
    return max(1, _rounded(number))
