"""Jobs go with the months of the call log that are not kept; what they cost stays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from actors import partitions
from actors.partitions import Partitions
from actors.store.database import Database
from actors.wallet.verify import verify
from metrics.prometheus import Metrics
from tests.integration.actors.process import Process, process
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import open_account
from tests.support.clock import FakeClock

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


async def jobs_of(mine: Process) -> set[str]:
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
        assert await jobs_of(mine) == {*old, "vid_young", "vid_open"}
        await keeper(mine.database, MONTHS).round()
        assert await jobs_of(mine) == {"ava_ready", "vid_kept", "vid_young", "vid_open"}
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
        assert await jobs_of(mine) == {"vid_made"}
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
            left.append(len(await jobs_of(mine)))
        assert left == [1, 0]
        assert (await verify(mine.database)).faults == []
