"""The embedded PostgreSQL: started, shared, killed, stopped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.store.connection import ConstraintViolated
from actors.store.database import Database
from actors.store.embedded.access import EmbeddedFault
from actors.store.embedded.cluster import EmbeddedPostgres
from tests.support.aio import eventually, run
from tests.support.servers import is_running, kill_server, server_of

pytestmark = pytest.mark.long


async def write(url: str, n: int) -> None:
    async with Database(url) as database:
        await database.execute("CREATE TABLE IF NOT EXISTS kept (n integer PRIMARY KEY)")
        await database.execute("INSERT INTO kept VALUES (%s)", (n,))


async def kept(url: str) -> list[int]:
    async with Database(url) as database:
        return [n for (n,) in await database.fetch_all("SELECT n FROM kept ORDER BY n")]


async def test_restart_keeps_everything(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir / "var")
    for n in (1, 2):
        await write(await embedded.start(), n)
        await embedded.stop()
        await embedded.stop()
        assert not is_running(data_dir / "var")
    assert await kept(await EmbeddedPostgres(data_dir / "var").start()) == [1, 2]


async def test_relative_folder_means_the_same_from_elsewhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data_dir)

    embedded = EmbeddedPostgres(Path("var"))
    monkeypatch.chdir("/")
    await embedded.start()
    assert is_running(data_dir / "var")
    await embedded.stop()


async def test_first_start_by_several_at_once_makes_one_cluster(data_dir: Path) -> None:
    users = [EmbeddedPostgres(data_dir) for _ in range(4)]
    urls = await asyncio.gather(*(user.start() for user in users))
    assert len(set(urls)) == 1
    await write(urls[0], 1)
    pid = server_of(data_dir).pid
    for user in users[:-1]:
        await user.stop()
        assert server_of(data_dir).pid == pid
    assert await kept(urls[0]) == [1]
    await users[-1].stop()
    assert not is_running(data_dir)


async def test_killed_server_is_started_again_under_the_same_url(
    data_dir: Path, expect_log: Callable[..., None]
) -> None:
    expect_log("postgres_lost", "listener_lost", "database_lost")

    embedded = EmbeddedPostgres(data_dir)
    url = await embedded.start()
    await write(url, 1)
    assert not await embedded.ensure_running()
    heard: list[str] = []
    async with Database(url) as database:
        await database.listen("gw_changes", heard.append, lambda: heard.append("gap"))
        session = await database.session()
        kill_server(data_dir)
        await eventually(lambda: session.is_closed or not database.is_up)
        assert await embedded.ensure_running()
        await eventually(lambda: heard == ["gap"])
        assert await database.fetch_all("SELECT n FROM kept") == [(1,)]
        assert database.is_up
    await embedded.stop()


async def test_start_after_a_crash_recovers(data_dir: Path) -> None:
    await write(await EmbeddedPostgres(data_dir).start(), 1)
    kill_server(data_dir)
    embedded = EmbeddedPostgres(data_dir)
    assert await kept(await embedded.start()) == [1]
    await embedded.stop()


async def test_process_number_taken_by_another_program_does_not_block_the_start(
    data_dir: Path,
) -> None:
    embedded = EmbeddedPostgres(data_dir)
    await write(await embedded.start(), 1)
    kill_server(data_dir)
    await embedded.stop()
    pid_file = data_dir / "postgres" / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert await kept(await embedded.start()) == [1]
    await embedded.stop()


async def test_interrupted_making_is_done_again(data_dir: Path) -> None:
    unfinished = data_dir / "postgres" / "data.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    embedded = EmbeddedPostgres(data_dir)
    await write(await embedded.start(), 1)
    assert not unfinished.exists()
    await embedded.stop()


async def test_long_path_is_no_obstacle(data_dir: Path) -> None:
    folder = data_dir / ("long-" * 20) / ("path-" * 20) / "ünd 'odd'"
    folder.mkdir(parents=True)
    one, two = EmbeddedPostgres(folder), EmbeddedPostgres(folder)
    url = await one.start()
    assert await two.start() == url
    await write(url, 1)
    await one.stop()
    assert await kept(url) == [1]
    sockets = server_of(folder).socket_folder
    assert sockets is not None
    await two.stop()
    assert not sockets.exists()


async def test_server_listens_on_no_port_and_its_socket_is_private(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    async with Database(await embedded.start()) as database:
        shown = await database.fetch_one(
            "SELECT current_setting('listen_addresses'), current_setting('fsync'), "
            "current_setting('synchronous_commit')"
        )
        assert shown == ("", "on", "on")
    sockets = server_of(data_dir).socket_folder
    assert sockets is not None
    assert sockets.stat().st_mode & 0o777 == 0o700
    await embedded.stop()


async def test_log_does_not_quote_statements_or_rows(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    async with Database(await embedded.start()) as database:
        await database.execute("CREATE TABLE notes (t text CHECK (t = ''))")
        with pytest.raises(ConstraintViolated):
            await database.execute("INSERT INTO notes VALUES (%s)", ("confidential",))
    await embedded.stop()
    log = (data_dir / "postgres" / "log" / "postgres.log").read_text()
    assert "violates check constraint" in log
    assert "confidential" not in log


async def test_data_of_another_version_is_a_clear_fault(data_dir: Path) -> None:
    data = data_dir / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("97\n")
    with pytest.raises(EmbeddedFault, match="needs PostgreSQL version 97"):
        await EmbeddedPostgres(data_dir).start()


def test_folder_that_cannot_be_made_is_a_clear_fault(data_dir: Path) -> None:
    (data_dir / "file").write_text("")
    with pytest.raises(EmbeddedFault, match="cannot be made"):
        run(EmbeddedPostgres(data_dir / "file" / "var").start())
