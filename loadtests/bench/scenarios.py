"""What is measured, piece by piece: rows of a table, each of which makes a section of a bench."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import linear_regression

from loadtests.bench.bench import Bench
from loadtests.bench.figures import Row, Section
from loadtests.bench.load import Ask, Subject
from loadtests.bench.machine import of_tree, resident_mb
from loadtests.bench.placement import available_cores, place
from loadtests.bench.rig import GATEWAY
from loadtests.bench.window import watch

Workload = Callable[[Bench, str], Section]

PLAIN = Ask(connections=64)
STREAM = Ask(connections=16, events=40)
BODY = Ask(connections=4, image_bytes=750_000, wants_inside=True)  # a third more in base64
# Streams as people read them, an event each now and then: opened evenly over the length of one, so
# that from then on as many end and begin in each moment; or 800 a second before the windows, in
# which none ends or begins: 13 seconds of opening, 8 of windows, and then the first of them ends.
# Each number of them gets about as many events a second as one core carries.
FAST = Ask(0, events=100, pause_ms=20, in_a_row=3, wants_inside=True)
SLOW = Ask(0, events=50, pause_ms=100, in_a_row=3, wants_inside=True)
OPEN = Ask(0, events=45, pause_ms=500, in_a_row=4, wants_inside=True, window_seconds=2.0,
           is_opening_told=True)  # fmt: skip
OPENINGS = 800
# What every server has done before its idle memory is taken.
WARM = Ask(connections=64, events=40)
BURST = (
    Ask(connections=2_000, events=40, pause_ms=20, opening_seconds=1.0),
    Ask(connections=64, image_bytes=750_000),
    Ask(connections=1_000),
)
# Each kind of work of the burst once, by a few.
WARM_BURST = (PLAIN, replace(WARM, pause_ms=20), Ask(connections=4, image_bytes=750_000))
ABOVE_IDLE_MAX = 1.10
PROCESS_COUNT = 2
WATCH_SECONDS, SOAK_WATCH_SECONDS = 1.0, 5.0
SETTLING_SHARE = 0.2  # of a soak, that does not count

BUSY = ("server_busy", "rig_busy")
CALL = ("rate", "cpu_ms", "ratio", "pg_ms", "p50_ms", "p99_ms", *BUSY)
BODY_COLUMNS = (*CALL[:4], "lag_ms", *CALL[4:])
HALF = ("rate", "cpu_ms", "pg_ms", "p50_ms", "p99_ms", "hold_ms", "batch_ms",
        "batch_messages", *BUSY)  # fmt: skip
PROCESSES = ("rate", "cpu_ms", "per_core", "busiest", "pg_ms", "p50_ms", "p99_ms", *BUSY)
PACED = ("event_us", "ratio", "served", "first_p50_ms", "first_p99_ms", "gap_p99_ms", "hold_ms",
         "batch_ms", "lag_ms", "kb_stream", *BUSY)  # fmt: skip
MEMORY = ("idle_mb", "peak_mb", "after_mb", "above_idle", "recovered_s")
SOAK = ("minutes", "rate", "first_mb", "last_mb", "mb_per_hour")

COMPETING_NOTE = (
    "The rig competes with the gateway for the same cores: the CPU of a call is to be trusted, and "
    "what a core of its own for each process would serve is the second figure of calls."
)


def by_server(title: str, ask: Ask, columns: Sequence[str] = CALL) -> Workload:
    """The same asked of every server."""

    def run(bench: Bench, name: str) -> Section:
        with bench.servers(ask) as targets:
            rows = bench.compare([bench.subject(target, ask) for target in targets])
        return Section(name, title, columns, rows)

    return run


def by_ask(title: str, asks: Mapping[str, Ask]) -> Workload:
    """Several things asked of one gateway."""

    def run(bench: Bench, name: str) -> Section:
        with bench.gateway(*asks.values()) as target:
            subjects = [bench.subject(target, ask, name=row) for row, ask in asks.items()]
            return Section(name, title, CALL, bench.compare(subjects))

    return run


def paced(size: int, pace: Ask) -> Workload:
    """Streams of a pace, as many as the scale says at this place, of every server."""

    def run(bench: Bench, name: str) -> Section:
        streams = bench.scale.streams[size]
        seconds = pace.events * pace.pause_ms / 1000
        if pace.is_opening_told:
            seconds = streams / OPENINGS
        ask = replace(pace, connections=streams, opening_seconds=seconds)
        with bench.servers(ask, WARM) as targets:
            if pace.is_opening_told:
                # The upstream keeps a connection for each stream of each server that has had its
                # turn: the largest number leaves no files for the load's own.
                targets = [one for one in targets if one != bench.rig.upstream]
            bench.warm(targets, WARM)
            rows = bench.compare([bench.subject(target, ask) for target in targets])
        title = f"{streams:,} streams open, an event each every {pace.pause_ms} ms"
        columns = ("openings", *PACED) if pace.is_opening_told else PACED
        note = (
            f"{streams / seconds:,.0f} streams of {pace.events} events are opened a second, "
            f"{streams * 1000 // pace.pause_ms:,} events are due a second."
        )
        return Section(name, title, columns, rows, [note])

    return run


def half(bench: Bench, name: str) -> Section:
    """Plain calls at half of the rate that saturates a gateway, as they come."""
    with bench.gateway(PLAIN) as target:
        rate = bench.half_rate(target, PLAIN)
        ask = Ask(connections=256, rate=rate, wants_inside=True)
        rows = bench.compare([bench.subject(one, ask) for one in (bench.rig.upstream, target)])
    title = f"Latency at half of saturation: {rate:,.0f} plain calls a second as they come"
    return Section(name, title, HALF, rows)


def accounts(bench: Bench, name: str) -> Section:
    """Plain calls by one key, and by one each of many accounts."""
    counts = bench.scale.accounts
    with bench.gateway(PLAIN, accounts=sum(counts)) as target:
        subjects, keys, first = list[Subject](), list(target.keys), list[Row]()
        for count in counts:
            some, keys = keys[:count], keys[count:]
            called = f"{count:,} accounts" if count > 1 else "1 account"
            subjects.append(bench.subject(target, PLAIN, name=called, keys=some))
            first.append(bench.every_key_once(subjects[-1]))
        rows = bench.compare(subjects)
    title = f"Plain call, {PLAIN.connections} connections, by number of accounts"
    return Section(name, title, CALL, rows + first[1:])  # of one: one call


def processes(bench: Bench, name: str) -> Section:
    """A gateway of one process and one of several, with cores of their own where there are some."""
    count = PROCESS_COUNT
    ask = Ask(connections=PLAIN.connections * count)
    with bench.placed(place(available_cores(), server=count)) as wide:
        with (
            wide.gateway(PLAIN, name="1 process") as one,
            wide.gateway(PLAIN, name=f"{count} processes", processes=count) as several,
        ):
            rows = wide.compare([wide.subject(target, ask) for target in (one, several)])
        notes = [f"Here: {wide.placement.describe()}."]
        if not wide.placement.is_disjoint:
            notes.append(COMPETING_NOTE)
    title = f"{count} processes beside one, {ask.connections} connections"
    return Section(name, title, PROCESSES, rows, notes)


def burst(bench: Bench, name: str) -> Section:
    """Memory at idle, at the peak of a burst, and when it has come back."""
    scale = bench.scale
    voids: list[str] = []
    with bench.gateway(PLAIN, *BURST) as target:
        start_mb = of_tree(resident_mb, target.pid)
        bench.warm([target], *WARM_BURST)
        time.sleep(scale.settle_seconds)
        idle_mb = peak_mb = of_tree(resident_mb, target.pid)
        for ask in BURST:
            points, wrong = watch(bench.subject(target, ask), scale.burst_seconds / len(BURST), 0.2)
            peak_mb = max([peak_mb, *(mb for _, mb in points)])
            voids += [wrong] if wrong else []
        ended = time.perf_counter()
        while True:
            after_mb, seconds = of_tree(resident_mb, target.pid), time.perf_counter() - ended
            if after_mb <= idle_mb * ABOVE_IDLE_MAX or seconds > scale.recover_seconds:
                break
            time.sleep(WATCH_SECONDS)
    figures = (idle_mb, peak_mb, after_mb, after_mb / idle_mb - 1, seconds)
    row = Row(GATEWAY, [dict(zip(MEMORY, figures, strict=True))], voids)
    note = f"The process started at {start_mb:.1f} MB."
    return Section(name, "Memory after a burst", MEMORY, [row], [note])


def soak(bench: Bench, name: str) -> Section:
    """Memory over a long run at half of what the gateway can take."""
    seconds = bench.soak_minutes * 60
    with bench.gateway(PLAIN) as target:
        rate = bench.half_rate(target, PLAIN)
        ask = Ask(connections=256, rate=rate)
        points, wrong = watch(bench.subject(target, ask), seconds, min(SOAK_WATCH_SECONDS, seconds))
    at, mb = zip(*(point for point in points if point[0] >= seconds * SETTLING_SHARE), strict=True)
    growth = linear_regression(at, mb).slope * 3600 if len(at) > 1 else 0.0
    figures = (bench.soak_minutes, rate, mb[0], mb[-1], growth)
    row = Row(GATEWAY, [dict(zip(SOAK, figures, strict=True))], [wrong] if wrong else [])
    note = f"The first {SETTLING_SHARE:.0%} of the time is left out."
    return Section(name, "Memory at half load", SOAK, [row], [note])


WORKLOADS: Mapping[str, Workload] = {
    "plain": by_server("Plain call, 64 connections", PLAIN),
    "stream": by_server("40-event stream back to back, 16 connections", STREAM),
    "paced500": paced(0, FAST),
    "paced2000": paced(1, SLOW),
    "open10000": paced(2, OPEN),
    "body": by_server("1 MB body, 4 connections", BODY, BODY_COLUMNS),
    "translated": by_ask(
        "Translated plain call (chat → messages)",
        {"native": PLAIN, "translated": replace(PLAIN, is_translated=True)},
    ),
    "translated-stream": by_ask(
        "Translated 40-event stream (chat → messages)",
        {"native": STREAM, "translated": replace(STREAM, is_translated=True)},
    ),
    "half": half,
    "accounts": accounts,
    "database": by_ask(
        "Plain call at rising load",
        {f"{count} connections": Ask(connections=count) for count in (16, 64, 256)},
    ),
    "burst": burst,
    "processes": processes,
    "soak": soak,
}
