"""Jobs go with the months of the call log that are not kept; what they cost stays."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from actors import partitions
from actors.jobs.state_machine import Cancel, Watch, observe
from actors.jobs.store import SQL
from actors.partitions import Partitions
from actors.process import SQL as PROCESSES
from actors.store.database import Database
from actors.wallet.ledger import SQL as LEDGER
from actors.wallet.rows import encode_void
from actors.wallet.verify import verify
from metrics.prometheus import Metrics
from tests.integration.actors.process import Process, process
from tests.integration.jobs.polling import NEVER, Watched, watched
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import open_account
from tests.support.clock import FakeClock
from tests.support.jobs import CHANNEL, polled

MONTHS = 3
OLD = "2024-03-15 12:00:00+00"
AVATAR = "UPDATE jobs SET kind = 'avatar' WHERE id = %s"
COPY = (
    "INSERT INTO media_copies (id, job_id, position, store, channel_id, wire, upstream_id,"
    " content_type, state) VALUES (%s || '-0', %s, 0, 'local', 'one', 'videos', 'u', 'video/mp4',"
    " %s::media_copy_state)"
)


def keeper(database: Database, months: int | None) -> Partitions:
    clock = FakeClock()
    clock.advance(datetime.now(UTC).timestamp() - clock.now())
    return Partitions(
        database=database, retention_months=lambda: months, clock=clock, metrics=Metrics()
    )


async def kept_jobs_of(mine: Process) -> set[str]:
    return {name for (name,) in await mine.database.fetch_all("SELECT id FROM jobs")}


async def age(mine: Process, *names: str) -> None:
    """Have these jobs, and their rows, be of a month long ago."""
    await mine.database.execute(
        "UPDATE jobs SET created_at = %s, submitted_at = %s, ended_at = %s WHERE id = ANY (%s)",
        (OLD, OLD, OLD, list(names)),
    )


async def make(mine: Process, names: Sequence[str]) -> None:
    await open_account(mine.database, 10_000_000_000)
    for name in names:
        await ended(mine, name, failed() if name == "vid_failed" else made("https://a.example/f"))


async def test_old_jobs_are_purged_and_their_money_is_not(database_url: str) -> None:
    old = ("vid_made", "vid_failed", "ava_deleted", "vid_dropped", "vid_kept", "ava_ready")
    async with process(database_url) as mine:
        await make(mine, (*old, "vid_young"))
        await mine.hold(10, job_id="vid_open")
        for name in ("ava_ready", "ava_deleted"):
            await mine.database.execute(AVATAR, (name,))
        await mine.database.execute("UPDATE jobs SET deleted_at = now() WHERE id = 'ava_deleted'")
        for name, state in (("vid_kept", "kept"), ("vid_dropped", "dropped")):
            await mine.database.execute(COPY, (name, name, state))
        await age(mine, *old)
        await mine.database.execute("UPDATE jobs SET created_at = %s WHERE id = 'vid_open'", (OLD,))
        sums = "SELECT count(*), sum(amount_nano_usd) FROM entries"
        before = await mine.database.fetch_one(sums)
        await keeper(mine.database, None).round()
        assert await kept_jobs_of(mine) == {*old, "vid_young", "vid_open"}
        await keeper(mine.database, MONTHS).round()
        assert await kept_jobs_of(mine) == {"ava_ready", "vid_kept", "vid_young", "vid_open"}
        copies = await mine.database.fetch_all("SELECT job_id FROM media_copies")
        assert copies == [("vid_kept",)]
        assert await mine.database.fetch_one(sums) == before


async def test_a_job_whose_answer_is_replayed_stays(database_url: str) -> None:
    async with process(database_url) as mine:
        await make(mine, ["vid_made"])
        await age(mine, "vid_made")
        await mine.database.execute(
            "INSERT INTO idempotency (account_id, key, call_id, fingerprint, state, expires_at)"
            " SELECT account_id, 'k', call_id, '', 'too_large', now() + interval '1 hour' FROM jobs"
        )
        await keeper(mine.database, MONTHS).round()
        assert await kept_jobs_of(mine) == {"vid_made"}
        assert (await verify(mine.database)).faults == []


async def test_a_round_deletes_so_many_and_leaves_the_rest_to_the_next(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "PURGED_JOBS_MAX", 2)
    monkeypatch.setattr(partitions, "PURGES_MAX", 2)
    names = [f"vid_{number}" for number in range(5)]
    async with process(database_url) as mine:
        await make(mine, names)
        await age(mine, *names)
        left = []
        for _ in range(2):
            await keeper(mine.database, MONTHS).round()
            left.append(len(await kept_jobs_of(mine)))
        assert left == [1, 0]
        assert (await verify(mine.database)).faults == []


POLL, ROW = "job_has_its_hold_and_its_poll", "job_agrees_with_its_row"
DUE = "poll_is_due"
# Of a job that is being submitted, one that is open, one that was cancelled, one that succeeded.
INCONSISTENCIES = [
    ("DELETE FROM job_polls", POLL),
    (
        "INSERT INTO job_polls SELECT 'vid_none', kind, channel_id, now(), NULL, now() FROM jobs"
        " WHERE state = 'queued'",
        POLL,
    ),
    ("UPDATE job_polls SET job_id = (SELECT id FROM jobs WHERE state = 'succeeded')", POLL),
    ("UPDATE jobs SET state = 'failed', ended_at = now() WHERE state = 'queued'", POLL),
    ("UPDATE jobs SET state = 'running', ended_at = NULL WHERE state = 'cancelled'", POLL),
    ("UPDATE holds SET process_id = NULL", POLL),
    ("UPDATE holds SET process_id = 'proc_a'", POLL),
    ("DELETE FROM holds WHERE process_id IS NULL", POLL),
    ("UPDATE job_polls SET due_at = 'infinity'", DUE),
    ("UPDATE job_polls SET deadline_at = 'infinity', due_at = 'infinity'", DUE),
    (
        "WITH job AS (UPDATE jobs SET deadline_at = 'infinity')"
        " UPDATE job_polls SET deadline_at = 'infinity', due_at = 'infinity'",
        DUE,
    ),
    ("UPDATE jobs SET key_id = 'other'", "call_is_of_one_key"),
    ("UPDATE jobs SET state = 'expired' WHERE state = 'succeeded'", ROW),
    ("UPDATE jobs SET state = 'succeeded' WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET error_code = 'other' WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET error_code = NULL WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET result = NULL WHERE state = 'succeeded'", ROW),
    ("UPDATE call_logs SET status = 'success' WHERE status = 'interrupted'", ROW),
    ("UPDATE call_logs SET task_id = NULL", ROW),
    ("DELETE FROM call_logs WHERE status = 'interrupted'", ROW),
]


async def made_jobs(mine: Watched) -> None:
    """A job of each sort."""
    for seen in (polled("succeeded"), Cancel()):
        job = await mine.submit()
        end = observe("video", Watch(), seen, is_overdue=False).end
        assert end is not None
        assert await mine.endings.end(job.id, end) is not None
    await mine.submit()
    await mine.process.hold(10, job_id="vid_submitting")


@pytest.mark.parametrize(("inconsistency", "invariant"), INCONSISTENCIES)
async def test_what_disagrees_is_found(
    inconsistency: str, invariant: str, database_url: str
) -> None:
    async with watched(database_url, schedule=NEVER) as mine:
        await open_account(mine.database, 10_000_000_000)
        await made_jobs(mine)
        assert (await verify(mine.database)).faults == []
        assert await mine.database.execute(inconsistency) > 0
        found = {fault["invariant"] for fault in (await verify(mine.database)).faults}
        assert invariant in found


async def test_job_that_was_never_accepted_needs_no_row(database_url: str) -> None:
    """Its call has one of its own, which says what its client was told."""
    async with process(database_url, "proc_a") as mine:
        await open_account(mine.database, 10_000)
        facts = await mine.hold(100, job_id="vid_1")
        mine.writer.tell(encode_void(facts))
        await mine.wallets.settled(facts.account_id)
        row = await mine.database.fetch_one("SELECT state::text, error_code FROM jobs")
        assert row == ("failed", "not_submitted")
        assert (await verify(mine.database)).faults == []


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
CLAIM = {"claim_id": "p/1", "seconds": 15.0, "limit": 32}
STATEMENTS: list[tuple[str, str, Any, int]] = [
    ("claim", SQL["claim"], {**CLAIM, "channels": [CHANNEL, "other"], "counts": [32, 32]}, 2000),
    ("gone", SQL["gone_channels"], ([],), 20),
    (
        "book",
        SQL["book"],
        {
            "ids": [f"vid_{n}" for n in range(1, 33)],
            "claim_ids": ["p/0"] * 32,
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
