"""A run of the benchmark: starts what a piece of work needs, interleaves the windows, sums up.

In a window a load is opened, measured, drained: what everyone spent and the clients saw in it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from loadtests.bench.figures import Row, Window, percentile
from loadtests.bench.load import Ask, Load, Subject, Tally
from loadtests.bench.upstream import CHANNELS, MESSAGES, chat_body, model_name, models, requests
from loadtests.rig import targets
from loadtests.rig.client import fetch
from loadtests.rig.machine import (
    DATABASE_NICE,
    NICE,
    Placement,
    cpu_seconds,
    go_first,
    of_tree,
    pin,
    resident_mb,
    stolen_seconds,
    tree,
)
from loadtests.rig.site import OWN, Tree
from loadtests.rig.targets import Rig

WARM_SECONDS = 0.5
SETTLING_SECONDS = 0.5  # after the last answer of a pass: its settlements and log rows
SWITCH_SECONDS = 0.0001  # of threads: what reads figures shall not wait for a busy load
LAG = "gw_loop_lag_seconds_bucket"
POLLS = "gw_task_polls_total"
# column: the histogram of the gateway whose mean it is, and the factor
MEANS: Mapping[str, tuple[str, float]] = {
    "hold_ms": ("gw_hold_latency_seconds", 1000),
    "batch_ms": ("gw_ledger_batch_seconds", 1000),
    "batch_messages": ("gw_ledger_batch_messages", 1),
}

# Of all processes together: values by series, or by the bound of a bucket of the loop's lag.
Metrics = dict[str | float, float]
# CPU seconds of `server`, `database`, `rig`, what was `stolen`, when (`at`), and by worker's pid.
Spent = dict[str | int, float]


class VoidWindow(Exception):
    """A window that does not count, and why."""


def measure(subject: Subject, rig: Rig) -> list[Window]:
    """Figures by column of each window of one opening. Raises VoidWindow."""
    ask, seconds, began = subject.ask, subject.ask.window_seconds, time.perf_counter()
    spent: list[Spent] = []
    memory_mb, openings, inside = [0.0], 0.0, Window()

    async def windows(load: Load) -> None:
        nonlocal openings, inside
        openings = ask.connections / (time.perf_counter() - began)
        await asyncio.sleep(WARM_SECONDS)
        before = await asyncio.to_thread(read_metrics, subject)
        await asyncio.sleep(WARM_SECONDS)  # calls beside the page of metrics waited
        begin = time.perf_counter()
        for number in range(ask.in_a_row + 1):
            await asyncio.sleep(begin + seconds * number - time.perf_counter())
            load.tallies.append(Tally())
            spent.append(await asyncio.to_thread(read_spent, subject, rig))
            if ask.pause_ms:
                memory_mb.append(await asyncio.to_thread(of_tree, resident_mb, subject.target.pid))
        after, took = await asyncio.to_thread(read_metrics, subject), time.perf_counter() - begin
        inside = between(parse_metrics(before), parse_metrics(after), took)

    load, made = _run(subject, windows), []
    opening, *tallies, _ = load.tallies
    for tally, early, late in zip(tallies, spent, spent[1:], strict=False):
        figures = from_tally(subject, tally, seconds, grown(early, late, seconds), rig) | inside
        if ask.pause_ms:
            figures["kb_stream"] = (max(memory_mb) - subject.idle_mb) * 1000 / ask.connections
        if ask.measures_opening:
            figures |= _percentiles("first_", opening.first) | {"openings": openings}
        made.append(figures)
    return made


def measure_pass(subject: Subject, rig: Rig) -> Window:
    """Figures of calls that come to an end, from its first call to its last. Raises VoidWindow."""
    before, began = read_spent(subject, rig), time.perf_counter()
    (tally,) = _run(subject).tallies
    seconds = time.perf_counter() - began
    time.sleep(SETTLING_SECONDS)
    return from_tally(subject, tally, seconds, grown(before, read_spent(subject, rig)), rig)


def watch(subject: Subject, seconds: float, every: float) -> tuple[list[tuple[float, float]], str]:
    """Load for so long; returns (second, MB) now and then, and what went wrong."""
    points: list[tuple[float, float]] = []

    async def watching(load: Load) -> None:
        begin, at = time.perf_counter(), 0.0
        while at < seconds:
            points.append((at, await asyncio.to_thread(of_tree, resident_mb, subject.target.pid)))
            await asyncio.sleep(min(every, seconds - at))
            at = time.perf_counter() - begin
        points.append((at, await asyncio.to_thread(of_tree, resident_mb, subject.target.pid)))

    try:
        _run(subject, watching)
    except VoidWindow as void:
        return points, str(void)
    return points, ""


def read_spent(subject: Subject, rig: Rig) -> Spent:
    """What has been spent so far. Stamped: beside a busy load a reading takes a moment."""
    target = subject.target
    return {
        "server": of_tree(cpu_seconds, target.pid),
        "database": of_tree(cpu_seconds, target.database_pid) if target.database_pid else 0.0,
        "rig": sum(map(cpu_seconds, rig.pids)),
        "stolen": stolen_seconds(),
        "at": time.perf_counter(),
        **{pid: cpu_seconds(pid) for pid in target.workers},
    }


def grown(early: Spent, late: Spent, seconds: float | None = None) -> Spent:
    """What was spent between; in so many seconds at the pace of the time between, if given."""
    scale = 1.0 if seconds is None else seconds / (late["at"] - early["at"])
    return {key: (late[key] - early[key]) * scale for key in late}


def from_tally(subject: Subject, tally: Tally, seconds: float, spent: Spent, rig: Rig) -> Window:
    """Columns from what the clients saw and what was spent in so many seconds."""
    server, workers = spent["server"], [spent[pid] for pid in subject.target.workers]
    figures = {
        "rate": tally.responses / seconds,
        "server_busy": server / seconds,
        "rig_busy": (spent["rig"] + spent["database"]) / seconds / rig.cores,
        "stolen": spent["stolen"] / seconds / (os.cpu_count() or 1),
    }
    if tally.responses:
        figures["cpu_ms"] = server / tally.responses * 1000
        figures["pg_ms"] = spent["database"] / tally.responses * 1000
        figures["whole_ms"] = figures["cpu_ms"] + figures["pg_ms"]
        figures |= _percentiles("", tally.seconds)
        if server:
            figures["per_core"] = max(1, len(workers)) * tally.responses / server
        if any(workers):
            figures["busiest"] = max(workers) / sum(workers)
    figures |= _percentiles("first_", tally.first) | _percentiles("gap_", tally.gaps)
    if tally.events:
        figures["event_us"] = server / tally.events * 1e6
        figures["whole_event_us"] = (server + spent["database"]) / tally.events * 1e6
    if subject.ask.pause_ms:
        due = subject.ask.connections * seconds * 1000 / subject.ask.pause_ms
        figures["served"] = tally.events / due
    return figures


def read_metrics(subject: Subject) -> str:
    """The page of the gateway's own metrics; "" for other servers. Raises OSError."""
    if (url := subject.target.admin_url) is None:
        return ""
    return fetch(f"{url}/metrics").body.decode()


