"""The base of the actors: asks, tells, errors that stay with their message, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from actors.actor import Actor, ActorStopped, Mailbox, MailboxFull
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock


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

    def take_back(self, message: int, answer: int) -> None:
        self.returned.append(answer)


@asynccontextmanager
async def adder(capacity: int = 10) -> AsyncIterator[tuple[Adder, asyncio.Task[None]]]:
    actor = Adder(capacity)
    task = asyncio.create_task(actor.run())
    yield actor, task
    task.cancel()
    await asyncio.wait([task])


async def test_asks_are_answered_in_the_order_they_came() -> None:
    async with adder() as (actor, _):
        actor.tell(1)
        answers = await asyncio.gather(actor.ask(2), actor.ask(3))
        assert list(answers) == [3, 6]


async def test_error_in_a_message_is_its_askers_and_the_rest_of_the_batch_goes_on(
    expect_log: Callable[..., None],
) -> None:
    expect_log("message_failed")

    async with adder() as (actor, task):
        answers = await asyncio.gather(
            actor.ask(1), actor.ask(13), actor.ask(2), return_exceptions=True
        )
        assert [answers[0], answers[2]] == [1, 3]
        assert isinstance(answers[1], ValueError)
        actor.tell(13)  # nobody to tell, and still no reason to die
        assert await actor.ask(1) == 4
        assert not task.done()


async def test_cancelled_asker_does_not_disturb_the_others() -> None:
    async with adder() as (actor, _):
        first, second = (asyncio.ensure_future(actor.ask(n)) for n in (1, 2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 3


async def test_message_that_nothing_waits_before_is_handled_in_the_senders_turn() -> None:
    async with adder() as (actor, _):
        assert actor.try_tell(1)
        assert actor.try_ask(2) == 3
        actor.tell(4)
        assert actor.try_ask(8) is None
        assert not actor.try_tell(8)
        assert actor.total == 3  # neither was handled, nor left
        assert await actor.ask(8) == 15
        assert actor.try_ask(16) == 31
        with pytest.raises(ValueError, match="thirteen"):
            actor.try_ask(13)


@pytest.mark.parametrize("turns", [1, 2], ids=["before it", "with it"])
async def test_answer_to_an_asker_who_has_gone_is_taken_back(turns: int) -> None:
    async with adder() as (actor, _):
        await asyncio.sleep(0)
        asked = asyncio.ensure_future(actor.ask(1))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert actor.total == turns - 1
        asked.cancel()
        await asyncio.wait([asked])
        assert await actor.ask(1) == 2
        assert actor.returned == [1]


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
        assert not actor.try_tell(1)
        assert actor.try_ask(1) is None


async def test_actor_that_cannot_keep_up_refuses_at_once() -> None:
    async with adder(capacity=2) as (actor, _):
        waiting = [asyncio.ensure_future(actor.ask(1)) for _ in range(3)]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert answers[:2] == [1, 2]
        assert isinstance(answers[2], MailboxFull)
