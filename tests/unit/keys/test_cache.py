"""The cache of keys under a clock and a table that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from gw.keys.cache import new_key_text
from gw.keys.principal import MESSAGES, KeyRefused
from tests.support.aio import eventually
from tests.unit.keys.fakes import Row
from tests.unit.keys.world import KEY, OTHER, World, in_world


@in_world(
    Row(
        "key_1",
        KEY,
        name="n",
        kind="agent",
        agent_id="agent_1",
        allowed_models=["m", "n"],
        expires_at=datetime(2100, 1, 1, tzinfo=UTC),
        account_logs=True,
        spend_cap_nano_usd=7,
        rpm_limit=8,
        concurrency_limit=9,
        user="ann",
    )
)
async def test_good_key_gives_its_principal(world: World) -> None:
    principal = await world.cache.authenticate(KEY)
    assert repr(principal) == (
        "Principal(key_id='key_1', account_id='acct_1', key_name='n',"
        " key_prefix='sk-platform-aaaaaaaa', kind='agent', agent_id='agent_1',"
        f" allowed_models={frozenset({'m', 'n'})!r}, expires_at=4102444800.0, account_logs=True,"
        " spend_cap_nano_usd=7, rpm_limit=8, concurrency_limit=9, user='ann')"
    )


@in_world(Row("key_1", KEY, allowed_models=[]), Row("key_2", OTHER, allowed_models=None))
async def test_empty_list_of_models_is_not_the_same_as_none(world: World) -> None:
    assert (await world.cache.authenticate(KEY)).allowed_models == frozenset()
    assert (await world.cache.authenticate(OTHER)).allowed_models is None


@in_world()
async def test_second_request_does_not_ask_the_database(world: World) -> None:
    for _ in range(5):
        assert await world.name_of() == "test"
    assert world.table.reads == 1
    assert (world.counter.hits, world.counter.misses) == (4, 1)


@in_world(Row("key_1", KEY, expires_at=datetime(2100, 1, 1, tzinfo=UTC)))
async def test_key_that_is_known_and_good_is_recalled_without_a_read(world: World) -> None:
    assert world.cache.try_authenticate(KEY) is None
    principal = await world.cache.authenticate(KEY, touch=False)
    assert world.cache.try_authenticate(KEY) == principal
    assert (world.counter.hits, world.counter.misses) == (1, 1)
    assert list(world.cache.touched()) == ["key_1"]
    assert world.cache.try_authenticate(KEY, touch=False) == principal
    assert world.cache.touched() == {}
    assert world.cache.try_authenticate(OTHER) is None
    assert world.table.reads == 1


@in_world()
async def test_key_that_may_have_changed_is_not_recalled(world: World) -> None:
    for forget in (
        partial(world.cache.invalidate, "key:key_1"),
        partial(world.cache.invalidate, "account:acct_1"),
        world.cache.clear,
        partial(world.clock.advance, 5.0),
    ):
        await world.cache.authenticate(KEY)
        assert world.cache.try_authenticate(KEY) is not None
        forget()
        assert world.cache.try_authenticate(KEY) is None


@in_world(Row("key_1", KEY, is_enabled=False), Row("key_2", OTHER, is_revoked=True))
async def test_key_that_is_no_good_is_not_recalled(world: World) -> None:
    for text in (KEY, OTHER):
        with pytest.raises(KeyRefused):
            await world.cache.authenticate(text)
        assert world.cache.try_authenticate(text) is None


@in_world(Row("key_1", KEY, is_hash_only=True))
async def test_imported_key_is_found_by_its_plain_hash(world: World) -> None:
    assert await world.name_of() == "test"
    assert await world.name_of() == "test"
    assert world.table.reads == 1


@in_world()
async def test_malformed_key_never_reaches_the_database(world: World) -> None:
    for text in ("", "sk-1", KEY.upper(), KEY + "a", KEY[:-1], KEY[:-1] + "é", "\udc80" * 76):
        assert await world.reason_of(text) == "malformed"
    assert world.table.reads == 0


@in_world()
async def test_unknown_key_is_asked_for_once_within_its_time(world: World) -> None:
    for _ in range(3):
        assert await world.reason_of(OTHER) == "unknown"
    assert world.table.reads == 1
    world.clock.advance(5)
    assert await world.reason_of(OTHER) == "unknown"
    assert world.table.reads == 2


@in_world()
async def test_key_made_after_it_was_asked_for_works_at_once(world: World) -> None:
    assert await world.reason_of(OTHER) == "unknown"
    world.table.rows.append(Row("key_2", OTHER))
    world.cache.invalidate("key:key_2")
    assert await world.name_of(OTHER) == "test"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"is_revoked": True}, "revoked"),
        ({"is_enabled": False}, "disabled"),
        ({"is_account_enabled": False}, "account_inactive"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expired"),
        ({"is_revoked": True, "is_enabled": False, "is_account_enabled": False}, "revoked"),
        ({"is_enabled": False, "expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "disabled"),
    ],
)
async def test_bad_key_is_refused_with_its_reason_and_remembered(
    change: dict[str, Any], reason: str
) -> None:
    world = World(Row("key_1", KEY, **change))
    for _ in range(3):
        assert await world.reason_of() == reason
    assert world.table.reads == 1
    assert world.cache.touched() == {}


def test_every_reason_has_a_message_of_its_own() -> None:
    assert len(set(MESSAGES.values())) == len(MESSAGES) == 6
    for reason, message in MESSAGES.items():
        assert str(KeyRefused(reason)) == message


@in_world()
async def test_key_expires_while_it_is_remembered(world: World) -> None:
    expiry = world.clock.now() + 2
    world.row.expires_at = datetime.fromtimestamp(expiry, UTC)
    assert await world.name_of() == "test"
    world.clock.advance(1.9)
    assert await world.name_of() == "test"
    world.clock.advance(0.1)
    assert await world.reason_of() == "expired"
    assert world.table.reads == 1


@in_world()
async def test_entry_is_read_again_after_its_time(world: World) -> None:
    assert await world.name_of() == "test"
    world.row.name = "changed"
    world.clock.advance(4.9)
    assert await world.name_of() == "test"
    world.clock.advance(0.1)
    assert await world.name_of() == "changed"


@in_world()
async def test_time_to_live_counts_from_the_beginning_of_the_read(world: World) -> None:
    world.table.holds_reads = True
    asked = world.begin()
    await eventually(lambda: len(world.table.held) == 1)
    world.clock.advance(4)
    world.table.held[0].release()
    world.table.held[0].release()
    await asked
    world.table.holds_reads = False
    world.clock.advance(1)
    await world.name_of()
    assert world.table.reads == 2


@in_world(Row("key_1", KEY), Row("key_2", OTHER), Row("key_3", new_key_text(), account_id="a"))
async def test_push_drops_the_key_or_all_keys_of_the_account(world: World) -> None:
    texts = [row.text for row in world.table.rows]

    async def read_again() -> list[str]:
        before = world.table.reads
        names = []
        for text in texts:
            await world.cache.authenticate(text)
            if world.table.reads > before:
                names.append(text)
            before = world.table.reads
        return names

    assert await read_again() == texts
    assert await read_again() == []
    world.cache.invalidate("key:key_2")
    assert await read_again() == [OTHER]
    world.cache.invalidate("account:acct_1")
    assert await read_again() == texts[:2]
    for payload in ("account:none", "key:none", "model:m", "", "key", "key:"):
        world.cache.invalidate(payload)
    assert await read_again() == []
    world.cache.clear()
    assert await read_again() == texts


@in_world(Row("key_1", KEY), Row("key_2", OTHER), Row("key_3", new_key_text()), capacity=2)
async def test_least_recently_used_leaves_first(world: World) -> None:
    third = world.table.rows[2].text
    for text in (KEY, OTHER, KEY, third):
        await world.cache.authenticate(text)
    assert repr(world.cache) == "<KeyCache 2/2 keys 0 unknown 0 loading>"
    await world.cache.authenticate(KEY)
    assert world.table.reads == 3
    await world.cache.authenticate(OTHER)
    assert world.table.reads == 4
    world.cache.invalidate("account:acct_1")
    assert repr(world.cache) == "<KeyCache 0/2 keys 0 unknown 0 loading>"


@in_world(capacity=2)
async def test_guesses_do_not_push_good_keys_out(world: World) -> None:
    await world.name_of()
    for _ in range(50):
        assert await world.reason_of(new_key_text()) == "unknown"
    reads = world.table.reads
    await world.name_of()
    assert world.table.reads == reads
    assert repr(world.cache) == "<KeyCache 1/2 keys 50 unknown 0 loading>"


async def test_memory_of_unknown_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gw.keys.cache.UNKNOWN_CAPACITY", 10)

    world = World()
    for _ in range(25):
        assert await world.reason_of(new_key_text()) == "unknown"
    assert "10 unknown" in repr(world.cache)


@in_world(Row("key_1", KEY), Row("key_2", OTHER))
async def test_last_use_is_noted_once_a_key_and_handed_over_once(world: World) -> None:
    first = world.clock.now()
    await world.cache.authenticate(KEY)
    world.clock.advance(1)
    await world.cache.authenticate(KEY)
    await world.cache.authenticate(OTHER, touch=False)
    assert world.cache.touched() == {"key_1": first + 1}
    assert world.cache.touched() == {}
    await world.cache.authenticate(OTHER)
    assert set(world.cache.touched()) == {"key_2"}
