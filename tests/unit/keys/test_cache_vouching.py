"""How long the cache believes what the database vouches for, without reading it again."""

from __future__ import annotations

import asyncio

import pytest

from actors.store.connection import StoreUnavailable
from gw.keys.cache import GRACE_SECONDS, REREAD_SECONDS, RETRY_SECONDS, new_key_text
from tests.support.aio import eventually
from tests.unit.keys.fakes import Row
from tests.unit.keys.world import KEY, OTHER, World, in_world

TTL_SECONDS = 5.0


def is_known(world: World) -> bool:
    return world.cache.try_authenticate(world.row.text) is not None


@in_world()
async def test_echo_vouches_for_an_entry_from_when_it_was_said(world: World) -> None:
    await world.name_of()
    world.clock.advance(3)
    said_at = world.clock.monotonic()
    world.clock.advance(1)
    world.cache.vouch(said_at)
    world.clock.advance(3.9)
    assert is_known(world)
    world.clock.advance(0.1)
    assert not is_known(world)
    assert world.table.reads == 1


@in_world()
async def test_entry_that_is_out_of_date_is_good_again_with_the_next_echo(world: World) -> None:
    await world.name_of()
    world.clock.advance(TTL_SECONDS)
    assert not is_known(world)
    world.cache.vouch(world.clock.monotonic())
    assert is_known(world)


@in_world()
async def test_echo_does_not_bring_a_changed_key_back(world: World) -> None:
    await world.name_of()
    world.row.is_revoked = True
    world.cache.invalidate("key:key_1")
    world.cache.vouch(world.clock.monotonic())
    assert not is_known(world)
    assert await world.reason_of() == "revoked"


@in_world()
async def test_echo_says_nothing_of_what_was_before_a_gap(world: World) -> None:
    await world.name_of()
    world.row.is_revoked = True
    world.cache.clear()
    world.cache.vouch(world.clock.monotonic())
    assert not is_known(world)
    assert await world.reason_of() == "revoked"


@in_world()
async def test_echo_says_nothing_of_an_entry_in_grace(world: World) -> None:
    """Its change may have been pushed in a gap, before what is heard now."""
    await world.name_of()
    world.table.is_down = True
    world.cache.clear()
    assert await world.name_of() == "test"
    world.table.is_down = False
    world.row.is_revoked = True
    world.clock.advance(RETRY_SECONDS)
    world.cache.vouch(world.clock.monotonic())
    assert await world.reason_of() == "revoked"


@in_world()
async def test_entry_is_read_again_at_last_however_often_it_is_vouched_for(world: World) -> None:
    await world.name_of()
    world.row.name = "changed behind the triggers"
    passed = 0.0
    while passed < REREAD_SECONDS:
        world.cache.vouch(world.clock.monotonic())
        assert await world.name_of() == "test"
        world.clock.advance(1)
        passed += 1
    world.cache.vouch(world.clock.monotonic())
    assert await world.name_of() == "changed behind the triggers"


@in_world()
async def test_grace_counts_from_the_last_that_was_heard(world: World) -> None:
    await world.name_of()
    world.clock.advance(20)
    world.cache.vouch(world.clock.monotonic())
    assert await world.name_of() == "test"
    world.table.is_down = True
    world.clock.advance(TTL_SECONDS + GRACE_SECONDS - 0.5)
    assert await world.name_of() == "test"
    world.clock.advance(0.5)
    with pytest.raises(StoreUnavailable):
        await world.name_of()


@in_world()
async def test_echo_heard_during_a_read_does_not_lengthen_it(world: World) -> None:
    world.table.holds_reads = True
    asked = world.begin()
    await eventually(lambda: len(world.table.held) == 1)
    world.table.held[0].release()
    await asyncio.sleep(0)
    world.row.is_revoked = True
    world.cache.invalidate("key:key_1")
    world.cache.vouch(world.clock.monotonic())
    world.table.holds_reads = False
    world.table.held[0].release()
    outcome = (await asyncio.gather(asked, return_exceptions=True))[0]
    assert "revoked" in str(outcome)
    assert world.table.reads == 2


@in_world(Row("key_1", KEY), Row("key_2", OTHER))
async def test_entry_leaves_when_nothing_can_make_it_good_again(world: World) -> None:
    for text in (KEY, OTHER):
        await world.name_of(text)
    last = REREAD_SECONDS + TTL_SECONDS + GRACE_SECONDS
    world.clock.advance(last - 1)
    world.cache.forget_idle()
    assert "2/100000 keys" in repr(world.cache)
    await world.name_of(KEY)
    world.clock.advance(1)
    world.cache.forget_idle()
    assert "1/100000 keys" in repr(world.cache)
    assert is_known(world)
    world.cache.invalidate("account:acct_1")
    assert "0/100000 keys" in repr(world.cache)


@in_world()
async def test_entry_that_an_outage_may_still_need_stays(world: World) -> None:
    """However late it was vouched for, and with or without the database."""
    await world.name_of()
    world.clock.advance(REREAD_SECONDS - 1)
    world.cache.vouch(world.clock.monotonic())
    assert is_known(world)
    world.table.is_down = True
    passed = 0.0
    while passed < GRACE_SECONDS:
        world.cache.forget_idle()
        assert await world.name_of() == "test"
        world.clock.advance(0.5)
        passed += 0.5


async def test_entries_leave_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gw.keys.cache.FORGET_MAX", 3)

    rows = [Row(f"key_{number}", new_key_text()) for number in range(5)]
    world = World(*rows)
    for row in rows:
        await world.name_of(row.text)
    world.clock.advance(1_000)
    for left in (2, 0, 0):
        world.cache.forget_idle()
        assert f"<KeyCache {left}/100000 keys" in repr(world.cache)
