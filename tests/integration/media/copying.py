"""A media store on a real database, and a simulator whose files it copies."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors.clock import SystemClock
from actors.media_store.copier import Copier, Locate
from actors.media_store.copies import Copy, Kept, SucceededTask
from actors.media_store.fetch import FileLocation
from actors.media_store.folder import FolderStorage
from actors.media_store.links import LinkSigner
from actors.media_store.storage import CopyStorage
from actors.media_store.store import CopyStore
from actors.media_store.throttle import Throttle
from actors.media_store.worker import MediaStore
from actors.store.database import Database
from channels.media.results import VideoResult
from loadtests.rig.async_connection import exchange
from loadtests.simulator.files import file_of, made
from loadtests.simulator.server import Simulator
from metrics.prometheus import Metrics

GIB = 1024**3
JOBS = (
    "INSERT INTO jobs (id, call_id, account_id, kind, key_id, protocol, model, request, billing,"
    " submitted_at, deadline_at) SELECT id, gen_random_uuid(), %(account)s, 'video', 'k', 'p', 'm',"
    " '{}', '{}', now(), now() FROM unnest(%(ids)s::text[]) id"
)


@dataclass
class Store:
    """One process's media store and the verbs of a test."""

    media: MediaStore
    copies: CopyStore
    database: Database
    storage: CopyStorage

    async def find(
        self, *urls: str | None, channel: str = "one", account: str | None = None
    ) -> list[str]:
        """Tasks that have made these, with their jobs if of an account; the ids of their copies."""
        tasks = [
            SucceededTask(
                job_id=f"vid_{next(_numbers):032x}",
                kind="video",
                channel_id=channel,
                upstream_id=f"up-{number}",
                upstream_protocol="videos",
                result=VideoResult(url=url),
            )
            for number, url in enumerate(urls)
        ]
        if account is not None:
            ids = [one.job_id for one in tasks]
            await self.database.execute(JOBS, {"ids": ids, "account": account})
        await self.copies.found(tasks)
        return [f"{one.job_id}-0" for one in tasks]

    async def round(self) -> None:
        """Everything that is due now."""
        await self.media.round()
        await self.media.finished()

    async def hurry(self) -> None:
        """What waits, waits no longer."""
        await self.database.execute("UPDATE media_copies SET due_at = now() - interval '1 hour'")

    async def state(self, copy_id: str) -> tuple[str, str | None, int, int]:
        """State, error, attempts, bytes that are safe."""
        row = await self.database.fetch_one(
            "SELECT state::text, error, attempts, done FROM media_copies WHERE id = %s", (copy_id,)
        )
        assert row is not None
        return row[0], row[1], row[2], row[3]

    async def kept(self, copy_id: str) -> Kept:
        """A copy that is there."""
        found = await self.copies.one(copy_id)
        assert found is not None, await self.state(copy_id)
        return found

    async def read(self, copy_id: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a copy in a folder."""
        kept = await self.kept(copy_id)
        found = await self.media.served(kept.file_name)
        assert found is not None
        file = found[1]
        assert not isinstance(file, str)
        data = b"".join([p async for p in file.pieces(start, kept.size if end is None else end)])
        await file.close()
        return data


_numbers = itertools.count(1)


@asynccontextmanager
async def storing(
    url: str,
    storage: CopyStorage,
    *,
    kind: Any = "local",
    channel_url: str = "",
    locate: Locate | None = None,
    bytes_max: int | None = GIB,
    file_bytes_max: int = GIB,
    keep_days: int = 30,
    concurrency: int = 4,
    claim_seconds: float = 60.0,
) -> AsyncIterator[Store]:
    """A media store whose channel is at `channel_url`."""

    async def behind_links(copy: Copy) -> FileLocation | None:
        assert copy.url is not None
        return FileLocation(copy.url, channel_url=channel_url)

    async def nothing() -> bool:
        return False

    clock, metrics = SystemClock(), Metrics()
    async with Database(url) as database:
        copies = CopyStore(database, kind, claim_seconds=claim_seconds)
        copier = Copier(
            store=copies,
            storage=storage,
            locate=locate or behind_links,
            bytes_max=bytes_max,
            file_bytes_max=file_bytes_max,
            throttle=Throttle(0, clock),
            clock=clock,
            metrics=metrics.media_store,
        )
        media = MediaStore(
            store=copies,
            storage=storage,
            copier=copier,
            find=nothing,
            signer=LinkSigner(b"key"),
            keep_days=keep_days,
            concurrency=concurrency,
            clock=clock,
        )
        try:
            yield Store(media, copies, database, storage)
        finally:
            await media.finished()
            await storage.close()


@asynccontextmanager
async def simulated(url: str, folder: Path, **more: Any) -> AsyncIterator[tuple[Simulator, Store]]:
    """An upstream, and a store that copies what it makes into a folder."""
    async with (
        Simulator() as simulator,
        storing(url, FolderStorage(folder), channel_url=simulator.base_url, **more) as store,
    ):
        yield simulator, store


async def fetch(url: str, **headers: str) -> tuple[int, str, bytes]:
    """Status, content type and body of what anybody gets behind a link."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}"
    response = await exchange(f"http://{parts.netloc}", "GET", target, headers=headers)
    return response.status, response.headers["content-type"], response.body


def film_link(simulator: Simulator, size: int, **sim: Any) -> str:
    """A link to a film of this size, as an upstream gives it."""
    tasks = simulator.engine.tasks
    name = f"film{next(_numbers)}"
    if sim:
        simulator.put_faults({"file": sim})
    file = file_of("mp4", 4.0, size)
    return tasks.files.link(simulator.base_url, file, name, tasks.clock() + 3600)


def film_bytes(size: int) -> bytes:
    """What is behind such a link."""
    data, zeros = made(file_of("mp4", 4.0, size))
    return data + bytes(zeros)
