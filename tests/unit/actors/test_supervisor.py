"""Children that die and come back, a supervisor that gives up, and the order of the end."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from actors.actor import OUT_OF_FILES_SECONDS, Supervisor
from actors.store.embedded.access import EmbeddedFault
from metrics.prometheus import Metrics
from tests.support.aio import eventually
from tests.support.clock import FakeClock

ExpectLog = Callable[..., None]


@asynccontextmanager
async def supervising(**options: float) -> AsyncIterator[tuple[Supervisor, FakeClock]]:
    clock = FakeClock()
    supervisor = Supervisor(clock=clock, metrics=Metrics(), **options)  # type: ignore[arg-type]
    yield supervisor, clock
    await supervisor.stop()


class Child:
    """Dies each time it is pushed; remembers how often it has begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.push: asyncio.Queue[BaseException | None] = asyncio.Queue()

    async def body(self) -> None:
        self.begun += 1
        error = await self.push.get()
        if error is not None:
            raise error

    async def die(self) -> None:
        """Die, and be begun again."""
        begun = self.begun
        self.push.put_nowait(ValueError("a defect"))
        await eventually(lambda: self.begun > begun)


async def test_child_that_dies_begins_again(expect_log: ExpectLog) -> None:
    expect_log("child_died", "child_returned")

    async with supervising() as (supervisor, _):
        child, other = Child(), Child()
        supervisor.start("child", child.body)
        supervisor.start("other", other.body)
        child.push.put_nowait(ValueError("a defect"))
        await eventually(lambda: child.begun == 2)
        child.push.put_nowait(None)  # to return is to die, too
        await eventually(lambda: child.begun == 3)
        assert other.begun == 1
        assert repr(supervisor) == "<Supervisor 2 children 2 restarts>"
        assert not supervisor.failed.done()


async def test_cancellation_that_nobody_asked_for_is_a_death_like_any_other(
    expect_log: ExpectLog,
) -> None:
    expect_log("child_died")

    async with supervising() as (supervisor, _):
        child = Child()
        supervisor.start("child", child.body)
        child.push.put_nowait(asyncio.CancelledError())
        await eventually(lambda: child.begun == 2)


async def test_supervisor_gives_up_on_too_many_deaths_in_a_period(expect_log: ExpectLog) -> None:
    expect_log("child_died", "supervisor_gave_up")

    async with supervising(intensity=2, period_seconds=30.0) as (supervisor, clock):
        child = Child()
        supervisor.start("child", child.body)
        await eventually(lambda: child.begun == 1)
        await child.die()
        await child.die()
        clock.advance(31.0)  # the old ones no longer count
        await child.die()
        await child.die()
        assert not supervisor.failed.done()
        child.push.put_nowait(ValueError())
        await supervisor.failed
        assert child.begun == 5


async def test_want_of_a_file_is_no_death_to_give_up_on(expect_log: ExpectLog) -> None:
    expect_log("child_died")

    async with supervising(intensity=0) as (supervisor, clock):
        child = Child()
        supervisor.start("child", child.body)
        for begun, code in enumerate((errno.EMFILE, errno.ENFILE, errno.EMFILE), 1):
            await eventually(lambda begun=begun: child.begun == begun)  # type: ignore[misc]
            fault = EmbeddedFault("postgres.lock cannot be opened")
            fault.__cause__ = OSError(code, "no file left")
            child.push.put_nowait(fault)
            await eventually(lambda: clock.sleepers == 1)
            assert child.begun == begun  # not at once
            clock.advance(OUT_OF_FILES_SECONDS)
        await eventually(lambda: child.begun == 4)
        assert not supervisor.failed.done()


async def test_children_stop_in_the_reverse_of_their_order() -> None:
    stopped: list[str] = []

    def child(name: str) -> Callable[[], Awaitable[None]]:
        async def body() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)  # an end that takes its time
                stopped.append(name)

        return body

    async with supervising() as (supervisor, _):
        for name in ("store", "ledger", "channel"):
            supervisor.start(name, child(name))
        await asyncio.sleep(0)
        await supervisor.stop_child("ledger")
        await supervisor.stop_child("nobody")
        assert stopped == ["ledger"]
    assert stopped == ["ledger", "channel", "store"]


async def test_child_that_dies_while_it_is_stopped_is_not_begun_again(
    expect_log: ExpectLog,
) -> None:
    expect_log("child_died")

    begun = 0

    async def body() -> None:
        nonlocal begun
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("on the way out")

    async with supervising() as (supervisor, _):
        supervisor.start("child", body)
        await asyncio.sleep(0)
    assert begun == 1


async def test_child_may_be_started_again_after_it_was_stopped() -> None:
    async with supervising() as (supervisor, _):
        child = Child()
        supervisor.start("child", child.body)
        await asyncio.sleep(0)
        await supervisor.stop_child("child")
        supervisor.start("child", child.body)
        await eventually(lambda: child.begun == 2)
