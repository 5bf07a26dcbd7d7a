"""What tasks have made is found by their rows, once, by any process."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import pytest

from actors.clock import SystemClock
from actors.jobs.store import Jobs, Links
from actors.media_store.storage import FolderStorage
from actors.media_store.worker import MediaStore, TaskScanner
from actors.store.database import Database
from channels.media.canonical import VideoResult
from gw.config.config import Tasks
from gw.media_services import make_jobs
from gw.media_store import links_of
from loadtests.simulator.server import Simulator
from metrics.prometheus import Metrics
from tests.integration.actors.process import process
from tests.integration.media.copying import film_link, storing
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import ACCOUNT, open_account

TASKS = Tasks(
    poll_first=1.0,
    poll_factor=Decimal(2),
    poll_max=2.0,
    poll_concurrency=1,
    lease=5.0,
    deadline=60.0,
    catalog_seconds=1.0,
)


async def found(database: Database) -> list[tuple[str, str | None, str]]:
    rows = await database.fetch_all("SELECT id, url, state::text FROM media_copies ORDER BY id")
    return [(row[0], row[1], row[2]) for row in rows]


async def test_what_has_succeeded_is_found_once(database_url: str, data_dir: Path) -> None:
    async with (
        storing(database_url, FolderStorage(data_dir)) as store,
        process(database_url) as mine,
    ):
        await open_account(store.database, 10_000_000_000)
        scanner = TaskScanner(store.database, store.copies)
        assert not await scanner.find()
        await ended(mine, "vid_1", made("https://a.b/c"))
        await ended(mine, "vid_2", made(None))
        await ended(mine, "vid_3", failed())
        await scanner.find()
        await scanner.find()
        assert await found(store.database) == [
            ("vid_1-0", "https://a.b/c", "waiting"),
            ("vid_2-0", None, "waiting"),
        ]
        await ended(mine, "vid_4", made(None))
        async with store.database.transaction() as session:
            await session.execute("SELECT FROM media_scan FOR UPDATE")
            assert not await scanner.find()  # another process looks at this moment
        assert len(await found(store.database)) == 2
        await scanner.find()
        assert len(await found(store.database)) == 3


async def test_clients_see_our_link_where_there_is_a_copy(
    database_url: str, data_dir: Path
) -> None:
    async with (
        Simulator() as simulator,
        storing(database_url, FolderStorage(data_dir), channel_url=simulator.base_url) as store,
        process(database_url) as mine,
    ):
        await open_account(store.database, 10_000_000_000)
        upstream = film_link(simulator, 100_000)
        await ended(mine, "vid_1", made(upstream))
        await ended(mine, "vid_2", made("https://a.example/never-copied"))
        copied = make_jobs(TASKS, store.database, SystemClock(), Metrics(), links(store.media))
        plain = make_jobs(TASKS, store.database, SystemClock(), Metrics())
        await TaskScanner(store.database, store.copies).find()
        assert await shown(copied) == await shown(plain)
        await store.round()
        other, ours = await shown(copied)
        assert other == "https://a.example/never-copied"
        assert ours.startswith("https://gw.example/v1/media/vid_1-0.mp4?expires=")
        one = await copied.read(ACCOUNT, "video", "vid_1")
        assert one is not None
        assert isinstance(one.result, VideoResult)
        assert one.result.url == ours
        assert one.result.expires_at == pytest.approx(time.time() + 7 * 86_400, abs=100)
        nowhere = make_jobs(
            TASKS, store.database, SystemClock(), Metrics(), links_of(store.media, "")
        )
        assert (await shown(nowhere))[1] == upstream


def links(media: MediaStore) -> Links:
    return links_of(media, "https://gw.example")


async def shown(jobs: Jobs) -> list[str]:
    """The films of the account, newest first."""
    found = await jobs.list(ACCOUNT, "video", limit=10)
    results = [job.result for job in found]
    return [result.url or "" for result in results if isinstance(result, VideoResult)]