def parse_metrics(page: str) -> Metrics:
    """Read a page of metrics; what differs in labels alone is added up."""
    found: Metrics = defaultdict(float)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found[float(sample.labels["le"]) if sample.name == LAG else sample.name] += sample.value
    return found


def between(before: Metrics, after: Metrics, seconds: float = 1.0) -> Window:
    """Columns of what happened between two readings; none when there was no reading."""
    more = {name: value - before.get(name, 0.0) for name, value in after.items()}
    made, below = {"lag_ms": 0.0} if after else {}, 0.0
    # The bound of the highest bucket that something was added to, 0 when nothing was.
    for bound in sorted(key for key in more if isinstance(key, float)):
        if more[bound] > below:
            made["lag_ms"] = bound * 1000
        below = more[bound]
    if polls := more.get(POLLS):
        made["polls"] = polls / seconds
    for column, (series, factor) in MEANS.items():
        if count := more.get(f"{series}_count"):
            made[column] = more[f"{series}_sum"] / count * factor
    return made


def _percentiles(prefix: str, seconds: Sequence[float]) -> Window:
    """The median and the 99th percentile in ms, of times in seconds if there are any."""
    shares = {"p50_ms": 0.5, "p99_ms": 0.99} if seconds else {}
    return {prefix + column: percentile(seconds, share) * 1000 for column, share in shares.items()}


