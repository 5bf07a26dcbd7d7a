"""Actors: mailboxes, the loop, and the supervisor that starts them again."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.actor import Actor
from actors.mailbox import ActorStopped, KeyedMailbox, Mailbox, MailboxFull
from actors.store.embedded.errors import EmbeddedFault
from actors.supervisor import OUT_OF_FILES_SECONDS, Supervisor
from metrics.prometheus import Metrics
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.logs import logs


def reply() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


SOON_SECONDS, LATER_SECONDS = 0.01, 30.0


def queues(capacity: int = 10, full: int = 10) -> KeyedMailbox[str]:
    """Messages go by their first letter; what begins with "z" may wait."""
    return KeyedMailbox(
        FakeClock(),
        capacity=capacity,
        key_of=lambda message: message[0],
        linger=lambda message: LATER_SECONDS if message.startswith("z") else SOON_SECONDS,
        full=full,
    )


async def test_queues_take_turns_and_each_keeps_its_order() -> None:
    box = queues()
    for message in ("a1", "a2", "a3", "b1", "c1", "b2"):
        box.put(message, reply())
    assert (len(box), box.length_of("a"), box.length_of("z")) == (6, 3, 0)
    assert sorted(e.message for e in box) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    first = box.next()
    assert first is not None
    assert box.take_next() is first
    box.put("a4", reply())  # behind what waits in its queue, which is the last in turn now
    taken = [e.message for e in await box.take_all()]
    assert [first.message, *taken] == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert (len(box), box.next(), box.take_next()) == (0, None, None)


async def test_what_is_told_goes_along_with_what_is_asked_or_by_itself_after_a_moment() -> None:
    box = queues()
    box.put("a1")
    reading = asyncio.ensure_future(box.take_all())
    await asyncio.sleep(0)
    assert not reading.done()
    assert [e.message for e in await reading] == ["a1"]
    reading = asyncio.ensure_future(box.take_all())
    box.put("a2")
    box.put("b1", reply())
    assert [e.message for e in await reading] == ["a2", "b1"]


async def test_what_may_wait_goes_with_what_may_not() -> None:
    box = queues()
    box.put("z1")
    reading = asyncio.ensure_future(box.take_all())
    await asyncio.sleep(2 * SOON_SECONDS)
    assert not reading.done()
    box.put("a1")
    await asyncio.sleep(0)
    assert not reading.done()
    async with asyncio.timeout(LATER_SECONDS / 3):
        assert [e.message for e in await reading] == ["z1", "a1"]


async def test_so_many_wait_for_no_others() -> None:
    box = queues(full=3)
    reading = asyncio.ensure_future(box.take_all())
    for message in ("z1", "z2"):
        box.put(message)
    await asyncio.sleep(0)
    assert not reading.done()
    box.put("z3")
    async with asyncio.timeout(LATER_SECONDS / 3):
        assert [e.message for e in await reading] == ["z1", "z2", "z3"]


async def test_time_of_what_was_taken_does_not_count_for_what_comes_later() -> None:
    box = queues()
    box.put("a1")
    box.wake()
    assert [e.message for e in await box.take_all()] == ["a1"]
    box.put("z1")
    reading = asyncio.ensure_future(box.take_all())
    await asyncio.sleep(3 * SOON_SECONDS)  # as long as the first would have waited
    assert not reading.done()
    box.wake()
    assert [e.message for e in await reading] == ["z1"]


async def test_nothing_is_handled_in_the_senders_turn() -> None:
    box = queues()
    assert not box.is_free
    box.put("a1", reply())
    await box.take_all()
    assert not box.is_free


async def test_full_keyed_mailbox_refuses_askers_but_takes_what_is_owed() -> None:
    box = queues(capacity=2)
    box.put("a1")
    box.put("b1", reply())
    with pytest.raises(MailboxFull):
        box.put("c1", reply())
    box.put("c1")
    assert len(box) == 3


async def test_closed_keyed_mailbox_answers_those_who_wait_and_takes_no_more() -> None:
    box = queues()
    request = reply()
    box.put("a1", request)
    box.put("b1")
    box.close()
    assert isinstance(request.exception(), ActorStopped)
    assert len(box) == 0
    with pytest.raises(ActorStopped):
        box.put("c1")


class Adder(Actor[int]):
    """Adds what it is told and answers the sum; 13 is more than it can bear."""

    kind = "adder"

    def __init__(self, capacity: int = 10) -> None:
        clock = FakeClock()
        super().__init__(clock=clock, metrics=Metrics(), mailbox=Mailbox(clock, capacity=capacity))
        self.total = 0
        self.returned: list[int] = []

    def handle(self, message: int) -> int:
        if message == 13:
            raise ValueError("thirteen")
        self.total += message
        return self.total

    def take_back(self, message: int, response: int) -> None:
        self.returned.append(response)


@asynccontextmanager
async def adder(capacity: int = 10) -> AsyncIterator[tuple[Adder, asyncio.Task[None]]]:
    actor = Adder(capacity)
    task = asyncio.create_task(actor.run())
    yield actor, task
    task.cancel()
    await asyncio.wait([task])


@logs("message_failed")
async def test_error_in_a_message_is_its_askers_and_the_rest_of_the_batch_goes_on() -> None:
    async with adder() as (actor, task):
        responses = await asyncio.gather(
            actor.ask(1), actor.ask(13), actor.ask(2), return_exceptions=True
        )
        assert [responses[0], responses[2]] == [1, 3]
        assert isinstance(responses[1], ValueError)
        actor.tell(13)  # nobody to tell, and still no reason to die
        assert await actor.ask(1) == 4
        assert not task.done()


async def test_stopped_actor_answers_those_who_wait() -> None:
    async with adder() as (actor, task):
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(actor.ask(1))
        task.cancel()
        with pytest.raises(ActorStopped):
            await waiting
        with pytest.raises(ActorStopped):
            await actor.ask(1)
        with pytest.raises(ActorStopped):
            actor.tell(1)


async def test_actor_that_cannot_keep_up_refuses_at_once() -> None:
    async with adder(capacity=2) as (actor, _):
        waiting = [asyncio.ensure_future(actor.ask(1)) for _ in range(3)]
        responses = await asyncio.gather(*waiting, return_exceptions=True)
        assert responses[:2] == [1, 2]
        assert isinstance(responses[2], MailboxFull)


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


@logs("child_died", "child_returned")
async def test_child_that_dies_begins_again() -> None:
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


@logs("child_died")
async def test_cancellation_that_nobody_requested_is_a_death_like_any_other() -> None:
    async with supervising() as (supervisor, _):
        child = Child()
        supervisor.start("child", child.body)
        child.push.put_nowait(asyncio.CancelledError())
        await eventually(lambda: child.begun == 2)


@logs("child_died", "supervisor_gave_up")
async def test_supervisor_gives_up_on_too_many_deaths_in_a_period() -> None:
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


@logs("child_died")
async def test_want_of_a_file_is_no_death_to_give_up_on() -> None:
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


@logs("child_died")
async def test_child_that_dies_while_it_is_stopped_is_not_begun_again() -> None:
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
