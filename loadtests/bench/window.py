"""A load opened, measured in windows, drained: what everyone spent and the clients saw in each."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from loadtests.bench.client import Tally
from loadtests.bench.crew import Crew, LoadFailed
from loadtests.bench.figures import Window, percentile
from loadtests.bench.inside import Inside, differences, read_inside
from loadtests.bench.load import Plan, Seen
from loadtests.bench.machine import (
    cpu_seconds,
    stolen_seconds,
    tree_cpu_seconds,
    tree_resident_mb,
)
from loadtests.bench.rig import Target

LEAD_SECONDS = 0.03  # for the load processes to hear of a window before it begins
SETTLING_SECONDS = 0.5  # after the last answer of a pass: its settlements and log rows


@dataclass(frozen=True)
class Subject:
    """A server with what is asked of it. `pause_ms` is the upstream's between two events."""

    name: str
    target: Target
    plan: Plan
    pause_ms: int = 0
    idle_mb: float = 0.0
    seconds: float = 1.0  # of a window
    in_a_row: int = 1  # windows of one opening
    is_opening_told: bool = False  # first bytes are those of the opening, not of the windows
    wants_inside: bool = False  # what the gateway says itself


@dataclass(frozen=True)
class Rig:
    """What surrounds the server under test."""

    crew: Crew
    upstream: Target
    cores: int  # that it has, beside the server's


@dataclass(frozen=True)
class Spent:
    """CPU in seconds, so far or in a window; `processes` are those of the server, one by one.

    `stolen` is what other guests of the host took of all cores.
    """

    server: float
    database: float
    rig: float
    processes: tuple[float, ...] = ()
    stolen: float = 0.0

    def since(self, earlier: Spent) -> Spent:
        """What was spent between the two."""
        parts = zip(self.processes, earlier.processes, strict=False)
        return Spent(
            self.server - earlier.server,
            self.database - earlier.database,
            self.rig - earlier.rig,
            tuple(late - early for late, early in parts),
            self.stolen - earlier.stolen,
        )


class VoidWindow(Exception):
    """A window that does not count, and why."""


def measure(subject: Subject, rig: Rig, *, warm_seconds: float) -> list[Window]:
    """Figures by column of each window of one opening. Raises VoidWindow."""
    target, seconds = subject.target, subject.seconds
    began = time.perf_counter()
    try:
        rig.crew.open(subject.plan)
    except LoadFailed as failed:
        raise VoidWindow(str(failed)) from failed
    opening_seconds = time.perf_counter() - began
    time.sleep(warm_seconds)
    inside = _inside(subject)
    begin = time.perf_counter() + LEAD_SECONDS
    moments = [begin + seconds * number for number in range(subject.in_a_row + 1)]
    rig.crew.measure(moments)
    spent, resident_mb = [], 0.0
    for moment in moments:
        _sleep_until(moment)
        spent.append(_spent(target, rig))
        if subject.pause_ms:
            resident_mb = max(resident_mb, tree_resident_mb(target.pid))
    said = differences(inside, _inside(subject))
    try:
        seen = rig.crew.collect()
    except LoadFailed as failed:
        raise VoidWindow(str(failed)) from failed
    _refuse(seen)
    made = []
    for number, tally in enumerate(seen.windows):
        own = spent[number + 1].since(spent[number])
        figures = from_tally(subject, tally, seconds, own, rig.cores) | said
        if subject.pause_ms:
            grown_mb = resident_mb - subject.idle_mb
            figures["kb_stream"] = grown_mb * 1000 / subject.plan.connections
        if subject.is_opening_told:
            figures |= _first_bytes(seen.before)
            figures["openings"] = subject.plan.connections / opening_seconds
        made.append(figures)
    return made


def measure_pass(subject: Subject, rig: Rig) -> Window:
    """Figures of a plan that ends by itself, from its first call to its last. Raises VoidWindow."""
    before = _spent(subject.target, rig)
    began = time.perf_counter()
    try:
        rig.crew.open(subject.plan)
        rig.crew.measure(())
        seen = rig.crew.collect()
    except LoadFailed as failed:
        raise VoidWindow(str(failed)) from failed
    seconds = time.perf_counter() - began
    time.sleep(SETTLING_SECONDS)
    _refuse(seen)
    own = _spent(subject.target, rig).since(before)
    return from_tally(subject, seen.after, seconds, own, rig.cores)


def from_tally(
    subject: Subject, tally: Tally, seconds: float, spent: Spent, rig_cores: int
) -> Window:
    """Columns from what the clients saw and what was spent in so many seconds."""
    plan = subject.plan
    figures = {
        "rate": tally.answers / seconds,
        "server_busy": spent.server / seconds,
        "rig_busy": (spent.rig + spent.database) / seconds / rig_cores,
        "stolen": spent.stolen / seconds / (os.cpu_count() or 1),
    }
    if tally.answers:
        figures["cpu_ms"] = spent.server / tally.answers * 1000
        figures["pg_ms"] = spent.database / tally.answers * 1000
        figures["p50_ms"] = percentile(tally.seconds, 0.5) * 1000
        figures["p99_ms"] = percentile(tally.seconds, 0.99) * 1000
    if len(spent.processes) > 1 and spent.server and tally.answers:
        figures["busiest"] = max(spent.processes) / sum(spent.processes)
    if tally.answers and spent.server:
        figures["per_core"] = max(1, len(spent.processes)) * tally.answers / spent.server
    figures |= _first_bytes(tally)
    if tally.gaps:
        figures["gap_p99_ms"] = percentile(tally.gaps, 0.99) * 1000
    if tally.events:
        figures["event_us"] = spent.server / tally.events * 1e6
    if subject.pause_ms:
        due = plan.connections * seconds * 1000 / subject.pause_ms
        figures["served"] = tally.events / due
    return figures


def _first_bytes(tally: Tally) -> Window:
    if not tally.first:
        return {}
    shares = {"first_p50_ms": 0.5, "first_p99_ms": 0.99}
    return {name: percentile(tally.first, share) * 1000 for name, share in shares.items()}


def _refuse(seen: Seen) -> None:
    faults = seen.faults
    if faults:
        raise VoidWindow(f"{sum(faults.values())} failed: {', '.join(sorted(faults))}")
    if not any(one.answers or one.events for one in (*seen.windows, seen.after)):
        raise VoidWindow("no answer")


def _inside(subject: Subject) -> Inside | None:
    url = subject.target.admin_url
    return read_inside(url) if subject.wants_inside and url is not None else None


def _spent(target: Target, rig: Rig) -> Spent:
    """CPU so far of the server, of its database, of upstream and load."""
    database = 0.0 if target.database_pid is None else tree_cpu_seconds(target.database_pid)
    around = {rig.upstream.pid, *rig.crew.pids} | ({target.pid} if target.is_rig else set())
    return Spent(
        server=tree_cpu_seconds(target.pid),
        database=database,
        rig=sum(map(tree_cpu_seconds, around)),
        processes=tuple(cpu_seconds(pid) for pid in target.workers),
        stolen=stolen_seconds(),
    )


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