def _run(subject: Subject, meanwhile: Callable[[Load], Awaitable[None]] | None = None) -> Load:
    """A load to its end. Raises VoidWindow when anything failed, or nothing came."""

    async def run() -> Load:
        load = Load(subject)
        try:
            await load.open()
            if meanwhile is not None:
                await meanwhile(load)
            await load.close()
        finally:
            load.abort()
        return load

    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.disable()  # a collection would be a gap that this process made
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            load = runner.run(run())
    except (OSError, TimeoutError) as error:
        raise VoidWindow(f"{type(error).__name__}: {error}") from error
    finally:
        gc.enable()
    if faults := load.faults:
        raise VoidWindow(f"{faults.total()} failed: {', '.join(sorted(faults))}")
    if not any(one.responses or one.events for one in load.tallies):
        raise VoidWindow("no answer")
    return load


FILES_BESIDE_STREAMS = 200
RATE_WINDOWS = 3  # when only the rate is asked
# Where other guests of the host took more than this share of the cores, it is measured again.
STOLEN_MAX = 0.02
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.2  # between windows, for the last settlements
_say = partial(print, file=sys.stderr, flush=True)


class Bench(NamedTuple):
    """The options, and what surrounds the servers under test."""

    placement: Placement
    windows: int
    files: int  # that a process may open
    upstream: targets.Target
    network: targets.Network
    verified: list[str]  # the gateways whose ledger was found right
    others: Sequence[targets.Against] = ()
    trees: Sequence[Tree] = ()  # whose gateways are measured beside ours
    is_first: bool = False  # before other work of the machine

    @property
    def rig(self) -> targets.Rig:
        """What makes the load, delays and answers it."""
        pids = (os.getpid(), self.upstream.pid, self.network.relay_pid)
        return targets.Rig([pid for pid in pids if pid], len(self.placement.rig))

    def streams(self, wanted: int) -> int:
        """As many as processes of so many open files can carry.

        A gateway has two connections for each, and the upstream those of every server.
        """
        servers = 2 + len(self.trees) + len(self.others)
        return min(wanted, (self.files - FILES_BESIDE_STREAMS) // servers)

    @contextmanager
    def gateways(
        self, *asks: Ask, channels: Mapping[str, str] = CHANNELS, **options: Any
    ) -> Iterator[list[targets.Target]]:
        """Ours, then one of each other tree; they know what is asked for.

        `options` are those of `targets.gateway`. Raises CommandFailed when they have ended.
        """
        known = models(sorted({ask.shape for ask in asks}))
        options |= {"channels": channels, "models": known, "placement": self.placement}
        options["host"] = self.network.server
        running = list[targets.Target]()
        with ExitStack() as stack:
            for own in (OWN, *self.trees):
                # What a call costs is asked; one refused for overload has no bearing on it.
                calm = {"shed_delay_ms": 0} if own.knows("shed_delay_ms") else {}
                gateway = targets.gateway(self.upstream.url, own=own, settings=calm, **options)
                running.append(stack.enter_context(gateway))
            yield running
        self.verified.extend(target.name for target in running)

    def bare(self) -> AbstractContextManager[targets.Target]:
        """The reference."""
        return targets.reference(self.upstream, self.placement, self.network.server)

    @contextmanager
    def servers(self, *asks: Ask) -> Iterator[list[targets.Target]]:
        """The rig alone, the reference, the gateways, and the other servers."""
        with ExitStack() as stack:
            bare = stack.enter_context(self.bare())
            gateways = stack.enter_context(self.gateways(*asks))
            others = map(stack.enter_context, map(self._other, self.others))
            yield [self.upstream, bare, *gateways, *others]

    @contextmanager
    def translators(self, *asks: Ask) -> Iterator[list[targets.Target]]:
        """The gateways, and the other servers that translate."""
        with ExitStack() as stack:
            gateways = stack.enter_context(self.gateways(*asks))
            others = [self._other(other) for other in self.others if other.translates]
            yield [*gateways, *map(stack.enter_context, others)]

    def _other(self, other: targets.Against) -> AbstractContextManager[targets.Target]:
        return targets.other_server(other, self.upstream, self.placement, self.network.server)

    def subject(
        self,
        target: targets.Target,
        ask: Ask,
        *,
        name: str = "",
        keys: Sequence[str] = (),
        prepare: Callable[[], None] | None = None,
    ) -> Subject:
        """A server with what is asked of it; its memory is that of now."""
        model = (f"{MESSAGES}-" if ask.is_translated else "") + model_name(*ask.shape)
        body = chat_body(model, is_stream=bool(ask.events), image_bytes=ask.image_bytes)
        request = requests(target.host, keys or target.keys[:1], body, ask.headers)
        row = name + target.suffix if name else target.name
        memory = of_tree(resident_mb, target.pid)
        return Subject(row, target, request, ask, memory, prepare=prepare)

    def compare(self, subjects: Sequence[Subject]) -> list[Row]:
        """Windows of the subjects by turns."""
        rows = [Row(subject.name) for subject in subjects]
        in_a_row = subjects[0].ask.in_a_row  # of one piece of work they are alike
        turns = -(-self.windows // in_a_row)
        for turn in range(turns):
            for subject, row in zip(subjects, rows, strict=True):
                _say(f"turn {turn + 1} of {turns}, {subject.name}")
                if subject.prepare is not None:
                    subject.prepare()
                # Each turn goes on with the keys where the last one may have stopped.
                skipped = turn * len(subject.requests) // self.windows
                self._add(row, subject._replace(skipped=skipped))
                time.sleep(PAUSE_SECONDS)
        return rows

    def _add(self, row: Row, subject: Subject) -> None:
        """The windows of the opening of which other guests of the host took the least."""
        try:
            attempts = [self.measure(subject)]
            while _stolen(attempts[-1]) > STOLEN_MAX and len(attempts) < ATTEMPTS_MAX:
                _say(f"{_stolen(attempts[-1]):.1%} of the cores were taken: once more")
                attempts.append(self.measure(subject))
            best: list[Window] = min(attempts, key=_stolen)
            row.windows += best
        except VoidWindow as void:
            _say(f"void: {void}")
            row.windows += [None] * subject.ask.in_a_row
            row.voids += [str(void)] * subject.ask.in_a_row

    def measure(self, subject: Subject) -> list[Window]:
        """The windows of one opening, with the priority of the run. Raises VoidWindow."""
        if self.is_first:  # anew each time: PostgreSQL makes sessions under load
            go_first(tree(subject.target.pid))
            is_apart = self.placement.server.isdisjoint(self.placement.database)
            go_first(tree(subject.target.database_pid), nice=DATABASE_NICE if is_apart else NICE)
        return measure(subject, self.rig)

    def half_rate(self, target: targets.Target, ask: Ask) -> float:
        """Half of the calls a second of a gateway that has all it can take. Raises VoidWindow."""
        subject = self.subject(target, ask)
        return median(self.measure(subject)[0]["rate"] for _ in range(RATE_WINDOWS)) / 2

    def once(self, subject: Subject, calls: int) -> Window:
        """So many calls, from the first to the last. Raises VoidWindow."""
        return measure_pass(subject._replace(calls=calls), self.rig)

    def warm(self, servers: Sequence[targets.Target], *asks: Ask) -> None:
        """Let every server do each once by each connection: what is made once is no growth."""
        for target in servers:
            for ask in asks:
                self.once(self.subject(target, ask), ask.connections)

    @contextmanager
    def placed(self, placement: Placement) -> Iterator[Bench]:
        """The same bench with its load on other cores."""
        pin(os.getpid(), placement.load)
        try:
            yield self._replace(placement=placement)
        finally:
            pin(os.getpid(), self.placement.load)


def _stolen(windows: Sequence[Window]) -> float:
    """The largest share of the cores that others took in one of them."""
    return max(window["stolen"] for window in windows)
