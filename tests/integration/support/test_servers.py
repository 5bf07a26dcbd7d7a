"""The servers that tests get, seen from a test."""

from __future__ import annotations

from redis.asyncio import Redis

from actors.store.database import Database


async def test_valkey_answers_and_starts_empty(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as redis:
        assert await redis.dbsize() == 0
        assert await redis.set("a", "1")


async def test_two_databases_do_not_see_each_other(database_url: str, empty_url: str) -> None:
    count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    async with Database(database_url) as migrated, Database(empty_url) as empty:
        assert await migrated.fetch_one(count) != (0,)
        assert await empty.fetch_one(count) == (0,)
