"""The parent of several processes."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families

from gw.processes.fleet import Fleet
from gw.processes.metrics_page import labelled, merged
from gw.processes.parent import joined
from gw.processes.parent_metrics import FleetMetrics
from gw.processes.watchdog import WorkerWatchdog, beat_seconds
from gw.processes.worker import Worker, WorkerFailed
from metrics.prometheus import Metrics
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.logs import logs
from tests.support.rows import cases


class FakeWorker:
    """A worker that says what it was told, and ends when it is told to."""

    def __init__(self, text: str) -> None:
        self.texts = [text]
        self.end = asyncio.Event()
        self.process = SimpleNamespace(pid=0)
        self.pid = 0
        self.heard_at = 0.0
        self.is_running = True

    async def reload(self, text: str) -> bool:
        self.texts.append(text)
        return True

    def stop(self) -> None:
        self.end.set()

    kill = stop

    async def ended(self) -> int:
        await self.end.wait()
        return 0


class World:
    """A fleet of two, started; workers started later wait for `gate`."""

    def __init__(self) -> None:
        self.started: list[FakeWorker] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.clock = FakeClock()
        self.metrics = FleetMetrics()
        self.fleet = Fleet(
            "old",
            count=2,
            start=self._start,
            silence_seconds=1e6,
            clock=self.clock,
            metrics=self.metrics,
        )

    async def _start(self, text: str) -> Worker:
        worker = FakeWorker(text)
        self.started.append(worker)
        await self.gate.wait()
        return cast(Worker, worker)

    async def lose_one(self) -> FakeWorker:
        """One ends, and another one is on its way to its place."""
        self.gate.clear()
        self.started[0].end.set()
        await eventually(
            lambda: self.clock.sleepers == 2, what="a moment before its replacement"
        )  # the watch sleeps, too
        self.clock.advance(0.0)
        await eventually(lambda: len(self.started) == 3, what="its replacement")
        return self.started[2]


@logs("process_died")
async def test_reload_reaches_a_worker_that_was_starting() -> None:
    world = World()
    await world.fleet.start()
    late = await world.lose_one()
    assert "gw_processes_running 1.0" in world.metrics.render()
    assert "gw_processes_configured 2.0" in world.metrics.render()
    assert await world.fleet.reload("new")
    assert late.texts == ["old"]
    world.gate.set()
    await eventually(lambda: late.texts == ["old", "new"], what="the reload")
    await eventually(lambda: None not in world.fleet.workers, what="all in their places")
    assert world.started[1].texts == ["old", "new"]
    assert "gw_processes_running 2.0" in world.metrics.render()
    await world.fleet.stop()


@logs("process_died")
async def test_stop_leaves_nobody_who_starts_another() -> None:
    world = World()
    await world.fleet.start()
    await world.lose_one()
    stopping = asyncio.create_task(world.fleet.stop())
    await eventually(world.started[1].end.is_set, what="the other one told to end")
    world.gate.set()
    await stopping
    assert world.fleet.workers[0] is None
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- Workers that fall silent, and a parent that was asleep itself ---
SILENCE = 10.0


@dataclass(eq=False)
class WatchedWorker:
    pid: int
    heard_at: float
    kills: int = 0
    is_running: bool = True

    def kill(self) -> None:
        self.kills += 1


@dataclass
class WatchWorld:
    """Two workers, watched for so many seconds at a time."""

    clock: FakeClock = field(default_factory=FakeClock)
    metrics: FleetMetrics = field(default_factory=FleetMetrics)

    def __post_init__(self) -> None:
        now = self.clock.monotonic()
        self.first, self.second = WatchedWorker(1, now), WatchedWorker(2, now)
        self.workers: list[WatchedWorker | None] = [self.first, self.second, None]
        self.watch = WorkerWatchdog(
            workers=self.workers, silence_seconds=SILENCE, clock=self.clock, metrics=self.metrics
        )
        self.task = asyncio.create_task(self.watch.run())

    async def live(self, seconds: int, *alive: WatchedWorker) -> None:
        """So many seconds, in each of which these give a sign of life."""
        for _ in range(seconds):
            await self.turn()
            for worker in alive:
                worker.heard_at = self.clock.monotonic()
            self.clock.advance(1.0)
        await self.turn()

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    def value(self, name: str) -> str:
        lines = self.metrics.render().splitlines()
        return next(line.split(" ")[1] for line in lines if line.startswith(f"{name} "))


@logs("process_hung")
async def test_worker_that_falls_silent_is_killed_once_and_the_other_left() -> None:
    world = WatchWorld()
    await world.live(10, world.second)
    assert world.first.kills == 0
    assert float(world.value("gw_process_silent_seconds")) == SILENCE
    await world.live(5, world.second)
    assert (world.first.kills, world.second.kills) == (1, 0)
    assert world.value("gw_processes_hung_total") == "1.0"
    # One that has ended says nothing any more, and another one in its place is a new one.
    world.first.is_running = False
    await world.live(20, world.second)
    assert (world.first.kills, world.value("gw_processes_hung_total")) == (1, "1.0")
    world.workers[0] = WatchedWorker(3, world.clock.monotonic())
    await world.live(11, world.second)
    assert world.value("gw_processes_hung_total") == "2.0"
    world.task.cancel()


@logs("process_hung")
async def test_parent_that_was_asleep_believes_only_the_silence_since_it_woke() -> None:
    world = WatchWorld()
    await world.live(3, world.first, world.second)
    world.clock.advance(3600.0)
    await world.live(9, world.first)
    assert (world.first.kills, world.second.kills) == (0, 0)
    await world.live(2, world.first)
    assert (world.first.kills, world.second.kills) == (0, 1)
    world.task.cancel()


def test_signs_of_life_come_often_enough_for_any_silence() -> None:
    assert [beat_seconds(silence) for silence in (0.5, 1.0, 10.0, 100.0)] == [0.1, 0.2, 1.0, 1.0]


# --- What a worker says, and what something else prints in its name ---


class Pipe:
    """A worker's standard input, which keeps what it was sent."""

    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data


