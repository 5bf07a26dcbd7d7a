"""What is kept under keys as the gateway reads it, and how it is forgotten, on PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.claims import Claim, ClaimEnd, KeptResponse, ResponseTooLarge
from actors.wallet.messages import CallFacts, Hold
from actors.wallet.rows import encode_settlement
from gw.idempotency.store import (
    FORGET_KEYS_MAX,
    FORGET_SECONDS,
    ExpiredKeys,
    IdempotencyStore,
    StoredResponse,
)
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.clock import FakeClock
from tests.support.ledger_values import facts, outcome

KEPT = KeptResponse(status=200, headers=(("Content-Type", "image/png"),), body=bytes(range(256)))
CLAIM = Claim(key="k", fingerprint=b"one")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    async with Database(url) as database:
        await open_account(database, 1000)
        yield database


async def claim(database: Database, number: int, key: str = "k") -> CallFacts:
    who = facts(number, protocol="images")
    hold = Hold(facts=who, amount_nano_usd=1, claim=Claim(key=key, fingerprint=b"one"))
    applied = await apply(database, PROCESS, Batch(holds=[hold]))
    assert (applied.taken, applied.refused) == ({}, {})
    return who


async def settle(database: Database, who: CallFacts, end: ClaimEnd) -> None:
    settlement = encode_settlement(who, outcome(1), claim_end=end)
    await apply(database, PROCESS, Batch(settlements=[settlement]))


async def expire(database: Database) -> None:
    await database.execute("UPDATE idempotency SET expires_at = now()")


async def count(database: Database) -> int:
    row = await database.fetch_one("SELECT count(*) FROM idempotency")
    assert row is not None
    return int(row[0])


async def test_kept_answer_is_read_by_its_own_request_alone(database_url: str) -> None:
    async with opened(database_url) as database:
        store = IdempotencyStore(database)
        who = await claim(database, 1)
        assert await store.find(ACCOUNT, CLAIM) is None
        assert await store.is_known(ACCOUNT, "k")
        assert await store.state(ACCOUNT, CLAIM) == "in_flight"
        await settle(database, who, KEPT)
        assert await store.state(ACCOUNT, CLAIM) == "stored"
        assert await store.state(ACCOUNT, Claim(key="k", fingerprint=b"two")) == "reuse"
        assert await store.state("acct_b", CLAIM) is None
        assert await store.find(ACCOUNT, CLAIM) == StoredResponse(who.call_id, KEPT)
        assert await store.find(ACCOUNT, Claim(key="k", fingerprint=b"two")) is None
        assert await store.find("acct_b", CLAIM) is None
        assert await store.is_known(ACCOUNT, "k")
        assert not await store.is_known(ACCOUNT, "other")
        assert not await store.is_known("acct_b", "k")
        await expire(database)
        assert await store.state(ACCOUNT, CLAIM) is None
        assert await store.find(ACCOUNT, CLAIM) is None
        assert not await store.is_known(ACCOUNT, "k")


async def test_expired_keys_are_forgotten_but_for_those_of_calls_under_way(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        chore = ExpiredKeys(database=database, clock=FakeClock())
        await claim(database, 1, "under way")
        for number, end in ((2, KEPT), (3, ResponseTooLarge()), (4, None)):
            await settle(database, await claim(database, number, f"k{number}"), end)
        await expire(database)
        await settle(database, await claim(database, 5, "fresh"), KEPT)
        await chore.forget()
        rows = await database.fetch_all("SELECT key FROM idempotency ORDER BY key")
        assert rows == [("fresh",), ("under way",)]


async def test_many_expired_keys_go_a_batch_with_each_beat_then_once_a_minute(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        clock = FakeClock()
        chore = ExpiredKeys(database=database, clock=clock)
        many = 2 * FORGET_KEYS_MAX + 1
        make = (
            "INSERT INTO idempotency (account_id, key, fingerprint, call_id, expires_at)"
            " SELECT 'a', n::text, '', gen_random_uuid(), now() FROM generate_series(1, %s) n"
        )
        await database.execute(make, (many,))
        left = []
        for _ in range(3):
            await chore.forget()
            left.append(await count(database))
        assert left == [FORGET_KEYS_MAX + 1, 1, 0]
        await database.execute(make, (1,))
        await chore.forget()
        assert await count(database) == 1
        clock.advance(FORGET_SECONDS)
        await chore.forget()
        assert await count(database) == 0


async def test_processes_that_forget_at_once_do_not_wait_for_each_other(database_url: str) -> None:
    async with opened(database_url) as database:
        await settle(database, await claim(database, 1), KEPT)
        await expire(database)
        async with database.transaction() as session:
            # Somebody is at this row: it is left for another time.
            await session.execute("SELECT FROM idempotency FOR UPDATE")
            await ExpiredKeys(database=database, clock=FakeClock()).forget()
        assert await count(database) == 1
