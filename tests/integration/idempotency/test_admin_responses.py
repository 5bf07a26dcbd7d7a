"""What is kept under idempotency keys of the admin API, and for how long, on PostgreSQL."""

import itertools
from collections.abc import Awaitable, Callable

from actors.store.database import Database
from actors.store.session import Session
from gw.api.admin.idempotency import once
from gw.idempotency.store import FORGET_KEYS_MAX, ExpiredKeys
from tests.support.clock import FakeClock

AGE = "UPDATE admin_responses SET created_at = now() - interval '7 days' + %s * interval '1 second'"


def counted() -> Callable[[Session], Awaitable[tuple[bytes, bool]]]:
    """One request, sent again and again; the response says how often it had an effect."""
    effects = itertools.count(1)

    async def make() -> bytes:
        return str(next(effects)).encode()

    return lambda session: once(session, "topups", "pay_81", b"{}", make)


async def left(database: Database) -> int:
    row = await database.fetch_one("SELECT count(*) FROM admin_responses")
    assert row is not None
    return int(row[0])


async def test_a_response_is_kept_for_seven_days(database_url: str) -> None:
    async with Database(database_url) as database:
        request = counted()

        async def sent() -> tuple[bytes, bool]:
            async with database.transaction() as session:
                return await request(session)

        assert await sent() == (b"1", False)
        await database.execute(AGE, (60,))
        await ExpiredKeys(database=database, clock=FakeClock()).forget()
        assert await sent() == (b"1", True)
        await database.execute(AGE, (0,))
        assert await sent() == (b"2", False)  # though it has not been deleted
        assert await sent() == (b"2", True)


async def test_old_responses_are_deleted_a_batch_with_each_beat(database_url: str) -> None:
    async with Database(database_url) as database:
        make = (
            "INSERT INTO admin_responses SELECT 'topups', n::text, '' FROM generate_series(1, %s) n"
        )
        await database.execute(make, (FORGET_KEYS_MAX + 1,))
        chore = ExpiredKeys(database=database, clock=FakeClock())
        await chore.forget()
        assert await left(database) == FORGET_KEYS_MAX + 1
        await database.execute(AGE, (0,))
        chore = ExpiredKeys(database=database, clock=FakeClock())
        for expected in (1, 0):
            await chore.forget()
            assert await left(database) == expected


async def test_a_response_that_ends_while_it_is_replayed_is_not_deleted(database_url: str) -> None:
    async with Database(database_url) as database:
        request = counted()
        async with database.transaction() as session:
            await request(session)
        async with database.transaction() as session:
            await session.execute("SELECT now()")  # the transaction's time, at which it is good
            await database.execute(AGE, (0,))
            assert await request(session) == (b"1", True)
            await ExpiredKeys(database=database, clock=FakeClock()).forget()
            assert await left(database) == 1
        await ExpiredKeys(database=database, clock=FakeClock()).forget()
        assert await left(database) == 0
