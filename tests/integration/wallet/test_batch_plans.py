"""A batch reads what it is about, also where its plans were made while the tables were empty."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from actors.store.database import Database, Session
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Claim, Hold, KeptResponse, NewJob
from tests.integration.money import PROCESS, open_account
from tests.support.ledger_values import facts, hold, settle

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
    assert len(applied.settled) == count
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
