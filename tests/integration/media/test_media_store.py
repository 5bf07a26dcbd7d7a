"""Copies of results, made and served."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from actors.media_store.copies import Copy
from actors.media_store.fetch import FileLocation
from actors.media_store.folder import FolderStorage, FolderWriting
from actors.media_store.storage import Busy
from loadtests.simulator.server import Simulator
from tests.integration.media.copying import film_bytes, film_link, simulated, storing
from tests.support.aio import eventually
from tests.support.logs import ExpectLog, logs

MIB = 1024 * 1024
SIZE = 3 * MIB


def copies_in(folder: Path) -> int:
    return len(list(folder.rglob("*.media")))


def overwrite(folder: Path, data: bytes) -> None:
    """What has come of the one copy under way is this by now."""
    (part,) = folder.rglob("*.part")
    part.write_bytes(data)


async def test_a_film_is_copied_and_read_in_any_part(database_url: str, data_dir: Path) -> None:
    async with simulated(database_url, data_dir) as (simulator, store):
        (copy_id,) = await store.find(film_link(simulator, SIZE))
        await store.round()
        assert await store.read(copy_id) == film_bytes(SIZE)
        assert await store.read(copy_id, 5, 9) == film_bytes(SIZE)[5:9]
        kept = await store.kept(copy_id)
        assert (kept.content_type, kept.size) == ("video/mp4", SIZE)
        assert list((await store.media.kept([kept.job_id]))[kept.job_id]) == [0]
        assert await store.media.served(copy_id + ".exe") is None
        assert await store.copies.claim("waiting", "x", 5) == []


async def test_what_was_cut_goes_on_where_it_was(database_url: str, data_dir: Path) -> None:
    async with simulated(database_url, data_dir) as (simulator, store):
        link = film_link(simulator, SIZE, cut_after_bytes=2 * MIB, times=1)
        (copy_id,) = await store.find(link)
        await store.round()
        assert await store.state(copy_id) == ("waiting", "cut", 1, 2 * MIB)
        await store.hurry()
        await store.round()
        assert await store.read(copy_id) == film_bytes(SIZE)
        first, second = simulator.requests()
        assert (first.header(b"range"), second.header(b"range")) == (b"", b"bytes=2097152-")
        assert second.status == 206


async def test_another_file_behind_the_same_link_is_begun_anew(
    database_url: str, data_dir: Path
) -> None:
    async with simulated(database_url, data_dir) as (simulator, store):
        link = film_link(simulator, SIZE, cut_after_bytes=2 * MIB, times=1)
        (copy_id,) = await store.find(link)
        await store.round()
        await store.database.execute("UPDATE media_copies SET validator = '\"another\"'")
        await store.hurry()
        await store.round()
        assert simulator.requests()[-1].status == 200
        assert await store.read(copy_id) == film_bytes(SIZE)


async def test_a_part_that_is_lost_here_is_fetched_again(database_url: str, data_dir: Path) -> None:
    async with simulated(database_url, data_dir) as (simulator, store):
        link = film_link(simulator, SIZE, cut_after_bytes=2 * MIB, times=1)
        (copy_id,) = await store.find(link)
        await store.round()
        overwrite(data_dir, b"x")
        for _ in range(2):
            await store.hurry()
            await store.round()
        assert await store.read(copy_id) == film_bytes(SIZE)


@pytest.mark.parametrize(
    ("status", "attempts", "end"), [(503, 2, "waiting"), (404, 2, "waiting"), (403, 3, "dropping")]
)
async def test_a_refusal_is_tried_again_and_at_last_given_up(
    database_url: str,
    data_dir: Path,
    expect_log: ExpectLog,
    *,
    status: int,
    attempts: int,
    end: str,
) -> None:
    if end == "dropping":
        expect_log("media_not_copied")
    async with simulated(database_url, data_dir) as (simulator, store):
        (copy_id,) = await store.find(film_link(simulator, SIZE, status=status))
        for _ in range(attempts):
            await store.hurry()
            await store.round()
        assert (await store.state(copy_id))[:2] == (end, f"status {status}")
        assert len(simulator.requests()) == attempts
        if end == "dropping":
            await store.round()
            assert (await store.state(copy_id))[0] == "failed"


@logs("media_not_copied")
async def test_nothing_within_the_network_is_fetched_for_a_channel_outside(
    database_url: str, data_dir: Path
) -> None:
    async with (
        Simulator() as simulator,
        storing(database_url, FolderStorage(data_dir), channel_url="http://192.0.2.1") as store,
    ):
        links = [film_link(simulator, SIZE), f"http://localhost:{simulator.port}/x"]
        for copy_id in await store.find(*links, "file:///etc/passwd", "http://"):
            await store.round()
            state, error, _, _ = await store.state(copy_id)
            assert (state, error) in [
                ("failed", "address not public"),
                ("failed", "no address"),
                ("dropping", "no address"),
                ("dropping", "address not public"),
            ]
        assert simulator.requests() == []


@logs("media_not_copied")
async def test_room_is_made_by_dropping_the_oldest_and_never_more_is_taken(
    database_url: str, data_dir: Path
) -> None:
    async with (
        Simulator() as simulator,
        storing(
            database_url,
            FolderStorage(data_dir),
            channel_url=simulator.base_url,
            bytes_max=2 * SIZE,
            concurrency=1,
        ) as store,
    ):
        link = film_link(simulator, SIZE)
        first, second, third = await store.find(link, link, link)
        for _ in range(2):
            await store.round()
        await store.round()
        assert [(await store.state(one))[0] for one in (first, second, third)] == [
            "dropping",
            "kept",
            "waiting",
        ]
        await store.hurry()
        await store.round()
        assert await store.read(third) == film_bytes(SIZE)
        assert copies_in(data_dir) == 2
        (large,) = await store.find(film_link(simulator, 2 * SIZE + 1))
        await store.round()
        assert (await store.state(large))[:2] == ("dropping", "too large")


async def test_what_was_kept_long_enough_is_dropped(database_url: str, data_dir: Path) -> None:
    async with simulated(database_url, data_dir) as (simulator, store):
        (copy_id,) = await store.find(film_link(simulator, SIZE))
        await store.round()
        await store.database.execute("UPDATE media_copies SET kept_at = now() - interval '31 days'")
        assert await store.copies.expire(30) == 1
        await store.round()
        assert (await store.state(copy_id))[0] == "dropped"
        assert copies_in(data_dir) == 0


async def test_whoever_has_lost_the_claim_stops(database_url: str, data_dir: Path) -> None:
    async with simulated(database_url, data_dir, claim_seconds=0.2) as (simulator, store):
        link = film_link(simulator, SIZE, hang=2)
        (copy_id,) = await store.find(link)
        await store.media.round()
        await simulator.wait(active=1)
        await store.database.execute("UPDATE media_copies SET leased_by = 'another'")
        await store.media.finished()
        assert (await store.state(copy_id))[0] == "waiting"
        await simulator.wait(active=0)


async def test_two_do_not_write_one_copy(data_dir: Path) -> None:
    folder = FolderStorage(data_dir)
    copy = Copy(
        id="vid_1-0", job_id="vid_1", account_id="acct_1", claim_id="a", channel_id="one",
        upstream_protocol="videos", upstream_id="u", url=None, content_type="video/mp4",
        attempts=0, done=0, size=None,
        validator=None, upload_id=None, parts=(), age_seconds=0.0,
    )  # fmt: skip
    writing = await folder.open(copy)
    with pytest.raises(Busy):
        await folder.open(copy)
    await writing.close()
    await (await folder.open(copy)).close()
    await folder.close()


async def test_a_film_without_a_link_is_read_with_the_channels_key(
    database_url: str, data_dir: Path
) -> None:
    async with Simulator(task_seconds=0) as simulator:
        base = simulator.base_url

        async def with_key(copy: Copy) -> FileLocation | None:
            content = f"{base}/v1/videos/{copy.upstream_id}/content"
            return FileLocation(content, base, (("Authorization", "Bearer k"),))

        async with storing(database_url, FolderStorage(data_dir), locate=with_key) as store:
            (copy_id,) = await store.find(None)
            task = simulator.engine.tasks.book
            await store.round()
            assert (await store.state(copy_id))[:2] == ("waiting", "status 404")
            (request,) = simulator.requests()
            assert request.api_key == "k"
            assert len(task) == 0


async def test_another_process_goes_on_after_a_kill(database_url: str, data_dir: Path) -> None:
    async with simulated(database_url, data_dir, claim_seconds=1.0) as (simulator, store):
        link = film_link(simulator, SIZE, hang=24)
        (copy_id,) = await store.find(link)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.integration.media.copying_process",
            database_url, str(data_dir), simulator.base_url,
        )  # fmt: skip
        try:

            async def is_partly_safe() -> bool:
                return (await store.state(copy_id))[3] > 0

            await eventually(is_partly_safe, what="some of the film is safe")
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        simulator.clear_faults()

        async def is_kept() -> bool:
            await store.round()
            return (await store.state(copy_id))[0] == "kept"

        await eventually(is_kept, what="the copy is there")
        assert await store.read(copy_id) == film_bytes(SIZE)
        last = simulator.requests()[-1]
        assert last.status == 206
        assert last.header(b"range") != b"bytes=0-"


@logs("media_copier_died")
async def test_a_copier_that_dies_ends_no_other_copy(database_url: str, data_dir: Path) -> None:
    async def locate(copy: Copy) -> FileLocation | None:
        if copy.url == "bad":
            raise AssertionError("a fault of ours")
        return FileLocation(copy.url or "", simulator.base_url)

    async with (
        Simulator() as simulator,
        storing(database_url, FolderStorage(data_dir), locate=locate) as store,
    ):
        bad, good = await store.find("bad", film_link(simulator, SIZE))
        await store.round()
        assert (await store.state(bad))[0] == "waiting"
        assert await store.read(good) == film_bytes(SIZE)


async def test_slow_files_of_one_account_leave_a_place_for_another(
    database_url: str, data_dir: Path
) -> None:
    may_go = asyncio.Event()

    async def locate(copy: Copy) -> FileLocation | None:
        if copy.account_id == "slow":
            await may_go.wait()
        return FileLocation(copy.url or "", simulator.base_url)

    async with (
        Simulator() as simulator,
        storing(database_url, FolderStorage(data_dir), locate=locate, concurrency=2) as store,
    ):
        slow = await store.find(*[film_link(simulator, SIZE)] * 3, account="slow")
        (other,) = await store.find(film_link(simulator, SIZE), account="other")
        await store.media.round()

        async def is_kept() -> bool:
            return (await store.state(other))[0] == "kept"

        await eventually(is_kept, what="the other's copy is there")
        assert (await store.kept(other)).account_id == "other"
        may_go.set()
        await store.media.finished()
        for _ in slow:  # one at a time, also when no other has anything
            await store.round()
        assert [(await store.state(one))[0] for one in slow] == ["kept"] * 3


async def test_an_upstream_is_read_no_faster_than_the_folder_takes_it(
    database_url: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, may_write = 64 * MIB, asyncio.Event()
    write = FolderWriting.write

    async def slow(self: FolderWriting, piece: bytes) -> None:
        await may_write.wait()
        await write(self, piece)

    monkeypatch.setattr(FolderWriting, "write", slow)
    async with simulated(database_url, data_dir) as (simulator, store):
        (copy_id,) = await store.find(film_link(simulator, size))
        await store.media.round()
        await simulator.wait(held_back=1)
        assert simulator.stats.bytes_sent < size // 2  # what the system keeps of it on the way
        may_write.set()
        await store.media.finished()
        assert (await store.kept(copy_id)).size == size
