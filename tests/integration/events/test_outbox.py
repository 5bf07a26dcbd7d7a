"""Events of transactions that overlap: numbered when they are committed, without a gap, once."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from actors.events import outbox
from actors.events.outbox import count, number, purge, read
from actors.store.database import Database
from actors.store.session import Statements
from tests.support.aio import eventually

WRITE = "SELECT event_write(%s, %s, %s::json)"
AGE = "UPDATE events SET numbered_at = numbered_at - %s * interval '1 day' WHERE sequence <= %s"


async def write(
    session: Statements, name: str, account: str = "acc_a", kind: str = "key.created"
) -> None:
    await session.execute(WRITE, (account, kind, f'{{"name": "{name}"}}'))


async def names(database: Database, after: int = 0, **which: object) -> list[tuple[int, str]]:
    await number(database)
    reading = await read(database, after=after, limit=100, **which)  # type: ignore[arg-type]
    return [(event.sequence, event.data["name"]) for event in reading.events]


async def rolled_back(
    database: Database, work: Callable[[Statements], Coroutine[Any, Any, Any]]
) -> None:
    async with database.transaction() as session:
        await work(session)
        raise ZeroDivisionError


async def test_what_commits_later_comes_later_whoever_wrote_first(database_url: str) -> None:
    async with Database(database_url, size=3) as database:
        async with database.transaction() as slow:
            await write(slow, "slow")
            async with database.transaction() as quick:
                await write(quick, "quick")
            assert await names(database) == [(1, "quick")]
            assert await names(database, after=1) == []
        assert await names(database, after=1) == [(2, "slow")]


async def test_nothing_of_a_transaction_that_failed(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        with pytest.raises(ZeroDivisionError):
            await rolled_back(database, lambda session: write(session, "never"))
        await write(database, "after")
        assert await names(database) == [(1, "after")]


async def test_readers_amid_writers_see_each_event_once_and_in_order(database_url: str) -> None:
    """Twelve writers with transactions of many lengths, four readers with a cursor each."""
    chance = random.Random(7)
    writers, each = 12, 15
    is_over = asyncio.Event()
    async with Database(database_url, size=20) as database:

        async def work(who: int) -> None:
            for turn in range(each):
                pause = chance.random() * 0.02
                try:
                    async with database.transaction() as session:
                        await write(session, f"{who}/{turn}/a")
                        await asyncio.sleep(pause)
                        await write(session, f"{who}/{turn}/b")
                        if turn % 5 == 4:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    pass

        async def follow() -> list[tuple[int, str]]:
            seen: list[tuple[int, str]] = []
            while True:
                was_over = is_over.is_set()
                found = await names(database, after=seen[-1][0] if seen else 0)
                seen += found
                if was_over and not found:
                    return seen

        readers = [asyncio.create_task(follow()) for _ in range(4)]
        await asyncio.gather(*map(work, range(writers)))
        is_over.set()
        seen, *others = [await reader for reader in readers]
        assert all(other == seen for other in others)
        assert [place for place, _ in seen] == list(range(1, 2 * writers * each * 4 // 5 + 1))
        assert len({name for _, name in seen}) == len(seen)
        ids = await database.fetch_all("SELECT count(DISTINCT id), min(id) FROM events")
        assert ids[0][0] == len(seen)
        assert ids[0][1].startswith("evt_")


async def test_numbering_goes_on_after_a_part_and_each_is_counted_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "NUMBERED_MAX", 4)
    async with Database(database_url, size=4) as database:
        for place in range(9):
            await write(database, str(place))
        await write(database, "x", kind="account.created")
        await asyncio.gather(*(number(database) for _ in range(4)))
        assert [name for _, name in await names(database)] == [*map(str, range(9)), "x"]
        counts = await asyncio.gather(*(count(database) for _ in range(4)))
        assert sum(map(Counter, counts), Counter()) == {"key.created": 9, "account.created": 1}
        assert await count(database) == {}


async def test_a_number_that_is_rolled_back_is_given_again(database_url: str) -> None:
    async with Database(database_url, size=3) as database:
        await write(database, "a")
        with pytest.raises(ZeroDivisionError):
            await rolled_back(database, number)
        await write(database, "b")
        assert await names(database) == [(1, "a"), (2, "b")]


async def test_reads_by_type_and_account(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        await write(database, "1", "acc_a", "key.created")
        await write(database, "2", "acc_b", "key.created")
        await write(database, "3", "acc_a", "account.updated")
        await write(database, "4", "acc_b", "key.revoked")
        assert await names(database, types=["key.revoked", "key.created"]) == [
            (1, "1"),
            (2, "2"),
            (4, "4"),
        ]
        assert await names(database, account_id="acc_a") == [(1, "1"), (3, "3")]
        assert await names(database, account_id="acc_a", types=["key.created"]) == [(1, "1")]
        assert await names(database, account_id="acc_b", after=2) == [(4, "4")]
        assert await names(database, account_id="acc_c") == []
        reading = await read(database, after=4, limit=1)
        assert (reading.events, reading.last, reading.purged) == ([], 4, 0)


async def test_old_events_go_from_the_front_and_awaited_ones_stay(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        for place in range(5):
            await write(database, str(place))
        await number(database)
        await database.execute(AGE, (2, 4))
        assert await purge(database, 3, 10) == 0
        assert await purge(database, 1, 2) == 2
        reading = await read(database, after=0, limit=1)
        assert (reading.purged, reading.events[0].sequence) == (2, 3)
        await database.execute(
            "CREATE OR REPLACE FUNCTION events_awaited() RETURNS bigint LANGUAGE sql STABLE"
            " AS 'SELECT 4::bigint'"
        )
        assert await purge(database, 1, 10) == 1
        assert [place for place, _ in await names(database)] == [4, 5]


async def test_one_notification_of_a_transaction_however_much_it_writes(database_url: str) -> None:
    heard: list[str] = []
    async with Database(database_url, size=3) as database:
        await database.listen("gw_changes", heard.append, lambda: None)
        async with database.transaction() as session:
            for place in range(50):
                await write(session, str(place))
        await database.execute("SELECT pg_notify('gw_changes', 'end')")
        await eventually(lambda: "end" in heard)
        assert heard == ["event:", "end"]


async def test_texts_of_money_and_time_are_those_of_the_gateway(database_url: str) -> None:
    async with Database(database_url, size=1) as database:
        found = await database.fetch_all(
            "SELECT usd_text(x) FROM unnest(%s::bigint[]) x",
            ([0, 1, -1, 10**9, -25 * 10**8, 1234567890123, 2**63 - 1, -(2**63), 100 * 10**9],),
        )
        assert [text for (text,) in found] == [
            "0",
            "0.000000001",
            "-0.000000001",
            "1",
            "-2.5",
            "1234.567890123",
            "9223372036.854775807",
            "-9223372036.854775808",
            "100",
        ]
        instants = await database.fetch_one(
            "SELECT instant_text('2026-03-29 02:30:00+02'), instant_text('2026-01-01 00:00:00.05Z')"
        )
        assert instants == ("2026-03-29T00:30:00Z", "2026-01-01T00:00:00.050000Z")
