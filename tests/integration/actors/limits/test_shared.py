"""Limits that processes share through Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from actors.clock import SystemClock
from actors.limits.limiter import Limiter
from actors.limits.redis_backend import (
    MICROSECONDS,
    PERMIT_SECONDS,
    RedisBackend,
    RedisCommands,
    scripts,
)
from actors.limits.shared import BEAT_SECONDS, PAUSE_MAX_SECONDS, SharedLimits
from actors.limits.status import LimitStatus
from actors.store.redis import RedisLink
from loadtests.chaos.valkey import MortalValkey
from metrics.prometheus import Metrics
from tests.support.aio import eventually, waited
from tests.support.clock import FakeClock
from tests.support.logs import logs

A = "acct_a"
PATIENT = "?socket_timeout=20"


@dataclass
class Process:
    """The limits of one process, and whether they say that they are on their own."""

    limiter: Limiter
    shared: SharedLimits
    metrics: Metrics
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def enter(self, *, rpm: int | None = None, concurrency: int | None = None) -> LimitStatus:
        standing, _ = await waited(self.limiter.enter(A, rpm=rpm, concurrency=concurrency))
        return standing

    async def place(self, *, rpm: int | None = None, concurrency: int | None = None) -> int:
        standing, place = await waited(self.limiter.enter(A, rpm=rpm, concurrency=concurrency))
        assert standing.refused is None
        return place

    @property
    def is_degraded(self) -> bool:
        page, _ = self.metrics.render("")
        return "gw_limits_degraded 1.0" in page.decode()

    async def die(self) -> None:
        """End like a killed process: nothing is given back."""
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


@asynccontextmanager
async def process(
    url: str, *, name: str = "proc_1", clock: Any = None, now_us: Callable[[], int] | None = None
) -> AsyncIterator[Process]:
    clock = clock or SystemClock()
    metrics = Metrics()
    link = RedisLink(url, scripts())
    backend = RedisBackend(link, RedisCommands(name, now_us))
    shared = SharedLimits(backend=backend, clock=clock, metrics=metrics)
    made = Process(Limiter(clock=clock, shared=shared), shared, metrics)
    await shared.start()
    made.tasks = [asyncio.create_task(shared.run()), asyncio.create_task(shared.beat())]
    try:
        yield made
    finally:
        await made.die()
        await shared.close()


async def permits(url: str, name: str = A) -> int:
    async with Redis.from_url(url) as redis:
        count: int = await redis.zcard(f"gw:limits:{name}:leases")
        return count


async def test_window_is_one_for_all_processes(redis_url: str) -> None:
    url = redis_url + PATIENT
    async with process(url) as one, process(url, name="proc_2") as two:
        taken = [await which.limiter.take("logs:key_1", 3) for which in (one, two, one, two)]
        assert [standing.refused for standing in taken] == [None, None, None, "rpm"]
        assert [standing.requests for standing in taken] == [1, 2, 3, 3]
        assert 0 < taken[-1].retry_after_seconds <= 60


async def test_unlimited_request_never_asks(valkey: MortalValkey) -> None:
    """A server that answers nothing would keep it waiting."""

    async with process(valkey.url + PATIENT) as one:
        valkey.freeze()
        place = await one.place()
        one.limiter.leave(A, place)
        valkey.thaw()


async def test_limit_set_later_counts_what_other_processes_have_in_flight(redis_url: str) -> None:
    url = redis_url + PATIENT
    async with process(url) as one, process(url, name="proc_2") as two:
        flying = [await one.place() for _ in range(2)]
        for which in (one, two):
            which.limiter.share(A)  # both hear of the change
        await one.limiter.take("after the permits", 1)
        assert (await two.enter(concurrency=2)).refused == "concurrency"
        one.limiter.leave(A, flying[0])
        await one.limiter.take("after the release", 1)
        assert (await two.enter(concurrency=2)).in_flight == 2


async def test_dead_process_loses_its_permits_and_a_long_call_of_a_live_one_keeps_its(
    redis_url: str,
) -> None:
    url = redis_url + PATIENT
    clock = FakeClock()

    def now_us() -> int:
        return round(clock.monotonic() * MICROSECONDS)

    async with (
        process(url, clock=clock, now_us=now_us) as live,
        process(url, name="proc_2", clock=clock, now_us=now_us) as dead,
    ):
        await live.place(concurrency=2)
        await dead.place(concurrency=2)
        await dead.die()
        for _ in range(round(PERMIT_SECONDS / BEAT_SECONDS)):
            assert (await live.enter(concurrency=2)).refused == "concurrency"
            clock.advance(BEAT_SECONDS)
            await eventually(lambda: clock.sleepers == 1)  # the beat has been said
        for _ in range(3):
            standing, place = await waited(live.limiter.enter(A, rpm=None, concurrency=2))
            assert (standing.refused, standing.in_flight) == (None, 2)
            live.limiter.leave(A, place)
            clock.advance(BEAT_SECONDS)
            await eventually(lambda: clock.sleepers == 1)


async def test_request_given_up_while_redis_is_asked_keeps_no_permit(valkey: MortalValkey) -> None:
    async with process(valkey.url + PATIENT) as one:
        valkey.freeze()
        request = asyncio.create_task(one.enter(concurrency=1))
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait([request])
        valkey.thaw()
        assert (await one.enter(concurrency=1)).refused is None


@logs("redis_lost")
async def test_killed_redis_is_done_without_and_has_everything_when_it_is_back(
    valkey: MortalValkey,
) -> None:
    url = valkey.url + PATIENT
    async with process(url) as one, process(url, name="proc_2") as two:
        before = await one.place(rpm=3, concurrency=3)
        valkey.kill()
        # Each process goes on with what it knows itself: one has one request, two has none.
        during = await one.place(rpm=3, concurrency=3)
        for _ in range(3):
            await two.limiter.take("elsewhere", 3)
        assert (await two.limiter.take("elsewhere", 3)).refused == "rpm"
        await eventually(lambda: one.is_degraded and two.is_degraded)
        assert (await one.enter(concurrency=2)).refused == "concurrency"
        gone = await one.place(rpm=3, concurrency=3)
        one.limiter.leave(A, gone)
        valkey.start()
        await eventually(lambda: not one.is_degraded and not two.is_degraded)
        # Two requests in flight, three in the window, though the new server was empty.
        assert await permits(valkey.url) == 2
        assert (await two.enter(concurrency=2)).refused == "concurrency"
        assert (await two.enter(rpm=3)).refused == "rpm"
        assert (await one.limiter.take("elsewhere", 3)).refused == "rpm"
        for place in (before, during):
            one.limiter.leave(A, place)
        await one.limiter.take("after the releases", 1)
        assert await permits(valkey.url) == 0


@logs("redis_lost")
async def test_frozen_redis_is_given_up_and_what_ended_meanwhile_is_reported_later(
    valkey: MortalValkey,
) -> None:
    async with process(valkey.url + PATIENT, name="proc_2") as patient, process(valkey.url) as one:
        place = await one.place(rpm=9, concurrency=1)
        valkey.freeze()
        # The answer never comes; a judge of its own says no, and Redis must not count it.
        assert (await one.enter(rpm=9, concurrency=1)).refused == "concurrency"
        assert one.is_degraded
        one.limiter.leave(A, place)
        valkey.thaw()
        await eventually(lambda: not one.is_degraded)
        assert await permits(valkey.url) == 0
        standing = await patient.enter(rpm=9, concurrency=1)
        assert (standing.requests, standing.in_flight) == (2, 1)


@logs("redis_lost")
async def test_place_that_a_frozen_redis_grants_too_late_is_given_back(
    valkey: MortalValkey,
) -> None:
    async with process(valkey.url) as one:
        valkey.freeze()
        place = await one.place(concurrency=1)  # by a judge of its own
        assert one.is_degraded
        one.limiter.leave(A, place)
        valkey.thaw()
        await eventually(lambda: not one.is_degraded)
        assert await permits(valkey.url) == 0


@logs("redis_lost")
async def test_redis_that_is_not_there_yet_is_found_later(valkey: MortalValkey) -> None:
    valkey.kill()
    async with process(valkey.url + PATIENT) as one:
        assert one.is_degraded
        assert (await one.enter(concurrency=1)).refused is None
        assert (await one.enter(concurrency=1)).refused == "concurrency"
        valkey.start()
        await eventually(lambda: not one.is_degraded)
        assert await permits(valkey.url) == 1


async def test_ended_process_gives_everything_back(redis_url: str) -> None:
    async with process(redis_url + PATIENT) as one:
        for _ in range(3):
            await one.place(concurrency=5)
        assert await permits(redis_url) == 3
    assert await permits(redis_url) == 0


@logs("redis_lost")
async def test_replica_that_takes_no_writes_is_as_good_as_none(redis_url: str) -> None:
    """It answers, and it would go on answering: what must be written tells."""
    clock = FakeClock()
    async with (
        Redis.from_url(redis_url) as server,
        process(redis_url + PATIENT, clock=clock) as one,
    ):
        await one.place(rpm=9, concurrency=1)
        await server.replicaof("127.0.0.1", "1")
        clock.advance(BEAT_SECONDS)  # nobody asks anything, and it is noticed all the same
        await eventually(lambda: one.is_degraded)
        for _ in range(3):
            clock.advance(PAUSE_MAX_SECONDS)
            await eventually(lambda: clock.sleepers == 2)  # the next beat, the next try
            assert one.is_degraded
        assert (await one.enter(rpm=9, concurrency=1)).refused == "concurrency"
        await server.replicaof("NO", "ONE")
        clock.advance(PAUSE_MAX_SECONDS)
        await eventually(lambda: not one.is_degraded)
        assert await permits(redis_url) == 1
