"""What the cache believes while the database is away."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from actors.store.connection import StoreUnavailable
from gw.keys.cache import GRACE_SECONDS, RETRY_SECONDS
from tests.unit.keys.world import World, in_world

TTL_SECONDS = 5.0


@in_world()
async def test_key_not_seen_before_gets_no_verdict(world: World) -> None:
    world.table.is_down = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await world.name_of()
    world.table.is_down = False
    assert await world.name_of() == "test"


@in_world()
async def test_known_key_works_for_its_grace_and_then_no_longer(world: World) -> None:
    await world.name_of()
    world.table.is_down = True
    passed = 0.0
    while passed < TTL_SECONDS + GRACE_SECONDS:
        assert await world.name_of() == "test"
        world.clock.advance(0.5)
        passed += 0.5
    with pytest.raises(StoreUnavailable):
        await world.name_of()


@in_world()
async def test_known_bad_key_stays_bad(world: World) -> None:
    world.row.is_revoked = True
    assert await world.reason_of() == "revoked"
    world.table.is_down = True
    world.clock.advance(TTL_SECONDS + 1)
    assert await world.reason_of() == "revoked"


@in_world()
async def test_database_that_is_away_is_asked_again_once_in_a_while(world: World) -> None:
    await world.name_of()
    world.table.is_down = True
    world.clock.advance(TTL_SECONDS)
    for _ in range(10):
        await world.name_of()
    assert world.table.reads == 2
    world.clock.advance(RETRY_SECONDS)
    await world.name_of()
    assert world.table.reads == 3


@in_world()
async def test_change_is_seen_soon_after_the_database_is_back(world: World) -> None:
    await world.name_of()
    world.table.is_down = True
    world.clock.advance(TTL_SECONDS)
    await world.name_of()
    world.table.is_down = False
    world.row.is_revoked = True
    world.clock.advance(RETRY_SECONDS)
    assert await world.reason_of() == "revoked"


@in_world()
async def test_change_is_seen_at_once_when_the_pushes_are_back(world: World) -> None:
    await world.name_of()
    world.table.is_down = True
    world.clock.advance(TTL_SECONDS)
    await world.name_of()
    world.table.is_down = False
    world.row.is_revoked = True
    world.cache.clear()  # what the listener does when it has connected again
    assert await world.reason_of() == "revoked"


@in_world()
async def test_gap_leaves_the_grace_as_it_was(world: World) -> None:
    await world.name_of()
    world.table.is_down = True
    world.cache.clear()
    assert await world.name_of() == "test"
    world.clock.advance(TTL_SECONDS + GRACE_SECONDS - 1)
    world.cache.clear()
    assert await world.name_of() == "test"
    world.clock.advance(1)
    with pytest.raises(StoreUnavailable):
        await world.name_of()


@in_world()
async def test_key_known_to_have_changed_has_no_grace(world: World) -> None:
    await world.name_of()
    world.cache.invalidate("key:key_1")
    world.table.is_down = True
    with pytest.raises(StoreUnavailable):
        await world.name_of()


@in_world()
async def test_key_still_expires_in_grace(world: World) -> None:
    world.row.expires_at = datetime.fromtimestamp(world.clock.now() + 10, UTC)
    await world.name_of()
    world.table.is_down = True
    world.clock.advance(9)
    assert await world.name_of() == "test"
    world.clock.advance(1)
    assert await world.reason_of() == "expired"


@in_world()
async def test_pause_between_tries_does_not_lengthen_the_grace(world: World) -> None:
    await world.name_of()
    world.table.is_down = True
    world.clock.advance(TTL_SECONDS + GRACE_SECONDS - RETRY_SECONDS / 2)
    assert await world.name_of() == "test"
    world.clock.advance(RETRY_SECONDS / 2)
    with pytest.raises(StoreUnavailable):
        await world.name_of()
