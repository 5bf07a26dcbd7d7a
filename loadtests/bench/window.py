"""One window: a load opened, measured between two moments, drained; CPU of everyone meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.bench.figures import percentile
from loadtests.bench.lag import longest_seconds, read_buckets
from loadtests.bench.load import Crew, LoadFailed, Plan, Seen
from loadtests.bench.machine import tree_cpu_seconds, tree_resident_mb
from loadtests.bench.rig import Target

LEAD_SECONDS = 0.03  # for the load processes to hear of a window before it begins


@dataclass(frozen=True)
class Subject:
    """A server with what is asked of it. `pause_ms` is the upstream's between two events."""

    name: str
    target: Target
    plan: Plan
    pause_ms: int = 0
    idle_mb: float = 0.0
    wants_lag: bool = False


@dataclass(frozen=True)
class Rig:
    """What surrounds the server under test."""

    crew: Crew
    upstream: Target
    cores: int  # that it has, beside the server's


class VoidWindow(Exception):
    """A window that does not count, and why."""


def measure(subject: Subject, rig: Rig, *, seconds: float, warm_seconds: float) -> dict[str, float]:
    """One window's figures by column. Raises VoidWindow."""
    target = subject.target
    try:
        rig.crew.open(subject.plan)
    except LoadFailed as failed:
        raise VoidWindow(str(failed)) from failed
    time.sleep(warm_seconds)
    lag = read_buckets(target.admin_url) if subject.wants_lag and target.admin_url else None
    begin = time.perf_counter() + LEAD_SECONDS
    end = begin + seconds
    rig.crew.measure(begin, end)
    _sleep_until(begin)
    before = _spent(target, rig)
    _sleep_until((begin + end) / 2)
    resident_mb = tree_resident_mb(target.pid)
    _sleep_until(end)
    after = _spent(target, rig)
    try:
        seen = rig.crew.collect()
    except LoadFailed as failed:
        raise VoidWindow(str(failed)) from failed
    _refuse(seen)
    spent = [late - early for early, late in zip(before, after, strict=True)]
    figures = from_tally(subject, seen, seconds, spent, rig.cores)
    if lag is not None and target.admin_url is not None:
        figures["lag_ms"] = longest_seconds(lag, read_buckets(target.admin_url)) * 1000
    if subject.pause_ms:
        figures["kb_stream"] = (resident_mb - subject.idle_mb) * 1000 / subject.plan.connections
    return figures


def _refuse(seen: Seen) -> None:
    failures = seen.window.failures + seen.outside.failures
    if failures:
        faults = {**seen.outside.faults, **seen.window.faults}
        raise VoidWindow(f"{failures} failed: {', '.join(sorted(faults))}")
    if not seen.window.answers and not seen.window.events:
        raise VoidWindow("no answer")


def from_tally(
    subject: Subject, seen: Seen, seconds: float, spent: Sequence[float], rig_cores: int
) -> dict[str, float]:
    """Columns from what was seen; `spent` is the CPU of server, database and rig in seconds."""
    server, database, rig = spent
    window, plan = seen.window, subject.plan
    figures = {
        "rate": window.answers / seconds,
        "server_busy": server / seconds,
        "rig_busy": (rig + database) / seconds / rig_cores,
        "dropped": 0.0,
    }
    if window.answers:
        figures["cpu_ms"] = server / window.answers * 1000
        figures["pg_ms"] = database / window.answers * 1000
        figures["p50_ms"] = percentile(window.seconds, 0.5) * 1000
        figures["p99_ms"] = percentile(window.seconds, 0.99) * 1000
    if window.first:
        figures["first_p50_ms"] = percentile(window.first, 0.5) * 1000
        figures["first_p99_ms"] = percentile(window.first, 0.99) * 1000
    if window.gaps:
        figures["gap_p99_ms"] = percentile(window.gaps, 0.99) * 1000
    if window.events:
        figures["event_us"] = server / window.events * 1e6
    if subject.pause_ms:
        due = plan.connections * seconds * 1000 / subject.pause_ms
        figures["served"] = window.events / due
    return figures


def _spent(target: Target, rig: Rig) -> tuple[float, float, float]:
    """CPU so far of the server, of its database, of upstream and load."""
    database = 0.0 if target.database_pid is None else tree_cpu_seconds(target.database_pid)
    around = sum(tree_cpu_seconds(pid) for pid in (rig.upstream.pid, *rig.crew.pids))
    return tree_cpu_seconds(target.pid), database, around


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
