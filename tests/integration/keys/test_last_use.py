"""When keys were last used, on a real PostgreSQL."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

from actors.store.database import Database
from gw.keys import store
from tests.integration.keys.table import account_in, issue


async def test_last_use_only_moves_forward(database_url: str) -> None:
    async with Database(database_url) as database:
        account_id = await account_in(database)
        first, second = [await issue(database, account_id) for _ in range(2)]
        base = datetime(2026, 11, 21, tzinfo=UTC)

        async def used() -> list[datetime | None]:
            keys = await store.list_of_account(database, account_id, limit=100)
            return [key.last_used_at for key in keys]

        assert await used() == [None, None]
        at = base.timestamp()
        await store.write_last_use(database, {first.id: at, "key_none": at})
        assert await used() == [base, None]
        await store.write_last_use(database, {first.id: at - 1, second.id: at + 1.5})
        assert await used() == [base, base + timedelta(seconds=1.5)]
        await store.write_last_use(database, {})


# Makes the server look keys up one by one, in the order they are given, as it does in large tables.
LOOK_UP_ONE_BY_ONE = """
DO $$
DECLARE
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['hashjoin', 'mergejoin', 'seqscan'] LOOP
        EXECUTE format('ALTER DATABASE %I SET enable_%s = off', current_database(), kind);
    END LOOP;
END $$
"""


async def test_last_uses_written_from_many_sides_do_not_block_each_other(database_url: str) -> None:
    async with Database(database_url) as database:
        await database.execute(LOOK_UP_ONE_BY_ONE)
        account_id = await account_in(database)
        ids = [(await issue(database, account_id)).id for _ in range(30)]
    async with Database(database_url, size=8) as database:
        rng = random.Random(7)

        async def write(seconds: float) -> None:
            shuffled = rng.sample(ids, k=len(ids))
            await store.write_last_use(database, dict.fromkeys(shuffled, seconds))

        await asyncio.gather(*(write(float(seconds)) for seconds in range(1, 101)))
        keys = await store.list_of_account(database, account_id, limit=100)
        assert {key.last_used_at for key in keys} == {datetime.fromtimestamp(100, UTC)}
