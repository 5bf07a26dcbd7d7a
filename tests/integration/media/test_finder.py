"""What tasks have made is found by their rows, once, by any process."""

from __future__ import annotations

from pathlib import Path

from actors.clock import SystemClock
from actors.jobs import store as jobs
from actors.media_store.finder import Finder
from actors.media_store.folder import Folder
from actors.store.database import Database
from actors.wallet.jobs import EndState, JobEnd
from actors.wallet.messages import Outcome
from channels.media.replies import TaskResult, VideoResult
from tests.integration.actors.process import Process, process
from tests.integration.media.copying import storing
from tests.integration.money import ACCOUNT, open_account
from tests.support.jobs import acceptance


async def ended(
    mine: Process, job_id: str, *, state: EndState = "succeeded", url: str | None = "https://a.b/c"
) -> None:
    """A job that ends so."""
    facts = await mine.hold(100, job_id=job_id)
    assert await jobs.accept(mine.database, facts, acceptance(), pause_seconds=60.0)
    result: TaskResult | None = VideoResult(url=url) if state == "succeeded" else None
    outcome = Outcome(
        status="success", cost_nano_usd=1, created_at=SystemClock().now(), latency_ms=1, detail={}
    )
    mine.wallets.settle(facts, outcome, job_end=JobEnd(state=state, by="proc", result=result))
    await mine.wallets.settled(ACCOUNT)


async def found(database: Database) -> list[tuple[str, str | None, str]]:
    rows = await database.fetch_all("SELECT id, url, state::text FROM media_copies ORDER BY id")
    return [(row[0], row[1], row[2]) for row in rows]


async def test_what_has_succeeded_is_found_once(database_url: str, data_dir: Path) -> None:
    async with (
        storing(database_url, Folder(data_dir)) as store,
        process(database_url) as mine,
    ):
        await open_account(store.database, 10_000)
        finder = Finder(store.database, store.copies)
        assert not await finder.find()
        await ended(mine, "vid_1")
        await ended(mine, "vid_2", url=None)
        await ended(mine, "vid_3", state="failed")
        await finder.find()
        await finder.find()
        assert await found(store.database) == [
            ("vid_1-0", "https://a.b/c", "waiting"),
            ("vid_2-0", None, "waiting"),
        ]
        await ended(mine, "vid_4")
        async with store.database.transaction() as session:
            await session.execute("SELECT FROM media_scan FOR UPDATE")
            assert not await finder.find()  # another process looks at this moment
        assert len(await found(store.database)) == 2
        await finder.find()
        assert len(await found(store.database)) == 3
