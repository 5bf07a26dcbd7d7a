"""Slots and the breaker through the channel's actor; what a lease may do and what it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from actors.actor import ActorStopped
from actors.channel import ChannelActor, Configure, Denied, Lease
from channels.registry import HealthSpec
from tests.support.clock import FakeClock
from tests.support.specs import make_channel
from tests.unit.actors.channels import channels, settle

ExpectLog = Callable[..., None]
HEALTH = HealthSpec(failures=2, cooldown_seconds=10.0)


@asynccontextmanager
async def channel(slots: int = 2) -> AsyncIterator[tuple[ChannelActor, FakeClock]]:
    async with channels(make_channel("one", max_concurrency=slots, health=HEALTH)) as made:
        yield made.directory["one"], made.clock


def lease(actor: ChannelActor) -> Lease:
    answer = actor.try_acquire()
    assert isinstance(answer, Lease), answer
    return answer


async def give_back(actor: ChannelActor, leased: Lease, verdict: str) -> None:
    leased.release(verdict)  # type: ignore[arg-type]
    await settle(actor)


async def open_breaker(actor: ChannelActor) -> None:
    for _ in range(HEALTH.failures):
        await give_back(actor, lease(actor), "failure")
    assert actor.health.state == "open"


async def test_slots_are_never_exceeded() -> None:
    async with channel(slots=3) as (actor, _):
        answers = [actor.try_acquire() for _ in range(10)]
        leases = [a for a in answers if isinstance(a, Lease)]
        assert len(leases) == 3
        assert {a for a in answers if isinstance(a, Denied)} == {Denied("full")}
        assert repr(actor) == "<ChannelActor one closed 3/3 slots>"
        await give_back(actor, leases[0], "success")
        assert isinstance(actor.try_acquire(), Lease)


async def test_lease_is_given_back_once() -> None:
    async with channel() as (actor, _):
        first, second = lease(actor), lease(actor)
        await give_back(actor, first, "success")
        await give_back(actor, first, "failure")
        assert (actor.in_use, actor.health.failures) == (1, 0)
        assert (repr(first), repr(second)) == ("<Lease one released>", "<Lease one held>")


async def test_failures_in_a_row_open_the_channel_until_its_cooldown_is_over(
    expect_log: ExpectLog,
) -> None:
    expect_log("channel_opened", "channel_half_opened", "channel_closed")

    async with channel() as (actor, clock):
        await give_back(actor, lease(actor), "failure")
        await give_back(actor, lease(actor), "success")  # breaks the row
        await open_breaker(actor)
        clock.advance(9.9)
        assert actor.try_acquire() == Denied("open")
        clock.advance(0.1)
        probe = lease(actor)
        assert probe.is_probe
        assert actor.try_acquire() == Denied("open")  # one probe decides
        await give_back(actor, probe, "success")
        assert actor.health.state == "closed"
        assert isinstance(actor.try_acquire(), Lease)


async def test_failed_probe_opens_the_channel_for_another_cooldown(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async with channel() as (actor, clock):
        await open_breaker(actor)
        clock.advance(10.0)
        await give_back(actor, lease(actor), "failure")
        assert actor.health.state == "open"
        clock.advance(9.9)
        assert actor.try_acquire() == Denied("open")


async def test_probe_that_was_abandoned_lets_the_next_one_through(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async with channel() as (actor, clock):
        await open_breaker(actor)
        clock.advance(10.0)
        await give_back(actor, lease(actor), "abandoned")
        assert actor.in_use == 0
        assert (lease(actor)).is_probe


async def test_call_from_before_the_breaker_opened_changes_nothing(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async with channel(slots=4) as (actor, clock):
        early, late = lease(actor), lease(actor)
        await open_breaker(actor)
        await give_back(actor, early, "success")
        assert actor.health.state == "open"
        clock.advance(10.0)
        probe = lease(actor)
        await give_back(actor, late, "failure")
        assert (actor.health.state, actor.health.is_probing) == ("half_open", True)
        assert probe.is_probe
        assert actor.in_use == 1


async def test_full_channel_keeps_its_probe_for_later(expect_log: ExpectLog) -> None:
    expect_log("channel_opened", "channel_half_opened")

    async with channel(slots=2) as (actor, clock):
        early = [lease(actor)]
        await open_breaker(actor)
        actor.tell(Configure(make_channel("one", max_concurrency=1, health=HEALTH)))
        clock.advance(10.0)
        assert await actor.acquire() == Denied("full")
        assert actor.health.state == "open"
        await give_back(actor, early[0], "success")
        assert (lease(actor)).is_probe


async def test_configured_channel_uses_its_new_slots_and_health(expect_log: ExpectLog) -> None:
    expect_log("channel_opened")

    async with channel(slots=3) as (actor, _):
        leases = [lease(actor) for _ in range(3)]
        changed = make_channel("one", max_concurrency=1, health=HealthSpec(failures=1))
        actor.tell(Configure(changed))
        assert await actor.acquire() == Denied("full")
        assert repr(actor) == "<ChannelActor one closed 3/1 slots>"
        await give_back(actor, leases[0], "success")
        await give_back(actor, leases[1], "success")
        assert actor.try_acquire() == Denied("full")  # one of the old ones is still out
        await give_back(actor, leases[2], "failure")
        assert (actor.in_use, actor.health.state) == (0, "open")
        assert leases[0].spec.max_concurrency == 3  # what a call has leased stays as it was


async def test_what_is_sent_behind_a_message_that_waits_waits_too() -> None:
    async with channel(slots=1) as (actor, _):
        held = lease(actor)
        actor.tell(Configure(make_channel("one", max_concurrency=2, health=HEALTH)))
        assert actor.try_acquire() is None
        asked = [asyncio.ensure_future(actor.acquire()) for _ in range(2)]
        await asyncio.sleep(0)
        held.release("success")  # behind them, so one of them finds both slots taken
        assert actor.in_use == 1
        first, second = await asyncio.gather(*asked)
        assert isinstance(first, Lease)
        assert second == Denied("full")
        await settle(actor)
        assert actor.in_use == 1


@pytest.mark.parametrize("turns", [1, 2], ids=["before", "with its answer"])
async def test_slot_of_an_asker_who_has_gone_is_free_again(turns: int) -> None:
    async with channel(slots=1) as (actor, _):
        await asyncio.sleep(0)  # the actor waits for messages
        asked = asyncio.ensure_future(actor.acquire())
        for _ in range(turns):
            await asyncio.sleep(0)
        assert actor.in_use == turns - 1
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled()
        await settle(actor)
        assert (actor.in_use, actor.health.failures) == (0, 0)


async def test_lease_comes_back_without_error_when_the_process_has_stopped() -> None:
    async with channel() as (actor, _):
        held = lease(actor)
        await asyncio.sleep(0)  # the actor has begun: it stops when it is told to
    held.release("success")
    assert actor.try_acquire() is None
    with pytest.raises(ActorStopped):
        await actor.acquire()


async def test_refused_key_is_counted_each_time_and_told_once(expect_log: ExpectLog) -> None:
    expect_log("channel_key_refused")
    async with channels(make_channel("one", more_keys=("key-number-2",))) as made:
        made.directory["one"].spec.ring.keys[1].refused(402)
        made.directory["one"].spec.ring.keys[1].refused(402)
        ((line, count),) = made.samples("gw_channel_key_refusals_total", "one").items()
        assert ('key="2",status="402"' in line, count) == (True, 2.0)
        # Also after a reload, which tries every key again.
        made.configure(make_channel("one", more_keys=("key-number-3",)))
        await settle(made.directory["one"])
        assert made.directory["one"].spec.ring.aside == 0
        made.directory["one"].spec.ring.keys[1].refused(402)
        assert sum(made.samples("gw_channel_key_refusals_total", "one").values()) == 3.0
