"""Slots and the breaker through the channel's actor; what a lease may do and what it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from actors.channel import ChannelActor, Configure, Denied, Lease
from actors.mailbox import ActorStopped
from channels.registry import HealthSpec
from tests.support.aio import run
from tests.support.clock import FakeClock
from tests.support.specs import make_channel
from tests.unit.actors.channels import channels, settle

ExpectLog = Callable[..., None]
HEALTH = HealthSpec(failures=2, cooldown_seconds=10.0)


@asynccontextmanager
async def channel(slots: int = 2) -> AsyncIterator[tuple[ChannelActor, FakeClock]]:
    async with channels(make_channel("one", max_concurrency=slots, health=HEALTH)) as made:
        yield made.directory["one"], made.clock


async def lease(actor: ChannelActor) -> Lease:
    answer = await actor.acquire()
    assert isinstance(answer, Lease), answer
    return answer


async def give_back(actor: ChannelActor, leased: Lease, verdict: str) -> None:
    leased.release(verdict)  # type: ignore[arg-type]
    await settle(actor)


async def open_breaker(actor: ChannelActor) -> None:
    for _ in range(HEALTH.failures):
        await give_back(actor, await lease(actor), "failure")
    assert actor.health.state == "open"


def test_slots_are_never_exceeded() -> None:
    async def main() -> None:
        async with channel(slots=3) as (actor, _):
            answers = await asyncio.gather(*(actor.acquire() for _ in range(10)))
            leases = [a for a in answers if isinstance(a, Lease)]
            assert len(leases) == 3
            assert {a for a in answers if isinstance(a, Denied)} == {Denied("full")}
            assert repr(actor) == "<ChannelActor one closed 3/3 slots>"
            await give_back(actor, leases[0], "success")
            assert isinstance(await actor.acquire(), Lease)

    run(main())


def test_slots_asked_for_are_load_before_the_actor_has_answered() -> None:
    """Or a burst of calls, choosing in one turn of the loop, would all choose the same channel."""

    async def main() -> None:
        async with channel(slots=10) as (actor, _):
            asking = [asyncio.ensure_future(actor.acquire()) for _ in range(4)]
            await asyncio.sleep(0)  # the questions are in the mailbox
            assert (actor.in_use, actor.load) == (0, 4)
            asking.pop().cancel()
            await asyncio.gather(*asking)
            await settle(actor)
            assert (actor.in_use, actor.load) == (3, 3)

    run(main())


def test_lease_is_given_back_once() -> None:
    async def main() -> None:
        async with channel() as (actor, _):
            first, second = await lease(actor), await lease(actor)
            await give_back(actor, first, "success")
            await give_back(actor, first, "failure")
            assert (actor.in_use, actor.health.failures) == (1, 0)
            assert (repr(first), repr(second)) == ("<Lease one released>", "<Lease one held>")

    run(main())


def test_asker_cancelled_while_waiting_leaves_no_slot_behind() -> None:
    async def main() -> None:
        async with channel(slots=1) as (actor, _):
            asking = asyncio.ensure_future(actor.acquire())
            await asyncio.sleep(0)  # the question is in the mailbox
            asking.cancel()
            await asyncio.wait([asking])
            await settle(actor)
            assert actor.in_use == 0
            assert isinstance(await actor.acquire(), Lease)

    run(main())


def test_asker_answered_and_cancelled_in_one_turn_leaves_no_slot_behind() -> None:
    async def main() -> None:
        async with channel(slots=1) as (actor, _):
            asking = asyncio.ensure_future(actor.acquire())
            while not actor.in_use:
                await asyncio.sleep(0)
            asking.cancel()  # answered, but it has not run since
            await asyncio.wait([asking])
            assert asking.cancelled()
            await settle(actor)
            assert (actor.in_use, actor.health.failures) == (0, 0)

    run(main())


def test_failures_in_a_row_open_the_channel_until_its_cooldown_is_over(
    expect_log: ExpectLog,
) -> None:
    expect_log("channel_opened", "channel_half_opened", "channel_closed")

    async def main() -> None:
        async with channel() as (actor, clock):
            await give_back(actor, await lease(actor), "failure")
            await give_back(actor, await lease(actor), "success")  # breaks the row
            await open_breaker(actor)
            clock.advance(9.9)
            assert await actor.acquire() == Denied("open")
            clock.advance(0.1)
            probe = await lease(actor)
            assert probe.is_probe
            assert await actor.acquire() == Denied("open")  # one probe decides
            await give_back(actor, probe, "success")
            assert actor.health.state == "closed"
            assert isinstance(await actor.acquire(), Lease)

    run(main())


def test_failed_probe_opens_the_channel_for_another_cooldown(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async def main() -> None:
        async with channel() as (actor, clock):
            await open_breaker(actor)
            clock.advance(10.0)
            await give_back(actor, await lease(actor), "failure")
            assert actor.health.state == "open"
            clock.advance(9.9)
            assert await actor.acquire() == Denied("open")

    run(main())


@pytest.mark.parametrize("turns", range(4))
def test_probe_whose_asker_left_lets_the_next_one_through(
    turns: int, expect_log: ExpectLog
) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async def main() -> None:
        async with channel() as (actor, clock):
            await open_breaker(actor)
            clock.advance(10.0)
            asking = asyncio.ensure_future(actor.acquire())
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled():
                asking.result().release("abandoned")  # type: ignore[union-attr]
            await settle(actor)
            assert actor.in_use == 0
            assert (await lease(actor)).is_probe

    run(main())


def test_call_from_before_the_breaker_opened_changes_nothing(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async def main() -> None:
        async with channel(slots=4) as (actor, clock):
            early, late = await lease(actor), await lease(actor)
            await open_breaker(actor)
            await give_back(actor, early, "success")
            assert actor.health.state == "open"
            clock.advance(10.0)
            probe = await lease(actor)
            await give_back(actor, late, "failure")
            assert (actor.health.state, actor.health.is_probing) == ("half_open", True)
            assert probe.is_probe
            assert actor.in_use == 1

    run(main())


def test_full_channel_keeps_its_probe_for_later(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async def main() -> None:
        async with channel(slots=2) as (actor, clock):
            early = [await lease(actor)]
            await open_breaker(actor)
            actor.tell(Configure(make_channel("one", max_concurrency=1, health=HEALTH)))
            clock.advance(10.0)
            assert await actor.acquire() == Denied("full")
            assert actor.health.state == "open"
            await give_back(actor, early[0], "success")
            assert (await lease(actor)).is_probe

    run(main())


def test_configured_channel_uses_its_new_slots_and_health(expect_log: ExpectLog) -> None:
    expect_log("channel_opened")

    async def main() -> None:
        async with channel(slots=3) as (actor, _):
            leases = [await lease(actor) for _ in range(3)]
            changed = make_channel("one", max_concurrency=1, health=HealthSpec(failures=1))
            actor.tell(Configure(changed))
            assert await actor.acquire() == Denied("full")
            assert repr(actor) == "<ChannelActor one closed 3/1 slots>"
            await give_back(actor, leases[0], "success")
            await give_back(actor, leases[1], "success")
            assert await actor.acquire() == Denied("full")  # one of the old ones is still out
            await give_back(actor, leases[2], "failure")
            assert (actor.in_use, actor.health.state) == (0, "open")
            assert leases[0].spec.max_concurrency == 3  # what a call has leased stays as it was

    run(main())


def test_lease_comes_back_without_error_when_the_process_has_stopped() -> None:
    async def main() -> None:
        async with channel() as (actor, _):
            held = await lease(actor)
        held.release("success")
        with pytest.raises(ActorStopped):
            await actor.acquire()

    run(main())
