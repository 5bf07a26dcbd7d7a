"""Workers that fall silent, and a parent that was asleep itself"""

import asyncio
from dataclasses import dataclass, field

from gw.processes.parent_metrics import FleetMetrics
from gw.processes.watchdog import WorkerWatchdog, beat_seconds
from tests.support.clock import FakeClock
from tests.support.logs import logs

SILENCE = 10.0


@dataclass(eq=False)
class WatchedWorker:
    pid: int
    heard_at: float
    kills: int = 0
    is_running: bool = True
    waited: float = 0.0

    def cpu_wait_seconds(self) -> float:
        return self.waited

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


@logs("process_hung")
async def test_worker_that_waits_for_a_cpu_is_slow_and_not_silent() -> None:
    world = WatchWorld()
    for _ in range(100):
        world.first.waited += 0.95  # of each second
        await world.live(1, world.second)
    assert (world.first.kills, world.second.kills) == (0, 0)
    assert 4.0 < float(world.value("gw_process_silent_seconds")) < 7.0
    await world.live(7, world.second)  # it has a CPU and says nothing
    assert (world.first.kills, world.second.kills) == (1, 0)
    world.task.cancel()


def test_signs_of_life_come_often_enough_for_any_silence() -> None:
    assert [beat_seconds(silence) for silence in (0.5, 1.0, 10.0, 100.0)] == [0.1, 0.2, 1.0, 1.0]
