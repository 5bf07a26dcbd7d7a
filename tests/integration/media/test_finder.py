"""What tasks have made is found by their rows, once, by any process."""

from __future__ import annotations

from pathlib import Path

from actors.media_store.finder import Finder
from actors.media_store.folder import Folder
from actors.store.database import Database
from tests.integration.actors.process import process
from tests.integration.media.copying import storing
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import open_account


async def found(database: Database) -> list[tuple[str, str | None, str]]:
    rows = await database.fetch_all("SELECT id, url, state::text FROM media_copies ORDER BY id")
    return [(row[0], row[1], row[2]) for row in rows]


async def test_what_has_succeeded_is_found_once(database_url: str, data_dir: Path) -> None:
    async with (
        storing(database_url, Folder(data_dir)) as store,
        process(database_url) as mine,
    ):
        await open_account(store.database, 10_000_000_000)
        finder = Finder(store.database, store.copies)
        assert not await finder.find()
        await ended(mine, "vid_1", made("https://a.b/c"))
        await ended(mine, "vid_2", made(None))
        await ended(mine, "vid_3", failed())
        await finder.find()
        await finder.find()
        assert await found(store.database) == [
            ("vid_1-0", "https://a.b/c", "waiting"),
            ("vid_2-0", None, "waiting"),
        ]
        await ended(mine, "vid_4", made(None))
        async with store.database.transaction() as session:
            await session.execute("SELECT FROM media_scan FOR UPDATE")
            assert not await finder.find()  # another process looks at this moment
        assert len(await found(store.database)) == 2
        await finder.find()
        assert len(await found(store.database)) == 3
