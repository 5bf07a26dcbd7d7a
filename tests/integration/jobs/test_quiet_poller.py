"""A process that has nothing to poll leaves the database alone, and is late for nothing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.changes import CHANGES_CHANNEL
from actors.jobs import store
from actors.jobs.job import Schedule, Watch
from actors.jobs.store import Booked
from tests.integration.jobs.polling import NEVER, Watched, is_due, watched
from tests.integration.money import open_account
from tests.support.aio import eventually, jump
from tests.support.jobs import CHANNEL, polled
from tests.support.upstreams import ScriptedUpstreams

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
    async with (
        sleeping(database_url, monkeypatch) as (idle, found),
        watched(database_url) as other,
    ):
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
            other.database, shares={CHANNEL: 1}, limit=1, lease="proc_a/1", lease_seconds=3600.0
        )
        async with sleeping(database_url, monkeypatch) as (idle, found):
            assert found == [0.0]
            seen = Booked(claimed=claimed, watch=Watch(state="running"), pause_seconds=0.0)
            await store.book(other.database, [seen])
            assert (await idle.ended(job)).state == "succeeded"