@logs("process_printed")
async def test_what_is_no_reply_is_logged_and_passed_over() -> None:
    stdout, stdin = asyncio.StreamReader(), Pipe()
    process: Any = SimpleNamespace(pid=1, stdout=stdout, stdin=stdin, returncode=None)
    worker = Worker(cast(asyncio.subprocess.Process, process))
    reading = asyncio.create_task(worker._read())
    stdout.feed_data(b'a library greets you\n{"reloaded": false}\n')
    assert not await worker.reload("models:\n- ö\n")
    assert stdin.sent == b'{"config": "models:\\n- \\u00f6\\n"}\n'
    stdout.feed_eof()
    with pytest.raises(WorkerFailed, match="has ended"):
        await worker.reload("")
    await reading


# --- Pages of metrics of several processes become one that a scraper reads ---

CALLS = """# HELP gw_calls_total Calls.
# TYPE gw_calls_total counter
gw_calls_total{protocol="chat",code="a } b"} 3.0
gw_calls_total{protocol="messages",code="ok"} 1.0
"""
LAG = """# HELP gw_lag_seconds Lag.
# TYPE gw_lag_seconds gauge
gw_lag_seconds 0.25
"""


def test_every_sample_says_whose_it_is() -> None:
    page = merged([("0", CALLS + LAG), ("1", LAG)])
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert [
        (sample.labels["process"], sample.labels.get("protocol"), sample.value)
        for name in ("gw_calls", "gw_lag_seconds")
        for sample in families[name].samples
    ] == [("0", "chat", 3.0), ("0", "messages", 1.0), ("0", None, 0.25), ("1", None, 0.25)]
    assert page.count("# TYPE gw_lag_seconds") == page.count("# HELP gw_lag_seconds") == 1


@cases(
    "sample, expected",
    ("up 1", 'up{process="3"} 1'),
    ("up{} 1", 'up{process="3"} 1'),
    ('up{a="{b} c"} 1', 'up{process="3",a="{b} c"} 1'),
    ('up{a="b\u2028c"} 1', 'up{process="3",a="b\u2028c"} 1'),
)
def test_label_stands_first_in_any_sample(sample: str, expected: str) -> None:
    assert labelled(sample, "3") == expected
    assert merged([("3", f"# TYPE up gauge\n{sample}\n")]) == f"# TYPE up gauge\n{expected}\n"


def test_page_of_real_metrics_keeps_every_sample() -> None:
    metrics = Metrics()
    metrics.call_started("chat")
    body, _ = metrics.render("")
    page = body.decode()
    both = merged([("0", page), ("1", page)])
    count = sum(len(family.samples) for family in text_string_to_metric_families(page))
    found = [sample for family in text_string_to_metric_families(both) for sample in family.samples]
    assert len(found) == 2 * count
    assert {sample.labels["process"] for sample in found} == {"0", "1"}


def test_no_process_is_an_empty_page() -> None:
    assert merged([]) == ""


OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def test_pages_of_openmetrics_keep_exemplars_and_end_once() -> None:
    registry = CollectorRegistry()
    calls = Counter("gw_calls", "Calls.", ["code"], registry=registry)
    calls.labels("a } b").inc(3, {"trace_id": "abc"})
    lag = Histogram("gw_lag_seconds", "Lag.", registry=registry)
    lag.observe(0.2, {"trace_id": "def"})
    encode, _ = choose_encoder(OPENMETRICS)
    page = encode(registry).decode()
    fleet = FleetMetrics()
    fleet.config.started(5.0)
    body, content_type = joined(
        fleet.render(OPENMETRICS),
        [("0", page), ("1", page), ("parent", fleet.render_config(OPENMETRICS))],
        accept=OPENMETRICS,
    )
    text = body.decode()
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.count("# EOF") == 1
    found = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in found}
    counted = [one for one in families["gw_calls"].samples if one.name == "gw_calls_total"]
    assert [(one.labels["process"], one.exemplar.labels) for one in counted] == [
        ("0", {"trace_id": "abc"}),
        ("1", {"trace_id": "abc"}),
    ]
    assert sum(one.exemplar is not None for one in families["gw_lag_seconds"].samples) == 2
    (read_at,) = families["gw_config_last_success_timestamp_seconds"].samples
    assert (read_at.labels, read_at.value) == ({"process": "parent"}, 5.0)
    assert "gw_processes_running" in families


def test_joined_page_of_text_has_no_end() -> None:
    body, content_type = joined(FleetMetrics().render(), [("0", CALLS)], accept="")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"# EOF" not in body
    assert b'gw_calls_total{process="0",protocol="messages",code="ok"} 1.0\n' in body
