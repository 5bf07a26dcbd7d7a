"""What is measured, piece by piece: rows of a table, each of which makes a section of a bench."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import linear_regression
from typing import Any

from actors.store.queries import load
from loadtests.bench.bench import Bench, watch
from loadtests.bench.figures import Row, Section, Window, added
from loadtests.bench.load import Ask, Subject
from loadtests.bench.upstream import CHANNELS, model_name
from loadtests.rig.machine import available_cores, of_tree, place, resident_mb
from loadtests.rig.site import OWN
from loadtests.rig.targets import Target, database_in

Workload = Callable[[Bench], Section]

PLAIN = Ask(connections=64)
WIDE = Ask(connections=128)  # of servers of several processes
STREAM = Ask(connections=16, events=40)
BODY = Ask(connections=4, image_bytes=750_000)  # a third more in base64
# Streams as people read them, an event each now and then: opened evenly over the length of one, so
# that from then on as many end and begin in each moment; or 800 a second before the windows, in
# which none ends or begins: 13 seconds of opening, 8 of windows, and then the first of them ends.
# Each number of them gets about as many events a second as one core carries.
FAST = Ask(500, events=100, pause_ms=20, in_a_row=3)
SLOW = Ask(2_000, events=50, pause_ms=100, in_a_row=3)
OPEN = Ask(10_000, events=45, pause_ms=500, in_a_row=4, window_seconds=2.0, measures_opening=True)
OPENINGS = 800
# What every server has done before its idle memory is taken.
WARM = Ask(connections=64, events=40)
BURST = (
    Ask(connections=2_000, events=40, pause_ms=20, opening_seconds=1.0),
    Ask(connections=64, image_bytes=750_000),
    Ask(connections=1_000),
)
# Each kind of work of the burst once, by a few.
WARM_BURST = (PLAIN, WARM._replace(pause_ms=20), BODY)
BURST_SECONDS, RECOVER_SECONDS, SETTLE_SECONDS = 10.0, 120.0, 3.0
ABOVE_IDLE_MAX = 1.10
ACCOUNTS = (1, 1_000, 10_000)
# Before its windows each of 10,000 accounts has called twice: from then on it is leased for.
MANY = PLAIN._replace(opening_seconds=10.0, in_a_row=3)
FEW = Ask(connections=1, rate=2.0, window_seconds=4.0)
OPEN_JOBS = 10_000
JOBS_SQL = load("loadtests.bench", "jobs.sql")
BUDGETS_SQL = load("loadtests.bench", "budgets.sql")
# For whom a call is: an end user and two labels, as its client says in headers.
ATTRIBUTED = PLAIN._replace(
    headers={"X-Gateway-End-User": "reader-4711", "X-Gateway-Labels": "team=search, feature=chat"}
)
SOAK_MINUTES = 20.0
SETTLING_SHARE = 0.2  # of a soak, that does not count
BUSY = ("server_busy", "rig_busy")
CALL = ("rate", "cpu_ms", "ratio", "pg_ms", "p50_ms", "p99_ms", *BUSY)
BODY_COLUMNS = (*CALL[:4], "lag_ms", *CALL[4:])
HALF = ("rate", "cpu_ms", "ratio", "pg_ms", "p50_ms", "p99_ms", "hold_ms", "batch_ms",
        "batch_messages", *BUSY)  # fmt: skip
PROCESSES = ("rate", "cpu_ms", "per_core", "busiest", "pg_ms", "p50_ms", "p99_ms", *BUSY)
PACED = ("event_us", "ratio", "served", "first_p50_ms", "first_p99_ms", "gap_p99_ms", "hold_ms",
         "batch_ms", "lag_ms", "kb_stream", *BUSY)  # fmt: skip
MEMORY = ("idle_mb", "peak_mb", "after_mb", "above_idle", "recovered_s")
SOAK = ("minutes", "rate", "first_mb", "last_mb", "mb_per_hour")


def by_server(title: str, ask: Ask, columns: Sequence[str] = CALL) -> Workload:
    """The same asked of every server."""

    def run(bench: Bench) -> Section:
        with bench.servers(ask) as targets:
            rows = bench.compare([bench.subject(target, ask) for target in targets])
        return Section(title, columns, rows)

    return run


def by_ask(title: str, asks: Mapping[str, Ask]) -> Workload:
    """Several things asked of one gateway; with a translation, of others that do the same."""
    is_translated = any(ask.is_translated for ask in asks.values())

    def run(bench: Bench) -> Section:
        servers = bench.translators if is_translated else bench.gateways
        with servers(*asks.values()) as targets:
            every = [(one, name, ask) for one in targets for name, ask in asks.items()]
            subjects = [bench.subject(one, ask, name=name) for one, name, ask in every]
            return Section(title, CALL, bench.compare(subjects))

    return run


def paced(pace: Ask) -> Workload:
    """Streams of a pace, as many as can be, of every server."""

    def run(bench: Bench) -> Section:
        streams, seconds = bench.streams(pace.connections), pace.events * pace.pause_ms / 1000
        if pace.measures_opening:
            seconds = streams / OPENINGS
        ask = pace._replace(connections=streams, opening_seconds=seconds)
        with bench.servers(ask, WARM) as targets:
            if pace.measures_opening:
                # The upstream keeps a connection for each stream of each server that has had its
                # turn: the largest number leaves no files for the load's own.
                targets = [one for one in targets if one != bench.upstream]
            bench.warm(targets, WARM)
            rows = bench.compare([bench.subject(target, ask) for target in targets])
        columns = ("openings", *PACED) if pace.measures_opening else PACED
        note = (
            f"{streams / seconds:,.0f} streams of {pace.events} events are opened a second, "
            f"{streams * 1000 // pace.pause_ms:,} events are due a second."
        )
        title = f"{streams:,} streams open, an event each every {pace.pause_ms} ms"
        return Section(title, columns, rows, [note])

    return run


def half(bench: Bench) -> Section:
    """Plain calls at half of the rate that saturates our gateway, and each other, as they come."""
    with bench.bare() as bare, bench.gateways(PLAIN) as targets:
        half, *others = [bench.half_rate(target, PLAIN) for target in targets]
        ask = Ask(connections=256, rate=half)
        subjects = [bench.subject(one, ask) for one in (bench.upstream, bare, *targets)]
        for less in (ask._replace(rate=rate) for rate in others):
            subjects.append(bench.subject(targets[0], less, name=f"gateway at {less.rate:,.0f}/s"))
        title = f"Latency at half of saturation: {half:,.0f} plain calls a second as they come"
        return Section(title, HALF, bench.compare(subjects))


def accounts(bench: Bench) -> Section:
    """Plain calls by one key, and by one each of many accounts, which are new at first."""
    subjects, first = [], []
    with bench.gateways(PLAIN, accounts=sum(ACCOUNTS)) as targets:
        for target in targets:
            keys = list(target.keys)
            for count in ACCOUNTS:
                some, keys = keys[:count], keys[count:]
                name = f"{count:,} account{'s' * (count > 1)}"
                subjects.append(bench.subject(target, MANY, name=name, keys=some))
                name = f"{subjects[-1].name}, the first call of each"
                first.append(Row(name, [bench.once(subjects[-1], count)]))
        rows = bench.compare(subjects)
    title = f"Plain call, {PLAIN.connections} connections, by number of accounts"
    return Section(title, CALL, [*rows, *(row for row in first if not row.name.startswith("1 "))])


def processes(bench: Bench) -> Section:
    """A gateway of one process and one of several, with cores of their own where there are some."""
    with (
        bench.placed(place(available_cores(), server=2)) as wide,
        wide.gateways(PLAIN, name="1 process") as one,
        wide.gateways(PLAIN, name="2 processes", processes=2) as several,
    ):
        by_tree = [target for pair in zip(one, several, strict=True) for target in pair]
        subjects = [wide.subject(target, WIDE) for target in by_tree]
        return _wide(wide, "2 processes beside one", subjects)


def hot(bench: Bench) -> Section:
    """Two accounts over two processes, and one that both of them serve."""
    with (
        bench.placed(place(available_cores(), server=2)) as wide,
        wide.gateways(PLAIN, accounts=3, processes=2) as targets,
    ):
        subjects = [
            wide.subject(target, WIDE, name=name, keys=target.keys[some])
            for target in targets
            for name, some in (("two accounts", slice(1, 3)), ("one account", slice(1)))
        ]
        return _wide(wide, "One account beside two over 2 processes", subjects)


def _wide(bench: Bench, title: str, subjects: Sequence[Subject]) -> Section:
    rows, note = bench.compare(subjects), f"Here: {bench.placement.describe()}."
    return Section(f"{title}, {WIDE.connections} connections", PROCESSES, rows, [note])


def budgets(bench: Bench) -> Section:
    """Plain calls that match no budget, that match two, and that say whom they are for."""
    subjects = []
    with bench.gateways(PLAIN, accounts=3) as targets:
        for own, target in zip((OWN, *bench.trees), targets, strict=True):
            plain, limited, attributed = ([key] for key in target.keys)
            subjects.append(bench.subject(target, PLAIN, name="neither", keys=plain))
            if own.knows("budgets"):  # an older tree's calls know neither
                who = {"account": "bench 1", "model": model_name(*PLAIN.shape)}
                asyncio.run(_execute(target, BUDGETS_SQL["two_nodes"], **who))
                add = partial(bench.subject, target)
                subjects.append(add(PLAIN, name="two budgets", keys=limited))
                subjects.append(add(ATTRIBUTED, name="end user, two labels", keys=attributed))
        rows = bench.compare(subjects)
    return Section("Plain call that matches two budgets, or says whom it is for", CALL, rows)


def jobs(bench: Bench) -> Section:
    """Plain calls, and few, beside open jobs of which none is due, and of which each is polled."""
    subjects = []
    with bench.gateways(PLAIN, channels={**CHANNELS, "film": "videos"}) as targets:
        for target in targets:
            for query in ("open_jobs", "analyze"):
                asyncio.run(_execute(target, JOBS_SQL[query], count=OPEN_JOBS))
            for work, ask in (("calls", PLAIN), ("few calls", FEW)):
                for due, query in (("no job is due", "rest"), ("all are polled", "poll")):
                    prepare = partial(_let_be_due, target, query)
                    name = f"{work}, {due}"
                    subjects.append(bench.subject(target, ask, name=name, prepare=prepare))
        rows = bench.compare(subjects)
    columns = ("polls", *CALL)
    notes = [_poll_cost(*pair) for pair in zip(rows[2::4], rows[3::4], strict=True)]
    return Section(f"{OPEN_JOBS:,} open jobs", columns, rows, notes)


def _let_be_due(target: Target, query: str) -> None:
    asyncio.run(_execute(target, JOBS_SQL[query], count=OPEN_JOBS))
    time.sleep(SETTLE_SECONDS)


async def _execute(target: Target, query: str, **values: Any) -> None:
    """Run a query in the database of a gateway."""
    assert target.config is not None
    folder = target.config.parent / "var"
    async with database_in(folder, size=1, statement_seconds=600.0) as database:
        await database.execute(query, values)


def _poll_cost(idle: Row, polled: Row) -> str:
    """What polls cost a gateway that has little else to do."""
    spent, polls = added(polled, idle, "server_busy"), polled.get("polls")
    cost = f"{spent / polls * 1e6:.0f} µs of the gateway" if spent and polls else "not measured"
    return f"{polled.name}: a poll costs {cost}"


def burst(bench: Bench) -> Section:
    """Memory at idle, at the peak of a burst, and when it has come back."""
    with bench.gateways(PLAIN, *BURST) as targets:
        started = [of_tree(resident_mb, target.pid) for target in targets]
        rows = [_burst(bench, target) for target in targets]
    note = f"The process started at {started[0]:.1f} MB."
    return Section("Memory after a burst", MEMORY, rows, [note])


def _burst(bench: Bench, target: Target) -> Row:
    bench.warm([target], *WARM_BURST)
    time.sleep(SETTLE_SECONDS)
    row, idle_mb = Row(target.name), of_tree(resident_mb, target.pid)
    peak_mb = idle_mb
    for ask in BURST:
        points, wrong = watch(bench.subject(target, ask), BURST_SECONDS / len(BURST), 0.2)
        peak_mb = max([peak_mb, *(mb for _, mb in points)])
        row.voids += [wrong] if wrong else []
    ended, seconds, after_mb = time.perf_counter(), 0.0, of_tree(resident_mb, target.pid)
    while after_mb > idle_mb * ABOVE_IDLE_MAX and seconds <= RECOVER_SECONDS:
        time.sleep(1.0)
        after_mb, seconds = of_tree(resident_mb, target.pid), time.perf_counter() - ended
    figures = (idle_mb, peak_mb, after_mb, after_mb / idle_mb - 1, seconds)
    row.windows.append(Window(zip(MEMORY, figures, strict=True)))
    return row


def soak(bench: Bench) -> Section:
    """Memory over a long run at half of what our gateway can take."""
    seconds = SOAK_MINUTES * 60
    with bench.gateways(PLAIN) as (target, *_):
        rate = bench.half_rate(target, PLAIN)
        points, wrong = watch(bench.subject(target, Ask(256, rate=rate)), seconds, 5.0)
    at, mb = zip(*(point for point in points if point[0] >= seconds * SETTLING_SHARE), strict=True)
    growth = linear_regression(at, mb).slope * 3600
    figures = (SOAK_MINUTES, rate, mb[0], mb[-1], growth)
    row = Row(target.name, [Window(zip(SOAK, figures, strict=True))], [wrong] if wrong else [])
    note = f"The first {SETTLING_SHARE:.0%} of the time is left out."
    return Section("Memory at half load", SOAK, [row], [note])


# Of all calls that other servers may be asked for.
SHAPES = [ask.shape for ask in (PLAIN, STREAM, BODY, FAST, SLOW, OPEN, WARM)]
WORKLOADS: Mapping[str, Workload] = {
    "plain": by_server("Plain call, 64 connections", PLAIN),
    "stream": by_server("40-event stream back to back, 16 connections", STREAM),
    "paced500": paced(FAST),
    "paced2000": paced(SLOW),
    "open10000": paced(OPEN),
    "body": by_server("1 MB body, 4 connections", BODY, BODY_COLUMNS),
    "translated": by_ask(
        "Translated plain call (chat → messages)",
        {"native": PLAIN, "translated": PLAIN._replace(is_translated=True)},
    ),
    "translated-stream": by_ask(
        "Translated 40-event stream (chat → messages)",
        {"native": STREAM, "translated": STREAM._replace(is_translated=True)},
    ),
    "half": half,
    "accounts": accounts,
    "database": by_ask(
        "Plain call at rising load",
        {f"{count} connections": Ask(connections=count) for count in (16, 64, 256)},
    ),
    "budgets": budgets,
    "burst": burst,
    "jobs": jobs,
    "processes": processes,
    "hot": hot,
    "soak": soak,
}
