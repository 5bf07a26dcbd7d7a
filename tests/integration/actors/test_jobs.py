"""Holds that jobs have taken over, on a real database: whoever dies, they stand until they end."""

import asyncio
import subprocess
import sys

import msgspec
import pytest

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.job import Job
from actors.jobs.state_machine import ROW_STATUS
from actors.store.connection import Executor
from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.claims import Claim, ClaimEnd, KeptResponse
from actors.wallet.ledger import read_balance
from actors.wallet.messages import CallFacts, EndState, JobEnd, Outcome
from actors.wallet.rows import encode_settlement
from actors.wallet.verify import verify
from actors.wallet.wallets import HoldRefused, KeyTaken
from tests.integration.actors.process import (
    GONE,
    Process,
    age_holds,
    ledger_of,
    open_holds,
    process,
    process_ids,
    rows_of,
    silence,
)
from tests.integration.money import ACCOUNT, PROCESS
from tests.support.jobs import FILM, acceptance
from tests.support.logs import logs

JOB = "job_1"


async def begin(process: Process, job_id: str = JOB, claim: Claim | None = None) -> CallFacts:
    """A call begins a job, which takes over what it holds."""
    facts = await process.hold(100, job_id=job_id, claim=claim)
    assert await accept(process.database, facts)
    return facts


async def accept(database: Executor, facts: CallFacts, claim_end: ClaimEnd = None) -> bool:
    """An upstream has accepted the job of a call."""
    return await store.accept(
        database, facts, acceptance(), pause_seconds=60.0, claim_end=claim_end
    )


async def end(
    process: Process, facts: CallFacts, state: EndState, cost: int = 0, **detail: str
) -> None:
    """End a job in a state, in the name of a process."""
    outcome = Outcome(
        status=ROW_STATUS[state],
        cost_nano_usd=cost,
        created_at=SystemClock().now(),
        latency_ms=1,
        error_code=None if state == "succeeded" else f"task_{state}",
        detail=detail,
    )
    result = msgspec.to_builtins(FILM) if state == "succeeded" else None
    job_end = JobEnd(state=state, by=process.identity.id, result=result)
    process.wallets.settle(facts, outcome, job_end=job_end)
    await process.wallets.settled(ACCOUNT)


async def the_job(database: Database, job_id: str = JOB) -> Job:
    """It, as an operator sees it."""
    job = await store.read(database, job_id, account_id=None)
    assert job is not None
    return job


async def test_job_outlives_its_process_and_is_ended_by_another_once(database_url: str) -> None:
    async with ledger_of(database_url) as database:
        async with process(database_url, "proc_dead", pid=GONE) as dead:
            facts = await begin(dead)
        await silence(database, "proc_dead", 3600.0)
        await age_holds(database, 3600.0)
        gone = frozenset({GONE})
        async with (
            process(database_url, gone_pids=gone) as judge,
            process(database_url, "proc_other", gone_pids=gone) as other,
        ):
            assert await judge.recovery.sweep() == 0
            assert "proc_dead" not in await process_ids(database)
            assert (await verify(database)).faults == []
            assert await read_balance(database, ACCOUNT) == (10_000, 100)

            found = await store.read_open(database, JOB)
            assert found is not None
            assert (found.facts.call_id, found.amount_nano_usd) == (facts.call_id, 100)
            await end(other, found.facts, "succeeded", cost=130)
            await end(judge, facts, "expired")
            assert await store.read_open(database, JOB) is None
        assert await rows_of(database, facts.call_id) == [("success", None, 130)]
        assert await read_balance(database, ACCOUNT) == (10_000 - 130, 0)
        assert await store.read_end(database, JOB) == ("proc_other", "succeeded")
        assert await store.read_in_flight(database) == {}


