"""The workers of a parent: restarted, reloaded, stopped."""

import asyncio
from types import SimpleNamespace
from typing import cast

from gw.processes.fleet import Fleet
from gw.processes.parent_metrics import FleetMetrics
from gw.processes.worker import Worker
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.logs import logs


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

    def cpu_wait_seconds(self) -> float:
        return 0.0

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
    await world.fleet.start_workers()
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
    await world.fleet.stop_workers()


@logs("process_died")
async def test_stop_leaves_nobody_who_starts_another() -> None:
    world = World()
    await world.fleet.start_workers()
    await world.lose_one()
    stopping = asyncio.create_task(world.fleet.stop_workers())
    await eventually(world.started[1].end.is_set, what="the other one told to end")
    world.gate.set()
    await stopping
    assert world.fleet.workers[0] is None
    assert asyncio.all_tasks() == {asyncio.current_task()}
