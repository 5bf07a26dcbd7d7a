"""Copies in a bucket, and what scans them."""

import time
from decimal import Decimal
from pathlib import Path

import pytest

from actors.clock import SystemClock
from actors.jobs.service import Jobs, Links
from actors.media_store.fetch import FetchFault, FileLocation, opened
from actors.media_store.folder import FolderStorage
from actors.media_store.task_scanner import TaskScanner
from actors.media_store.worker import MediaStore
from actors.store.database import Database
from channels.http.origin import address_of
from channels.http.transport import Proxy, Transport
from channels.media.results import VideoResult
from gw.config.config import Tasks
from gw.media_services import links_of, make_jobs
from loadtests.simulator.server import Simulator
from metrics.prometheus import Metrics
from tests.integration.actors.process import process
from tests.integration.media.copying import film_bytes, film_link, storing
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import ACCOUNT, open_account
from tests.support.rows import cases
from tests.unit.channels.test_transport import proxied

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


FETCHED_SIZE = 200_000
KEY = (("Authorization", "Bearer k"),)


def redirect(to: str, **more: object) -> dict[str, object]:
    return {"status": 302, "headers": {"Location": to}, **more}


async def read(location: FileLocation) -> bytes:
    async with opened(location) as source:
        return b"".join([piece async for piece in source.pieces()])


async def test_a_redirect_is_followed_and_the_key_goes_no_further() -> None:
    async with Simulator() as first, Simulator() as second:
        first.put_faults({"file": redirect(film_link(second, FETCHED_SIZE))})
        start = FileLocation(film_link(first, FETCHED_SIZE), first.base_url, KEY)
        assert await read(start) == film_bytes(FETCHED_SIZE)
        (request,), (then,) = first.requests(), second.requests()
        assert (request.header(b"authorization"), then.header(b"authorization")) == (
            b"Bearer k",
            b"",
        )


@cases(
    "to, reason",
    ("/_files/again", "redirected too often"),
    ("http://169.254.169.254/latest/meta-data", "address not public"),
    ("http://10.1.2.3/x", "address not public"),
    ("file:///etc/passwd", "no address"),
    ("gopher://a.example/x", "no address"),
)
async def test_a_redirect_leads_nowhere_it_must_not(to: str, reason: str) -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"file": redirect(to)})
        with pytest.raises(FetchFault, match=reason):
            await read(FileLocation(film_link(simulator, FETCHED_SIZE), simulator.base_url))


@cases(
    "sim, reason",
    ({"malformed": "http"}, "not HTTP"),
    ({"refuse": True}, "unreachable|cut"),
    ({"cut_after_bytes": 10}, "cut"),
    ({"status": 500}, "status 500"),
    ({"headers": {"Content-Encoding": "gzip"}}, "not HTTP"),
)
async def test_what_cannot_be_used_says_why(sim: dict[str, object], reason: str) -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"file": sim})
        with pytest.raises(FetchFault, match=reason):
            await read(FileLocation(film_link(simulator, FETCHED_SIZE), simulator.base_url))


async def test_a_wish_to_be_called_later_is_respected() -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"file": {"status": 429, "retry_after": 40}})
        with pytest.raises(FetchFault) as caught:
            await read(FileLocation(film_link(simulator, FETCHED_SIZE), simulator.base_url))
        assert caught.value.after_seconds == 40.0


async def test_a_channels_proxy_carries_what_is_copied_and_leads_nowhere_it_must_not() -> None:
    async with Simulator() as simulator, proxied() as (proxy, server):
        through = Transport(Proxy("127.0.0.1", server.port))
        link = film_link(simulator, FETCHED_SIZE)
        location = FileLocation(link, simulator.base_url, transport=through)
        assert await read(location) == film_bytes(FETCHED_SIZE)
        assert len(proxy.heads) == 1
        simulator.put_faults({"file": redirect("http://10.1.2.3/x")})
        with pytest.raises(FetchFault, match="address not public"):
            await read(location)
        assert not any("10.1.2.3" in head for head in proxy.heads)


def test_what_a_channel_trusts_and_shows_is_for_its_own_origin() -> None:
    own, other = (address_of(url).origin for url in ("https://a.example", "https://b.example"))
    proxy = Proxy("127.0.0.1", 8080)
    whole = Transport(proxy, ca_file="ca.pem", certificate="c.pem", key="k.pem")
    location = FileLocation("https://b.example/x", "https://a.example/v1", transport=whole)
    assert location.transport_to(own) == whole
    assert location.transport_to(other) == Transport(proxy)
    trusting = FileLocation("https://b.example/x", "https://a.example", transport=Transport(None))
    assert trusting.transport_to(other) is None
