"""Sessions and transactions against a real PostgreSQL: commit, roll back, cancel, break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

import pytest

from actors.store.connection import ConstraintViolated, StatementRefused, StoreUnavailable
from actors.store.database import Database, Session, carried_through
from tests.support.aio import eventually

BREAK = "SELECT pg_terminate_backend(pg_backend_pid(), 0)"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """A database with one table of numbers and one connection."""
    async with Database(url, size=1) as database:
        await database.execute("CREATE TABLE numbers (n integer PRIMARY KEY)")
        yield database


async def numbers(database: Database) -> list[int]:
    return [n for (n,) in await database.fetch_all("SELECT n FROM numbers ORDER BY n")]


def insert(session: Session | Database, n: int) -> Awaitable[int]:
    return session.execute("INSERT INTO numbers VALUES (%s)", (n,))


async def test_transaction_that_ends_well_is_committed(empty_url: str) -> None:
    async with opened(empty_url) as database:
        async with database.transaction() as session:
            await insert(session, 1)
            await insert(session, 2)
        assert await numbers(database) == [1, 2]


async def test_transaction_that_raises_is_rolled_back_and_gives_its_connection_back(
    empty_url: str,
) -> None:
    async with opened(empty_url) as database:

        async def work(second: int) -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                await insert(session, second)
                raise KeyError

        with pytest.raises(KeyError):
            await work(2)
        with pytest.raises(ConstraintViolated):
            await work(1)
        assert await numbers(database) == []
        assert repr(database) == "<Database up 1 open 1 idle>"


async def test_error_hidden_in_a_transaction_is_no_commit(empty_url: str) -> None:
    async with opened(empty_url) as database:

        async def work() -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                with suppress(ConstraintViolated):
                    await insert(session, 1)

        with pytest.raises(StatementRefused, match="had failed before its commit"):
            await work()
        assert await numbers(database) == []


async def test_cancelled_transaction_is_rolled_back(empty_url: str) -> None:
    async with opened(empty_url) as database:
        inside = asyncio.Event()

        async def work(*, in_statement: bool) -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                inside.set()
                if in_statement:
                    await session.execute("SELECT pg_sleep(30)")
                await asyncio.Event().wait()

        for in_statement in (False, True):
            inside.clear()
            task = asyncio.create_task(work(in_statement=in_statement))
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await numbers(database) == []


async def test_cancellation_during_commit_waits_for_the_commit(empty_url: str) -> None:
    async with opened(empty_url) as database, Database(empty_url) as other:
        # The commit waits until the other session lets go.
        await database.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON numbers INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        session = await other.session()
        await session.execute("SELECT pg_advisory_lock(1)")

        async def work() -> None:
            async with database.transaction() as transaction:
                await insert(transaction, 1)

        async def is_committing() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return await other.fetch_one(waiting) == (1,)

        task = asyncio.create_task(work())
        await eventually(is_committing, what="the commit waits")
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        await session.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await numbers(database) == [1]
        assert repr(database) == "<Database up 1 open 1 idle>"


async def test_connection_lost_before_commit_is_unavailable(empty_url: str) -> None:
    async with opened(empty_url) as database:

        async def work() -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                with suppress(StoreUnavailable):
                    await session.execute(BREAK)

        with pytest.raises(StoreUnavailable):
            await work()
        assert await numbers(database) == []


async def test_session_keeps_one_connection_through_errors(empty_url: str) -> None:
    async with opened(empty_url) as database:
        session = await database.session()
        backend = await session.fetch_one("SELECT pg_backend_pid()")
        await insert(session, 1)
        with pytest.raises(ConstraintViolated):
            await insert(session, 1)
        assert await session.fetch_one("SELECT pg_backend_pid()") == backend
        assert await numbers(database) == [1]
        await session.close()
        await session.close()
        assert session.is_closed


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_broken_session_stays_closed_and_says_so(empty_url: str, is_cancelled: bool) -> None:
    async with opened(empty_url) as database:
        session = await database.session()
        if is_cancelled:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await session.execute("SELECT pg_sleep(30)")
        else:
            with pytest.raises(StoreUnavailable):
                await session.execute(BREAK)
        assert session.is_closed
        assert repr(session) == "<Session <DatabaseConnection closed>>"
        with pytest.raises(StoreUnavailable, match="session is closed"):
            await session.fetch_all("SELECT 1")
        await session.close()
        fresh = await database.session()
        assert await fresh.fetch_one("SELECT 1") == (1,)


async def test_cancelled_statement_may_still_take_effect(empty_url: str) -> None:
    """Why money statements never run in a task that a client can cancel."""

    async with opened(empty_url) as database:
        session, other = await database.session(), await database.session()
        await other.execute("SELECT pg_advisory_lock(1)")
        waits = "INSERT INTO numbers SELECT 1 FROM pg_advisory_xact_lock(1)"
        running = asyncio.create_task(session.execute(waits))

        async def is_waiting() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return await database.fetch_one(waiting) == (1,)

        await eventually(is_waiting)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await other.close()

        async def is_there() -> bool:
            return await numbers(database) == [1]

        await eventually(is_there)


async def test_session_with_its_own_limit_outlives_the_statement_time_out(empty_url: str) -> None:
    async with Database(empty_url, statement_seconds=0.05) as database:
        session = await database.session(statement_seconds=10)
        await session.execute("SELECT pg_sleep(0.2)")
        await session.close()


async def test_work_carried_through_survives_several_cancellations() -> None:
    finish, done = asyncio.Event(), []

    async def work() -> None:
        await finish.wait()
        done.append(1)

    task = asyncio.create_task(carried_through(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]


async def test_failure_of_carried_work_reaches_its_caller() -> None:
    async def work() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError):
        await carried_through(work())
