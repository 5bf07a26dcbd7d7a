"""The cache of keys beside changes: races, and what may vouch for what is kept."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.keys.cache import REREAD_SECONDS
from gw.keys.entries import GRACE_SECONDS
from gw.keys.key_text import new_key_text
from gw.keys.principal import KeyRefused
from tests.support.aio import eventually, run
from tests.support.cached_keys import remembered
from tests.support.rows import cases
from tests.unit.keys.fakes import KEY, OTHER, Row, World, in_world


async def held_at_reply(world: World) -> None:
    """Wait for the first read and let it look, so that it knows what it will answer."""
    await eventually(lambda: bool(world.table.held))
    world.table.held[0].release()
    for _ in range(3):
        await asyncio.sleep(0)


@in_world(Row("key_1", KEY), Row("key_2", OTHER, account_id="acct_2", available_nano_usd=-7))
async def test_balance_comes_with_the_key_and_only_from_a_read(world: World) -> None:
    for _ in range(2):
        await asyncio.gather(world.begin(), world.begin(OTHER))
    assert world.balances == [("acct_1", 1_000), ("acct_2", -7)]


@in_world()
async def test_failed_read_that_everybody_has_left_goes_by_quietly(world: World) -> None:
    world.table.holds_reads = True
    request = world.begin()
    await eventually(lambda: len(world.table.held) == 1)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    world.table.is_down = True
    world.table.held[0].release()
    await eventually(lambda: "0 loading" in repr(world.cache))


@cases("payload", "key:key_1", "account:acct_1", "agent:agent_1", None)
async def test_read_that_a_change_overtook_is_made_again(payload: str | None) -> None:
    world = World(Row("key_1", KEY, kind="agent", agent_id="agent_1"))
    world.table.holds_reads = True
    request = world.begin()
    await held_at_reply(world)
    world.row.is_revoked = True
    if payload is None:
        world.cache.clear()
    else:
        world.cache.invalidate(payload)
    late = world.begin()
    world.table.holds_reads = False
    world.table.held[0].release()
    for task in (request, late):
        with pytest.raises(KeyRefused, match="revoked"):
            await task
    assert world.table.reads == 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from([KEY, OTHER])),
        st.tuples(st.just("change"), st.sampled_from([0, 1])),
        st.tuples(st.just("change account"), st.just(0)),
        st.tuples(st.just("release"), st.integers(min_value=0, max_value=5)),
        st.tuples(st.just("gap"), st.just(0)),
        st.tuples(st.just("leave"), st.integers(min_value=0, max_value=5)),
        st.tuples(st.just("time"), st.just(3)),
        st.tuples(st.just("echo"), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whoever_asks_after_a_push_reads_what_was_pushed(steps: list[tuple[str, object]]) -> None:
    """Any order of requests, changes, answers, departures: nobody sees what was before they asked.

    The name of a key begins with its own and counts its changes, so that an answer tells whose it
    is and how old.
    """
    run(_play(steps))


async def _play(steps: list[tuple[str, object]]) -> None:
    world = World(Row("key_1", KEY, name="1 0"), Row("key_2", OTHER, name="2 0"))
    world.table.holds_reads = True
    rows = {row.text: row for row in world.table.rows}
    request: list[tuple[asyncio.Task[str], str, int]] = []

    def changed(row: Row) -> None:
        own, _, count = row.name.partition(" ")
        row.name = f"{own} {int(count) + 1}"

    for step, argument in steps:
        waiting = [held for held in world.table.held if not held.is_released]
        match step, argument:
            case "ask", str(text):
                own, _, count = rows[text].name.partition(" ")
                request.append((world.begin(text), own, int(count)))
            case "change", int(index):
                changed(world.table.rows[index])
                world.cache.invalidate(f"key:key_{index + 1}")
            case "change account", _:
                for row in world.table.rows:
                    changed(row)
                world.cache.invalidate("account:acct_1")
            case "gap", _:
                for row in world.table.rows:
                    changed(row)
                world.cache.clear()
            case "release", int(index) if index < len(waiting):
                waiting[index].release()
            case "leave", int(index) if index < len(request):
                request[index][0].cancel()
            case "time", int(seconds):
                world.clock.advance(seconds)
            case "echo", _:
                world.cache.vouch(world.clock.monotonic())
        for _ in range(4):
            await asyncio.sleep(0)
    world.table.holds_reads = False
    for held in world.table.held:
        held.release()
        held.release()
    for task, own, oldest in request:
        try:
            result, _, count = (await task).partition(" ")
            assert result == own
            assert int(count) >= oldest
        except asyncio.CancelledError:
            assert task.cancelled()
    assert world.table.reads <= len(steps) + 1


TTL_SECONDS = 5.0


def is_known(world: World) -> bool:
    return remembered(world.cache, world.row.text) is not None


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


async def test_entries_leave_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gw.keys.entries.FORGET_MAX", 3)

    rows = [Row(f"key_{number}", new_key_text()) for number in range(5)]
    world = World(*rows)
    for row in rows:
        await world.name_of(row.text)
    world.clock.advance(1_000)
    for left in (2, 0, 0):
        world.cache.forget_idle()
        assert f"<KeyCache {left}/100000 keys" in repr(world.cache)