@logs("calls_recovered")
async def test_killed_process_leaves_its_jobs_but_no_submission(database_url: str) -> None:
    holder = [sys.executable, "-m", "tests.integration.actors.job_holder", database_url]

    async with ledger_of(database_url) as database:
        with subprocess.Popen(holder, stdout=subprocess.PIPE) as child:  # noqa: ASYNC220
            try:
                assert child.stdout is not None
                assert await asyncio.to_thread(child.stdout.readline) == b"ready\n"
            finally:
                child.kill()
        async with process(database_url, gone_pids=frozenset({child.pid})) as judge:
            assert await judge.recovery.sweep() == 1
            failed = await the_job(database, "job_submitting")
            assert (failed.state, failed.error_code) == ("failed", "gateway_restarted")
            seen = await store.read(database, "job_submitting", account_id=ACCOUNT)
            assert seen is None  # its client was told of no job
            assert await rows_of(database, failed.call_id) == [
                ("interrupted", "gateway_restarted", 0)
            ]
            named = "SELECT task_id FROM call_logs WHERE request_id = %s"
            assert await database.fetch_all(named, (str(failed.call_id),)) == [(failed.id,)]
            found = await store.read_open(database, "job_begun")
            assert found is not None
            assert (await verify(database)).faults == []
            await end(judge, found.facts, "cancelled")
        assert await open_holds(database) == 0
        assert await read_balance(database, ACCOUNT) == (10_000, 0)


async def test_living_process_neither_ends_its_jobs_nor_waits_for_them(database_url: str) -> None:
    async with ledger_of(database_url) as database, process(database_url) as mine:
        await begin(mine)
        await age_holds(database, 3600.0)
        await mine.recovery.sweep()
        assert await open_holds(database) == 1
        assert await mine.heartbeat.open_holds() == 0
        assert await ledger.read_holds_summary(database) == ledger.HoldsSummary(
            0, 0.0, 0.0, 0.0, 0, 0, 0
        )
        assert await store.read_in_flight(database) == {"video": 1}


async def test_recovery_meeting_a_job_that_takes_over_leaves_its_hold(database_url: str) -> None:
    async with ledger_of(database_url) as database, process(database_url) as mine:
        facts = await mine.hold(100, job_id=JOB)
        outcome = Outcome(status="interrupted", cost_nano_usd=0, created_at=2.0, latency_ms=1)
        recovered = encode_settlement(facts, outcome, is_recovery=True)
        session = await database.session()
        try:
            async with session.transaction():
                assert await accept(session, facts)
                late = asyncio.ensure_future(
                    apply(database, PROCESS, Batch(settlements=[recovered]))
                )
                waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                while await mine.database.fetch_one(waits) == (0,):
                    await asyncio.sleep(0.01)
        finally:
            await session.close()
        applied = await late
        assert (applied.unsettled, applied.corrected) == (frozenset({facts.call_id}), frozenset())
        assert await store.read_open(database, JOB) is not None
        assert await rows_of(database, facts.call_id) == []


async def test_open_job_counts_for_its_keys_spend_cap(database_url: str) -> None:
    async with ledger_of(database_url), process(database_url) as mine:
        facts = await begin(mine)
        with pytest.raises(HoldRefused, match="spend_cap"):
            await mine.hold(100, cap=150)
        await end(mine, facts, "succeeded", cost=20)
        await mine.hold(100, cap=150)


RESPONSE = KeptResponse(status=200, headers=(("Content-Type", "application/json"),), body=b"{}")


@pytest.mark.parametrize(("response", "found"), [(None, "in_flight"), (RESPONSE, "stored")])
async def test_key_of_an_open_job_stays_taken(
    response: KeptResponse | None, found: str, database_url: str
) -> None:
    claim = Claim(key="k", fingerprint=b"f")

    async with ledger_of(database_url) as database, process(database_url) as mine:
        facts = await mine.hold(100, job_id=JOB, claim=claim)
        assert await accept(database, facts, response)
        await database.execute("UPDATE idempotency SET expires_at = expires_at - '1 h'::interval")
        with pytest.raises(KeyTaken, match=found):
            await mine.hold(100, claim=claim)


async def test_hold_without_a_process_or_a_job_is_found(database_url: str) -> None:
    async with ledger_of(database_url) as database, process(database_url) as mine:
        facts = await begin(mine)
        await database.execute("UPDATE holds SET job_id = 'job_none'")
        (fault,) = (await verify(database)).faults
        assert (fault["invariant"], fault["call"]) == ("hold_has_a_live_call", str(facts.call_id))
        await database.execute("UPDATE holds SET job_id = NULL")
        assert [f["invariant"] for f in (await verify(database)).faults] == ["hold_has_a_live_call"]
        await end(mine, facts, "expired")
