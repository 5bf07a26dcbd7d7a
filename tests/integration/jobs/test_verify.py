"""`gw ledger verify` finds each way in which a job, its hold, its poll and its row may disagree."""

from __future__ import annotations

import pytest

from actors.jobs.job import Cancel, Watch, observe
from actors.wallet.verify import verify
from tests.integration.actors.process import process
from tests.integration.jobs.polling import NEVER, Watched, watched
from tests.integration.money import open_account
from tests.support.jobs import polled

POLL, ROW = "job_has_its_hold_and_its_poll", "job_agrees_with_its_row"
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
    ("UPDATE jobs SET state = 'expired' WHERE state = 'succeeded'", ROW),
    ("UPDATE jobs SET state = 'succeeded' WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET error_code = 'other' WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET error_code = NULL WHERE state = 'cancelled'", ROW),
    ("UPDATE jobs SET result = NULL WHERE state = 'succeeded'", ROW),
    ("UPDATE call_logs SET status = 'success' WHERE status = 'interrupted'", ROW),
    ("UPDATE call_logs SET task_id = NULL", ROW),
    ("DELETE FROM call_logs WHERE status = 'interrupted'", ROW),
]


async def made(mine: Watched) -> None:
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
        await made(mine)
        assert (await verify(mine.database)).faults == []
        assert await mine.database.execute(inconsistency) > 0
        found = {fault["invariant"] for fault in (await verify(mine.database)).faults}
        assert invariant in found


async def test_job_that_was_never_accepted_needs_no_row(database_url: str) -> None:
    """Its call has one of its own, which says what its client was told."""
    async with process(database_url, "proc_a") as mine:
        await open_account(mine.database, 10_000)
        facts = await mine.hold(100, job_id="vid_1")
        mine.wallets.void(facts)
        await mine.wallets.settled(facts.account_id)
        row = await mine.database.fetch_one("SELECT state::text, error_code FROM jobs")
        assert row == ("failed", "not_submitted")
        assert (await verify(mine.database)).faults == []
