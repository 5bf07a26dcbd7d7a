"""A database that goes away while jobs are polled: nothing is lost, and nothing ends twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from actors.wallet.ledger import read_balance
from tests.integration.actors.process import ledger_of
from tests.integration.jobs.polling import watched
from tests.integration.money import ACCOUNT
from tests.support.jobs import polled
from tests.support.postgres import PostgresForTests
from tests.support.upstreams import ScriptedUpstreams

USD = 1_000_000_000


async def test_jobs_are_polled_on_when_the_database_is_back(
    postgres: PostgresForTests,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    expect_log: Callable[..., None],
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
            watched(url, upstreams, lease_seconds=3600.0) as mine,
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
