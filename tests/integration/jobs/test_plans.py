"""With a hundred thousand jobs open, whoever looks for a few reads a few: plans, and pages read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from actors.jobs.store import SQL
from actors.process import SQL as PROCESSES
from actors.store.database import Database
from actors.wallet.ledger import SQL as LEDGER
from tests.support.jobs import CHANNEL

OPEN, ACCOUNTS = 100_000, 50
FILL = f"""
INSERT INTO jobs (id, call_id, account_id, kind, state, key_id, protocol, model, request, billing,
    submitted_at, deadline_at, channel_id, wire, upstream_model, upstream_id, submission,
    created_at)
SELECT 'vid_' || n, md5('call' || n)::uuid, 'acct_' || n % {ACCOUNTS}, 'video', 'queued', 'key_1',
    'videos', 'film', '{{}}', '{{}}', now(), now() + interval '1 day', '{CHANNEL}', 'videos',
    'film', 'up_' || n, '{{}}', now() - make_interval(secs => n)
FROM generate_series(1, {OPEN}) n;
INSERT INTO job_polls (job_id, kind, channel_id, due_at, deadline_at)
SELECT id, kind, channel_id, now() - make_interval(secs => random() * 60), deadline_at FROM jobs;
INSERT INTO holds (call_id, account_id, key_id, amount_nano_usd, call, job_id)
SELECT call_id, account_id, key_id, 10, '{{}}', id FROM jobs;
INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call)
SELECT md5('plain' || n)::uuid, 'acct_1', 'key_1', 'proc_a', 10, '{{}}'
FROM generate_series(1, 50) n;
"""

# What each statement may read at most, in pages of 8 kB: what it is about, and the way there.
LEASE = {"lease": "p/1", "seconds": 15.0, "limit": 32}
STATEMENTS: list[tuple[str, str, Any, int]] = [
    ("claim", SQL["claim"], {**LEASE, "channels": [CHANNEL, "other"], "counts": [32, 32]}, 2000),
    ("gone", SQL["gone_channels"], ([],), 20),
    (
        "book",
        SQL["book"],
        {
            "ids": [f"vid_{n}" for n in range(1, 33)],
            "leases": ["p/0"] * 32,
            "pauses": [15.0] * 32,
            "failures": [0] * 32,
            "not_found": [0] * 32,
            "unknown": [False] * 32,
            "states": ["running"] * 32,
            "progress": [1] * 32,
        },
        500,
    ),
    (
        "of_account",
        SQL["of_account"],
        {
            "account": "acct_1",
            "kind": "video",
            "states": ["queued", "running", "succeeded", "failed"],
            "limit": 100,
            "before": None,
        },
        800,
    ),
    ("quiet", SQL["quiet"], (0.25, [CHANNEL, "other"]), 150),
    ("open", SQL["open"], ("vid_77",), 30),
    (
        "newest",
        SQL["newest"],
        {"account": None, "kind": None, "state": None, "before": None, "limit": 100},
        300,
    ),
    ("holds_of", PROCESSES["holds_of"], ("proc_a",), 80),
    ("old_holds_of", PROCESSES["old_holds_of"], ("proc_a", 60.0), 80),
    ("orphans", PROCESSES["orphans"], (10.0,), 80),
    ("summary", LEDGER["holds_summary"], (), 80),
]


async def fill(database: Database) -> None:
    await database.execute(FILL)
    await database.execute("ANALYZE jobs; ANALYZE job_polls; ANALYZE holds")


async def pages(database: Database, sql: str, params: Mapping[str, Any] | tuple[Any, ...]) -> int:
    """How many pages a statement reads, run once; it leaves nothing behind."""
    session = await database.session()
    try:
        await session.execute("BEGIN")
        plan = await session.fetch_all(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {sql}", params)
        await session.execute("ROLLBACK")
    finally:
        await session.close()
    text = "\n".join(line for (line,) in plan)
    assert not re.search(r"Seq Scan on (jobs|job_polls|holds)\b", text), text
    top = re.search(r"Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?", text)
    assert top is not None, text
    return sum(int(count or 0) for count in top.groups())


async def test_statements_read_what_they_are_about_and_no_table_as_a_whole(
    database_url: str,
) -> None:
    async with Database(database_url, statement_seconds=300.0) as database:
        await fill(database)
        read = {name: await pages(database, sql, params) for name, sql, params, _ in STATEMENTS}
    most = {name: limit for name, *_, limit in STATEMENTS}
    assert {name: count for name, count in read.items() if count > most[name]} == {}, read
