"""The poller of jobs on a real PostgreSQL."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from actors.changes import CHANGES_CHANNEL
from actors.jobs import store
from actors.jobs.schedule import Schedule
from actors.jobs.state_machine import (
    Cancel,
    End,
    Observation,
    TimedOut,
    Unreachable,
    Watch,
    observe,
)
from actors.jobs.store import Booked
from actors.store.database import Database
from actors.wallet.ledger import read_balance
from actors.wallet.verify import verify
from channels.media.replies import RateLimited, Trouble
from channels.media.values import MILLISECONDS_MAX
from loadtests.rig.postgres import PostgresForTests
from tests.integration.actors.process import ledger_of, rows_of
from tests.integration.jobs.polling import NEVER, Watched, is_due, watched
from tests.integration.money import ACCOUNT, open_account
from tests.support.aio import eventually, jump
from tests.support.jobs import CHANNEL, FILM, polled
from tests.support.logs import ExpectLog, logs
from tests.support.upstreams import ScriptedUpstreams

USD = 1_000_000_000
MONEY = 100 * USD


@asynccontextmanager
async def ledger(url: str) -> AsyncIterator[Database]:
    """An account with 100 USD; in the end everything must add up, costs included."""
    async with ledger_of(url, MONEY) as database:
        yield database
        assert (await verify(database, with_costs=True)).faults == []


def end_by(seen: Observation) -> End:
    """The end that an observation makes of a job that runs."""
    end = observe("video", Watch(state="running"), seen, is_overdue=False).end
    assert end is not None
    return end


def succeeded_of(process: Watched) -> float:
    """How many jobs a process says it has brought to a good end."""
    _, _, rest = process.metrics.render("")[0].decode().partition('status="succeeded"} ')
    return float(rest.split("\n")[0] or 0)


async def test_film_is_paid_by_the_second_that_was_made_and_its_row_says_so(
    database_url: str,
) -> None:
    upstreams = ScriptedUpstreams()
    async with ledger(database_url) as database, watched(database_url, upstreams) as mine:
        job = await mine.submit(price={"per_second": "0.1", "multiplier": "0.6"})
        upstreams.say(
            job.upstream_id or "",
            polled("queued"),
            polled("running", progress=40),
            polled("queued", progress=60),
        )
        async with mine.polling():
            running = await mine.until(job, lambda one: one.progress == 60)
            assert running.state == "running"  # never back
            made = polled("succeeded", seconds_ms=8_046)
            upstreams.scripts[job.upstream_id or ""] = deque([made])
            done = await mine.ended(job)
        assert (done.state, done.error_code) == ("succeeded", None)
        assert done.result == msgspec.structs.replace(FILM, milliseconds=8_046)
        cost = 482_760_000  # 8.046 x 0.1 x 0.6
        assert await read_balance(database, ACCOUNT) == (MONEY - cost, 0)
        assert await rows_of(database, job.call_id) == [("success", None, cost)]
        columns = "unit_count, unit_type, task_id, result_urls::text, latency_ms >= 0"
        row = await database.fetch_one(f"SELECT {columns} FROM call_logs")
        assert row == (8, "video", job.id, '["https://cdn.example/film.mp4"]', True)
        assert upstreams.cancelled == []


@logs("task_length_doubted")
async def test_film_of_a_length_that_no_film_has_costs_its_hold_and_an_operator_learns_it(
    database_url: str,
) -> None:
    held = 30_000_000_000  # 300 x 0.1
    upstreams = ScriptedUpstreams()
    async with ledger(database_url) as database, watched(database_url, upstreams) as mine:
        job = await mine.submit(amount=held, quantity=10_000, held=300_000)
        upstreams.say(job.upstream_id or "", polled("succeeded", seconds_ms=MILLISECONDS_MAX))
        async with mine.polling():
            done = await mine.ended(job)
            assert done.result == msgspec.structs.replace(FILM, milliseconds=300_000)
            assert await rows_of(database, job.call_id) == [("success", None, held)]
            assert await read_balance(database, ACCOUNT) == (MONEY - held, 0)
            result = f'gw_task_lengths_doubted_total{{channel="{CHANNEL}"}} 1.0'
            await eventually(lambda: result in mine.metrics.render("")[0].decode())


async def test_trouble_on_the_way_ends_nothing_and_is_logged_now_and_then(
    database_url: str, expect_log: ExpectLog
) -> None:
    for _ in range(3):  # the first, the tenth and the twentieth in a row
        expect_log("task_poll_failed")
    expect_log("task_status_unknown")  # once
    upstreams = ScriptedUpstreams()
    silence = (Trouble(reason="500", status=500), Unreachable(reason="no"), TimedOut())
    async with ledger(database_url), watched(database_url, upstreams) as mine:
        job = await mine.submit()
        odd = [polled(None), polled(None)]
        wait = RateLimited(retry_after_seconds=0.01)
        upstreams.say(job.upstream_id or "", *odd, *silence * 6, wait, wait, polled("succeeded"))
        async with mine.polling():
            assert (await mine.ended(job)).state == "succeeded"


async def test_deadline_is_one_last_poll_and_then_a_cancellation_at_the_upstream(
    database_url: str,
) -> None:
    upstreams = ScriptedUpstreams()
    async with ledger(database_url) as database, watched(database_url, upstreams) as mine:
        late = await mine.submit(deadline_seconds=0.05)
        lucky = await mine.submit(deadline_seconds=0.05)
        upstreams.say(lucky.upstream_id or "", polled("succeeded"))
        await asyncio.sleep(0.06)
        async with mine.polling():
            expired, done = await mine.ended(late), await mine.ended(lucky)
            while not upstreams.cancelled:
                await asyncio.sleep(0.01)
        assert (expired.state, expired.error_code) == ("expired", "task_expired")
        assert done.state == "succeeded"
        assert upstreams.cancelled == [late.upstream_id]
        assert await rows_of(database, late.call_id) == [("interrupted", "task_expired", 0)]


async def test_job_of_a_channel_that_is_gone_waits_for_it_until_its_deadline(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.jobs.poller.GONE_SECONDS", 0.05)
    upstreams = ScriptedUpstreams("other")
    async with ledger(database_url), watched(database_url, upstreams) as mine:
        waiting = await mine.submit()
        overdue = await mine.submit(deadline_seconds=0.05)
        upstreams.say(overdue.upstream_id or "", TimedOut())
        async with mine.polling():
            ended = await mine.ended(overdue)
            assert (ended.state, ended.error_code) == ("expired", "task_expired")
            assert (await mine.read(waiting.id)).state == "queued"
            upstreams.channels = ("other", CHANNEL)
            upstreams.say(waiting.upstream_id or "", polled("succeeded"))
            assert (await mine.ended(waiting)).state == "succeeded"


async def test_two_processes_share_what_is_due_and_end_each_job_once(database_url: str) -> None:
    upstreams = ScriptedUpstreams()
    async with (
        ledger(database_url) as database,
        watched(database_url, upstreams, name="proc_a") as one,
        watched(database_url, upstreams, name="proc_b") as other,
    ):
        jobs = [await one.submit(amount=10) for _ in range(60)]
        for job in jobs:
            upstreams.say(job.upstream_id or "", polled("running"), polled("succeeded"))
        upstreams.gate = asyncio.Event()
        async with one.polling(), other.polling():
            while upstreams.waiting < 16:  # of either as many as it may have under way
                await asyncio.sleep(0.01)
            assert len(set(upstreams.requested)) == 16
            upstreams.gate.set()
            upstreams.gate = None
            for job in jobs:
                assert (await one.ended(job)).state == "succeeded"
            # A state is there before whoever brought it has counted it.
            while succeeded_of(one) + succeeded_of(other) < 60.0:
                await asyncio.sleep(0.01)
        assert max(upstreams.requested.count(job.upstream_id or "") for job in jobs) == 2
        counts = [succeeded_of(one), succeeded_of(other)]
        assert sum(counts) == 60.0
        assert min(counts) > 0
        assert await store.read_in_flight(database) == {}


async def test_poll_that_its_process_never_finished_is_taken_over_and_its_late_word_is_dropped(
    database_url: str,
) -> None:
    stuck, quick = ScriptedUpstreams(), ScriptedUpstreams()
    stuck.gate = asyncio.Event()
    async with (
        ledger(database_url),
        watched(database_url, stuck, name="proc_a", schedule=NEVER, claim_seconds=0.2) as slow,
        watched(database_url, quick, name="proc_b", schedule=NEVER) as other,
    ):
        job = await slow.submit()
        upstream_id = job.upstream_id or ""
        stuck.say(upstream_id, polled("running", progress=10))
        quick.say(upstream_id, polled("running", progress=90))
        await is_due(slow.database, job)
        async with slow.polling():
            while not stuck.waiting:
                await asyncio.sleep(0.01)
            async with other.polling():
                seen = await other.until(job, lambda one: one.progress is not None)
            assert seen.progress == 90
            stuck.gate.set()
            while stuck.waiting or len(slow.poller.mailbox) or slow.poller._unbooked:
                await asyncio.sleep(0.01)
            assert "gw_task_takeovers_total 1.0" in other.metrics.render("")[0].decode()
        assert (await slow.read(job.id)).progress == 90
        (row,) = await slow.database.fetch_all("SELECT polls, leased_by FROM job_polls")
        assert row == (1, None)


async def test_end_that_comes_late_is_booked_and_whoever_comes_second_changes_nothing(
    database_url: str,
) -> None:
    stuck, quick = ScriptedUpstreams(), ScriptedUpstreams()
    stuck.gate = asyncio.Event()
    async with (
        ledger(database_url) as database,
        watched(database_url, stuck, name="proc_a", schedule=NEVER, claim_seconds=0.2) as slow,
        watched(database_url, quick, name="proc_b", schedule=NEVER) as other,
    ):
        job = await slow.submit()
        upstream_id = job.upstream_id or ""
        stuck.say(upstream_id, polled("succeeded", seconds_ms=5000))
        quick.say(upstream_id, polled("running"))
        await is_due(database, job)
        async with slow.polling():
            while not stuck.waiting:
                await asyncio.sleep(0.01)
            async with other.polling():
                await other.until(job, lambda one: one.state == "running")
            stuck.gate.set()
            done = await slow.ended(job)
        assert done.state == "succeeded"
        assert await other.endings.end(job.id, end_by(Cancel())) is None
        assert quick.cancelled == []
        assert await rows_of(database, job.call_id) == [("success", None, USD // 2)]


async def test_cancellation_and_success_at_once_end_the_job_once(database_url: str) -> None:
    upstreams = ScriptedUpstreams()
    cancel, success = end_by(Cancel()), end_by(polled("succeeded"))
    async with (
        ledger(database_url) as database,
        watched(database_url, upstreams, name="proc_a") as one,
        watched(database_url, upstreams, name="proc_b") as other,
    ):
        for _ in range(10):
            job = await one.submit()
            ended = await asyncio.gather(
                one.endings.end(job.id, cancel), other.endings.end(job.id, success)
            )
            (first,) = (found for found in ended if found is not None)
            assert first.state == (await one.read(job.id)).state
            assert len(await rows_of(database, job.call_id)) == 1
        assert len(upstreams.cancelled) == sum(
            row[0]
            for row in await database.fetch_all(
                "SELECT count(*) FROM jobs WHERE state = 'cancelled'"
            )
        )


@logs("task_poll_failed", required=False)
async def test_channel_that_does_not_answer_keeps_no_other_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.jobs.poller.SILENT_SECONDS", 0.0)
    upstreams = ScriptedUpstreams("silent", "well")
    async with ledger(database_url), watched(database_url, upstreams, concurrency=8) as mine:
        probe = await mine.submit(channel="silent")
        upstreams.say(probe.upstream_id or "", TimedOut())
        async with mine.polling():
            while not mine.poller._polls.is_silent("silent"):
                await asyncio.sleep(0.01)
            gate = upstreams.gate = asyncio.Event()
            for _ in range(20):
                await mine.submit(channel="silent", amount=10)
            while upstreams.waiting < 1:
                await asyncio.sleep(0.01)
            upstreams.gate = None
            job = await mine.submit(channel="well", amount=10)
            upstreams.say(job.upstream_id or "", polled("succeeded"))
            assert (await mine.ended(job)).state == "succeeded"
            assert upstreams.waiting == 1  # an eighth of what may be under way
            gate.set()


FOREVER = 1e9
BALANCE = 10**12
SOON = Schedule(first_seconds=1.0, factor=1.0, max_seconds=1.0)


@asynccontextmanager
async def sleeping(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Watched, list[float | None]]]:
    """A process whose poller sleeps until something is due; and what it found out of that."""
    found: list[float | None] = []
    read = store.read_quiet_seconds

    async def noted(*arguments: Any, **options: Any) -> float | None:
        found.append(await read(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(store, "read_quiet_seconds", noted)
    upstreams = ScriptedUpstreams()
    upstreams.scripts = defaultdict(lambda: deque([polled("succeeded", seconds_ms=5_000)]))
    async with (
        watched(url, upstreams, name="proc_idle", quiet_seconds=FOREVER) as idle,
        idle.polling(),
    ):
        await eventually(lambda: bool(found), what="the first look")
        yield idle, found


async def test_process_without_jobs_looks_once_and_is_woken_by_one_of_another_process(
    monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    async with sleeping(database_url, monkeypatch) as (idle, found), watched(database_url) as other:
        await open_account(other.database, BALANCE)
        listener = await idle.database.listen(
            CHANGES_CHANNEL,
            lambda payload: idle.changed.set() if payload.startswith("job:") else None,
            idle.changed.set,
        )
        for _ in range(5):  # many a tick later
            jump(1.0)
            assert await idle.database.fetch_one("SELECT 1") == (1,)
        assert found == [None]
        ended = await idle.ended(await other.submit())
        await listener.close()
    assert ended.state == "succeeded"


async def test_what_is_known_to_be_due_is_polled_then(
    monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    async with watched(database_url, schedule=SOON) as other:
        await open_account(other.database, BALANCE)
        job = await other.submit()
        async with sleeping(database_url, monkeypatch) as (idle, found):
            assert found[0] is not None
            assert 0 < found[0] <= 1.5  # with what the schedule adds by chance
            assert (await idle.ended(job)).state == "succeeded"


async def test_while_another_polls_nobody_sleeps(
    monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    """What it books may be due before anything that was known."""
    async with watched(database_url, schedule=NEVER) as other:
        await open_account(other.database, BALANCE)
        job = await other.submit()
        await is_due(other.database, job)
        (claimed,) = await store.claim(
            other.database, shares={CHANNEL: 1}, limit=1, claim_id="proc_a/1", claim_seconds=3600.0
        )
        async with sleeping(database_url, monkeypatch) as (idle, found):
            assert found == [0.0]
            seen = Booked(claimed=claimed, watch=Watch(state="running"), pause_seconds=0.0)
            await store.book(other.database, [seen])
            assert (await idle.ended(job)).state == "succeeded"


@logs("task_poll_refused")
async def test_poll_whose_result_is_refused_keeps_no_other_waiting(database_url: str) -> None:
    upstreams = ScriptedUpstreams()
    async with ledger(database_url) as database, watched(database_url, upstreams) as mine:
        refused, sound = [await mine.submit() for _ in range(2)]
        await database.execute(
            f"ALTER TABLE job_polls ADD CONSTRAINT c CHECK (job_id <> '{refused.id}' OR polls < 1)"
        )
        upstreams.say(refused.upstream_id or "", polled("queued"))
        made = polled("succeeded", seconds_ms=1_000)
        upstreams.say(sound.upstream_id or "", polled("queued"), polled("queued"), made)
        async with mine.polling():
            await mine.until(sound, lambda one: one.state == "succeeded")
        assert (await mine.read(refused.id)).state == "queued"


async def test_jobs_are_polled_on_when_the_database_is_back(
    postgres: PostgresForTests,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    expect_log: ExpectLog,
) -> None:
    monkeypatch.setattr("actors.jobs.poller.BACKOFF_SECONDS", 0.05)
    expect_log("tasks_postponed")
    for action in ("ledger_unreachable", "database_lost", "heartbeat_missed"):
        expect_log(action, required=False)
    upstreams = ScriptedUpstreams()
    upstreams.gate = asyncio.Event()
    with postgres.database() as url:
        async with (
            ledger_of(url, 100 * USD) as database,
            # Nobody polls a second time what is still being polled, however long that takes.
            watched(url, upstreams, claim_seconds=3600.0) as mine,
            mine.polling(),
        ):
            jobs = [await mine.submit(amount=USD) for _ in range(12)]
            for job in jobs:
                upstreams.say(job.upstream_id or "", polled("running"), polled("succeeded"))
            while upstreams.waiting < 8:  # as many as may be under way
                await asyncio.sleep(0.01)
            with postgres.away(url):
                upstreams.gate.set()
                upstreams.gate = None
                while len(mine.poller.mailbox) + len(mine.poller._unbooked) < 8:
                    await asyncio.sleep(0.01)
                while postponements(caplog) < 3:  # it tries to book them, again and again
                    await asyncio.sleep(0.01)
            for job in jobs:
                assert (await mine.ended(job)).state == "succeeded"
            assert await read_balance(database, ACCOUNT) == (100 * USD - 12 * USD // 2, 0)


def postponements(caplog: pytest.LogCaptureFixture) -> int:
    """How often the poller has said that it has to wait for the database."""
    actions = [getattr(record, "action", None) for record in caplog.records]
    return actions.count("tasks_postponed")
