"""LISTEN against a real PostgreSQL: payloads, gaps, errors in the callbacks."""

import asyncio

import pytest

from actors.store.connection import DatabaseConnection, Params
from actors.store.database import Database
from actors.store.errors import DatabaseRefused
from tests.support.aio import eventually
from tests.support.logs import logs

CUT_OTHERS = (
    "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)


async def test_notification_reaches_the_listener_in_order(empty_url: str) -> None:
    heard: list[str] = []
    async with Database(empty_url) as database:
        listener = await database.listen("gw_changes", heard.append, lambda: heard.append("gap"))
        assert repr(listener) == "<Listener gw_changes on>"
        async with database.transaction() as session:
            await session.execute("SELECT pg_notify('gw_changes', 'account:a')")
            await session.execute("SELECT pg_notify('gw_changes', 'key:b')")
            await session.execute("SELECT pg_notify('other', 'not heard')")
            assert heard == []
        await eventually(lambda: len(heard) == 2)
        assert heard == ["account:a", "key:b"]
        await listener.close()
        await database.execute("SELECT pg_notify('gw_changes', 'late')")
        assert heard == ["account:a", "key:b"]
        assert repr(listener) == "<Listener gw_changes closed>"


async def test_odd_channel_name_is_quoted(empty_url: str) -> None:
    heard: list[str] = []
    async with Database(empty_url) as database:
        await database.listen('A "b', heard.append, heard.clear)
        await database.execute("SELECT pg_notify(%s, %s)", ('A "b', "x"))
        await eventually(lambda: heard == ["x"])


@logs("listener_lost")
async def test_lost_listener_comes_back_and_tells_of_the_gap(empty_url: str) -> None:
    heard: list[str] = []
    async with Database(empty_url) as database:
        await database.listen("gw_changes", heard.append, lambda: heard.append("gap"))
        for _ in range(2):
            heard.clear()
            assert await database.fetch_one(CUT_OTHERS) == (1,)
            await eventually(lambda: heard == ["gap"])
            await database.execute("SELECT pg_notify('gw_changes', 'after')")
            await eventually(lambda: heard == ["gap", "after"])


@logs("listener_callback_failed")
async def test_failing_callback_does_not_end_the_listening(empty_url: str) -> None:
    heard: list[int] = []
    async with Database(empty_url) as database:
        await database.listen("numbers", lambda text: heard.append(int(text)), heard.clear)
        for payload in ("1", "x", "3"):
            await database.execute("SELECT pg_notify('numbers', %s)", (payload,))
        await eventually(lambda: heard == [1, 3])


@logs("listener_refused")
async def test_listener_on_a_standby_comes_when_it_is_one_no_more(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    execute, refused = DatabaseConnection.execute, 3

    async def on_a_standby(connection: DatabaseConnection, sql: str, params: Params = ()) -> int:
        nonlocal refused
        if sql.startswith("LISTEN") and refused:
            refused -= 1
            raise DatabaseRefused("25006", "cannot execute LISTEN during recovery")
        return await execute(connection, sql, params)

    monkeypatch.setattr(DatabaseConnection, "execute", on_a_standby)
    async with Database(empty_url) as database:
        await database.listen("gw_changes", heard.append, lambda: heard.append("gap"))
        await eventually(lambda: heard == ["gap"])
        await database.fetch_all("SELECT pg_notify('gw_changes', 'after')")
        await eventually(lambda: heard == ["gap", "after"])


async def test_closing_the_database_ends_its_listeners(empty_url: str) -> None:
    before = asyncio.all_tasks()
    database = Database(empty_url)
    await database.listen("a", print, print)
    await database.listen("b", print, print)
    await database.close()
    assert asyncio.all_tasks() == before
