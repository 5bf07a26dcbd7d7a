"""Functions whose plans are kept look up what they are about, also if planned on empty tables."""

import json
from collections.abc import Callable, Mapping
from hashlib import md5
from typing import Any

import pytest

from actors.store.database import Database
from actors.store.session import Session
from gw.keys.store import SQL as KEYS

MANY = 3000
TABLES = ("accounts", "agents", "keys", "holds", "jobs", "job_polls")
# Nobody looks at the tables again: what is known of them is that they hold next to nothing. One in
# ten keys is an agent's, and one account has them all.
FILL = f"""
INSERT INTO accounts (id, name) SELECT 'acct_' || n, 'n' FROM generate_series(1, {MANY}) n;
INSERT INTO agents (id, account_id, name, user_name, system_prompt, web_search, image_generation,
    kbs)
SELECT 'agt_' || n, 'acct_1', 'n', 'n', 'p', false, false, '{{}}' FROM generate_series(1, {MANY}) n;
INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash, agent_id)
SELECT 'key_' || n, 'acct_1', 'n', 'console', 'p', n::text::bytea,
    CASE WHEN n % 10 = 0 THEN 'agt_' || n END
FROM generate_series(1, {MANY}) n;
INSERT INTO jobs (id, call_id, account_id, key_id, kind, protocol, model, request, billing,
    submitted_at, deadline_at)
SELECT 'vid_' || n, md5(n::text)::uuid, 'acct_1', 'key_1', 'video', 'videos', 'film', '{{}}',
    '{{}}', now(), now()
FROM generate_series(1, {MANY}) n;
INSERT INTO job_polls (job_id, kind, channel_id, due_at, deadline_at)
SELECT id, kind, 'studio', now(), now() FROM jobs WHERE id > 'vid_2';
INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call, job_id)
SELECT call_id, account_id, key_id, 'proc_other', 10, '{{}}', id FROM jobs;
"""
# More often than a plan is made for its arguments alone, where nothing says that it is kept.
OFTEN = 7
COUNT = 10
# Rows and index entries for each of them, of each table: found, locked, changed.
READ_MAX = 6 * COUNT

Params = Callable[[range], list[Any]]


def _hashes(numbers: range) -> list[Any]:
    return [{"lookup": [str(n).encode() for n in numbers], "legacy": [b"none"]}]


def _uses(numbers: range) -> list[Any]:
    return [{"ids": [f"key_{n}" for n in numbers], "seconds": [1e9 + n for n in numbers]}]


def _ends(numbers: range) -> list[Any]:
    ends = [
        {"id": f"vid_{n}", "call_id": _call(n), "state": "failed", "error_code": "x"}
        for n in numbers
    ]
    return [(json.dumps(ends),)]


def _acceptances(numbers: range) -> list[Any]:
    return [(f"vid_{n}", _call(n)) for n in numbers]


def _call(number: int) -> str:
    return md5(str(number).encode()).hexdigest()


STATEMENTS: Mapping[str, tuple[str, Params]] = {
    "keys found": (KEYS["find"], _hashes),
    "last uses": (KEYS["write_last_use"], _uses),
    "jobs ended": ("SELECT jobs_end(%s, '{}')", _ends),
    "jobs accepted": (
        "SELECT job_accept(%s, %s::uuid, 'studio', 'videos', 'film', 'up', '{}', 1.0, NULL)",
        _acceptances,
    ),
}


async def rows_read(session: Session) -> Mapping[str, int]:
    """How many rows, and index entries, have been read, by table."""
    await session.fetch_all("SELECT pg_stat_force_next_flush()")
    await session.execute("SELECT 1")
    rows = await session.fetch_all(
        "SELECT t.relname, (t.seq_tup_read + (SELECT sum(i.idx_tup_read)"
        " FROM pg_stat_user_indexes i WHERE i.relid = t.relid))::bigint"
        " FROM pg_stat_user_tables t WHERE t.relname = ANY (%s)",
        (list(TABLES),),
    )
    return dict(rows)


@pytest.mark.parametrize("name", STATEMENTS)
async def test_what_was_planned_on_empty_tables_reads_what_it_is_about(
    name: str, database_url: str
) -> None:
    sql, params = STATEMENTS[name]
    async with Database(database_url) as database:
        for table in TABLES:
            await database.execute(f"VACUUM ANALYZE {table}")
        session = await database.session()
        try:
            for _ in range(OFTEN):
                await session.fetch_all(sql, params(range(1, 2))[0])
            await database.execute(FILL)
            before = await rows_read(session)
            for one in params(range(100, 100 + COUNT)):
                await session.fetch_all(sql, one)
            after = await rows_read(session)
        finally:
            await session.close()
    read = {table: after[table] - before[table] for table in TABLES}
    assert sum(read.values()) >= COUNT
    assert {table: count for table, count in read.items() if count > READ_MAX} == {}, read
