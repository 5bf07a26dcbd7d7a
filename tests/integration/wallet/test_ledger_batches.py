"""Batches of the ledger on a real PostgreSQL: statements, plans, guards."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from actors.store.database import Database
from actors.store.session import Session
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.claims import Claim, KeptResponse
from actors.wallet.messages import Hold, NewJob, Settle, Void
from actors.wallet.rows import encode_void
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.ledger_values import facts, hold, settle


@asynccontextmanager
async def held(url: str, *numbers: int) -> AsyncIterator[Database]:
    """A ledger on which these calls hold 100 of 1000 each."""
    async with Database(url) as database:
        await open_account(database, 1000)
        holds = [hold(number) for number in numbers]
        applied = await apply(database, PROCESS, Batch(holds=holds))
        assert applied.refused == {}
        yield database
        assert (await verify(database)).faults == []


ODD: dict[str, Mapping[str, Any]] = {
    "NUL in the detail": {"detail": {"upstream_id": "a\x00b"}},
    "half a character in the detail": {"detail": {"finish_reason": "a\ud800b"}},
    "the other half as a name": {"detail": {"\udc00": [1, {"deep": "\x00"}]}},
    "NUL in an attempt": {"attempts": [{"error_message": "\x00", "seq": 1}]},
    "an emoji": {"detail": {"finish_reason": "😀"}, "error_message": "😀"},
    "NUL and half a character in the message": {"error_message": "\x00\udfff"},
    "more than a machine word": {"detail": {"estimate": [10**30, 1]}},
    "backslashes": {"detail": {"path": "\\u0000 \\ud800"}},
    "what stands between details, and no detail as text": {"detail": {"a": "\x1e", "b": "null"}},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
async def test_odd_text_never_keeps_a_call_from_being_settled(
    odd: Mapping[str, Any], database_url: str
) -> None:
    async with held(database_url, 1, 2) as database:
        settlements = [settle(1, 10, **odd), settle(2, 20)]
        applied = await apply(database, PROCESS, Batch(settlements=settlements))
        assert applied.unsettled == frozenset()
        assert applied.balances == [[ACCOUNT, 970, 0, 0]]


async def test_call_settled_twice_in_one_batch_is_settled_by_the_first(database_url: str) -> None:
    async with held(database_url, 1, 2) as database:
        settlements: list[Settle | Void] = [
            settle(1, 10),
            settle(1, 50),
            encode_void(facts(2)),
            settle(2, 50),
        ]
        applied = await apply(database, PROCESS, Batch(settlements=settlements))
        assert applied.balances == [[ACCOUNT, 990, 0, 0]]
        rows = await database.fetch_all("SELECT request_id::text, cost_nano_usd FROM call_logs")
        assert rows == [(str(UUID(int=1)), 10)]


async def test_what_is_held_is_not_there_for_the_next_batch(database_url: str) -> None:
    async with held(database_url) as database:
        for number, amount, refused in ((1, 600, {}), (2, 600, {0: "insufficient_funds"})):
            batch = Batch(holds=[hold(number, amount)])
            applied = await apply(database, PROCESS, batch)
            assert applied.refused == refused
        assert await ledger.read_balance(database, ACCOUNT) == (1000, 600)


async def test_holds_of_one_batch_share_one_balance(database_url: str) -> None:
    async with held(database_url) as database:
        batch = Batch(holds=[hold(1, 600), hold(2, 600), hold(3, 300)])
        applied = await apply(database, PROCESS, batch)
        assert applied.refused == {1: "insufficient_funds"}
        batch = Batch(holds=[hold(4, 60, 970), hold(5, 30, 970), hold(6, 5, 970)])
        applied = await apply(database, PROCESS, batch)
        assert applied.refused == {1: "spend_cap"}


async def test_free_delivery_is_no_refund(database_url: str) -> None:
    async with held(database_url, 1, 2) as database:
        free = [settle(1, 0, "success"), settle(2, 0, "error")]
        await apply(database, PROCESS, Batch(settlements=free))
        kinds = await database.fetch_all(
            "SELECT kind::text FROM entries WHERE kind IN ('settle', 'refund') ORDER BY call_id"
        )
        assert kinds == [("settle",), ("refund",)]


MANY = 3000
TABLES = ("accounts", "key_spend", "holds", "idempotency")
VACUUM = "; ".join(f"VACUUM ANALYZE {table}" for table in TABLES).split("; ")
# Nobody looks at the tables again: what is known of them is that they hold next to nothing.
FILL = f"""
INSERT INTO accounts (id, name) SELECT 'acct_' || n, 'n' FROM generate_series(1, {MANY}) n;
INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash)
SELECT 'key_' || n, 'acct_' || n, 'n', 'console', 'p', n::text::bytea
FROM generate_series(1, {MANY}) n;
INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call)
SELECT md5(n::text)::uuid, 'acct_1', 'key_1', 'proc_other', 10, '{{}}'
FROM generate_series(1, {MANY}) n;
INSERT INTO idempotency (account_id, key, fingerprint, call_id, expires_at)
SELECT 'acct_1', n::text, '', md5(n::text)::uuid, now() + interval '1 day'
FROM generate_series(1, {MANY}) n;
"""
CALLS = 10
# Index entries a call, of each table: its hold looked up, made and settled, and what guards them.
ENTRIES_MAX = 12 * CALLS


def submission(number: int) -> Hold:
    """A hold that claims a key and begins a job: what is looked at hold by hold."""
    job = NewJob(kind="video", request={}, price={}, quantity=1, deadline_seconds=60.0)
    claim = Claim(key=f"k{number}", fingerprint=b"one")
    who = facts(number, protocol="videos", job_id=f"vid_{number}")
    return replace(hold(number), facts=who, claim=claim, job=job)


async def entries_read(database: Database) -> Mapping[str, int]:
    """How many index entries have been read, by table."""
    rows = await database.fetch_all(
        "SELECT relname, sum(idx_tup_read)::bigint FROM pg_stat_user_indexes"
        " WHERE relname = ANY (%s) GROUP BY 1",
        (list(TABLES),),
    )
    return dict(rows)


async def run(session: Session, first: int, count: int) -> None:
    """Calls that are answered, and such that keep a response under a key."""
    numbers = range(first, first + count)
    plain = [hold(number) for number in numbers]
    claimed = [submission(number + count) for number in numbers]
    kept = KeptResponse(status=200, headers=(), body=b"{}")
    await apply(session, PROCESS, Batch(holds=plain))
    await apply(session, PROCESS, Batch(holds=claimed))
    await apply(session, PROCESS, Batch(settlements=[settle(n, 1) for n in numbers]))
    ended = [replace(settle(n + count, 1), claim_end=kept) for n in numbers]
    applied = await apply(session, PROCESS, Batch(settlements=ended))
    assert applied.unsettled == frozenset()
    await session.fetch_all("SELECT pg_stat_force_next_flush()")
    await session.execute("SELECT 1")


async def test_batch_planned_on_empty_tables_looks_up_what_it_is_about(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10**6)
        for statement in VACUUM:
            await database.execute(statement)
        session = await database.session()
        try:
            await run(session, 1, 1)
            await database.execute(FILL)
            before = await entries_read(database)
            await run(session, 100, CALLS)
            after = await entries_read(database)
        finally:
            await session.close()
    read = {table: after[table] - before[table] for table in TABLES}
    assert {table: count for table, count in read.items() if count > ENTRIES_MAX} == {}, read
