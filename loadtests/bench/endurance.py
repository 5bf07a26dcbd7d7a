"""Memory over time: after a burst, and over a long run at half of what it can take."""

from __future__ import annotations

import time

from loadtests.bench.bench import GATEWAY, Ask, Bench
from loadtests.bench.crew import LoadFailed
from loadtests.bench.figures import Row, Section, slope
from loadtests.bench.load import Plan
from loadtests.bench.machine import tree_resident_mb
from loadtests.bench.rig import Target

PLAIN = Ask(connections=64)
BURST = (
    Ask(connections=2_000, events=40, pause_ms=20, opening_seconds=1.0),
    Ask(connections=64, image_bytes=750_000),
    Ask(connections=1_000),
)
# Each kind of work of the burst once, by a few.
WARM = (PLAIN, Ask(connections=64, events=40, pause_ms=20), Ask(connections=4, image_bytes=750_000))
BURST_COLUMNS = ("idle_mb", "peak_mb", "after_mb", "above_idle", "recovered_s")
SOAK_COLUMNS = ("minutes", "rate", "first_mb", "last_mb", "mb_per_hour")
BURST_NOTE = (
    "Idle is after each kind of work has been done once (64 plain calls, 64 streams, 4 bodies of "
    "1 MB): what is made once, whatever the load, is in it. The burst is 2,000 streams, then 64 "
    "bodies of 1 MB at a time, then plain calls on 1,000 connections; the process started at "
    "{start_mb:.1f} MB."
)
ABOVE_IDLE_MAX = 1.10
WATCH_SECONDS = 1.0
SOAK_WATCH_SECONDS = 5.0
SETTLING_SHARE = 0.2  # of a soak, that does not count


def burst(bench: Bench) -> Section:
    """Memory after a burst: back within a tenth of idle, and when."""
    scale = bench.scale
    voids: list[str] = []
    with bench.gateway([PLAIN, *BURST]) as target:
        pid = target.pid
        start_mb = tree_resident_mb(pid)
        bench.warm([target], *WARM)
        time.sleep(scale.settle_seconds)
        idle_mb = peak_mb = tree_resident_mb(pid)
        for ask in BURST:
            share = scale.burst_seconds / len(BURST)
            points, wrong = _run(bench, bench.subject(target, ask).plan, target, share)
            peak_mb = max([peak_mb, *(mb for _, mb in points)])
            voids += wrong
        ended = time.perf_counter()
        while True:
            after_mb, seconds = tree_resident_mb(pid), time.perf_counter() - ended
            if after_mb <= idle_mb * ABOVE_IDLE_MAX or seconds > scale.recover_seconds:
                break
            time.sleep(WATCH_SECONDS)
    row = _row(
        idle_mb=idle_mb,
        peak_mb=peak_mb,
        after_mb=after_mb,
        above_idle=after_mb / idle_mb - 1,
        recovered_s=seconds,
    )
    row.voids = voids
    note = BURST_NOTE.format(start_mb=start_mb)
    return Section("burst", "Memory after a burst", BURST_COLUMNS, [row], [note])


def soak(bench: Bench) -> Section:
    """Memory over a long run at half load."""
    seconds = bench.soak_minutes * 60
    with bench.gateway([PLAIN]) as target:
        rate = bench.half_rate(target, PLAIN)
        plan = bench.subject(target, Ask(connections=256, rate=rate)).plan
        points, voids = _run(bench, plan, target, seconds, every=min(SOAK_WATCH_SECONDS, seconds))
    settled = [point for point in points if point[0] >= seconds * SETTLING_SHARE]
    row = _row(
        minutes=bench.soak_minutes,
        rate=rate,
        first_mb=settled[0][1],
        last_mb=settled[-1][1],
        mb_per_hour=slope(settled) * 3600,
    )
    row.voids = voids
    notes = [f"The first {SETTLING_SHARE:.0%} of the time is left out."]
    return Section("soak", "Memory at half load", SOAK_COLUMNS, [row], notes)


def _run(
    bench: Bench, plan: Plan, target: Target, seconds: float, *, every: float = 0.2
) -> tuple[list[tuple[float, float]], list[str]]:
    """Load for so long; returns (second, MB) now and then, and what went wrong."""
    points, load = [], bench.rig.crew
    try:
        load.open(plan)
        begin = time.perf_counter()
        load.measure((begin, begin + seconds))
        while (at := time.perf_counter() - begin) < seconds:
            points.append((at, tree_resident_mb(target.pid)))
            time.sleep(min(every, seconds - at))
        seen = load.collect()
    except LoadFailed as failed:
        return points, [str(failed)]
    points.append((seconds, tree_resident_mb(target.pid)))
    return points, [f"{count} failed: {why}" for why, count in seen.faults.items()]


def _row(**values: float) -> Row:
    return Row(GATEWAY, [values])
