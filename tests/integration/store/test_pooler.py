"""A database behind the real PgBouncer: sessions that are kept serve, others are refused."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import psycopg2
import pytest

from actors.store.database import Database
from actors.store.errors import SessionsNotKept
from actors.store.schema import migrate
from loadtests.rig.waiting import until
from tests.support.aio import eventually
from tests.support.packaged import PGBOUNCER, libraries, programs

pytestmark = pytest.mark.long

PORT = 6432  # of the socket's name only: it listens nowhere else


@contextmanager
def running_pgbouncer(folder: Path, database_url: str, **settings: object) -> Iterator[str]:
    """Yield the URL that leads to `database_url` through a pooler with these settings.

    `folder` is one that every user may pass through: the pooler refuses to run as root.
    """
    url = urlsplit(database_url)
    (sockets,) = parse_qs(url.query)["host"]
    name = url.path.removeprefix("/")
    own = folder / "pooler"
    own.mkdir()
    uid = _server_uid(Path(sockets))
    os.chown(own, uid, -1)
    config = own / "pgbouncer.ini"
    given = {
        "unix_socket_dir": own,
        "listen_port": PORT,
        "auth_type": "any",
        "logfile": own / "log",
        "ignore_startup_parameters": "extra_float_digits",
        **settings,
    }
    config.write_text(
        f"[databases]\n{name} = host={sockets} user={url.username} password={url.password}\n"
        "[pgbouncer]\n" + "".join(f"{key} = {value}\n" for key, value in given.items())
    )
    process = subprocess.Popen(
        [programs(PGBOUNCER)["pgbouncer"], "--quiet", config],
        env={"LD_LIBRARY_PATH": libraries(PGBOUNCER)},
        user=uid,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    through = f"postgresql://{url.username}@/{name}?host={quote(str(own), safe='')}&port={PORT}"

    def responses() -> bool:
        assert process.poll() is None, (own / "log").read_text()
        try:
            psycopg2.connect(through).close()
        except psycopg2.OperationalError:
            return False
        return True

    try:
        until(responses, what="a pooler that answers")
        yield through
    finally:
        process.kill()
        process.wait()


def _server_uid(sockets: Path) -> int:
    return sockets.stat().st_uid


@pytest.mark.parametrize(
    "settings",
    [
        {"pool_mode": "transaction"},
        # The servers take turns: two connections that take turns, too, would each find its own.
        {"pool_mode": "transaction", "server_round_robin": 1, "min_pool_size": 2},
        # No server is left for the one while the other is in a transaction.
        {"pool_mode": "transaction", "default_pool_size": 1},
        {"pool_mode": "statement"},
    ],
    ids=["last", "turns", "one", "statement"],
)
async def test_pooler_that_changes_sessions_is_refused(
    database_url: str, data_dir: Path, settings: dict[str, Any]
) -> None:
    with running_pgbouncer(data_dir, database_url, **settings) as url:
        for _ in range(3):
            with pytest.raises(SessionsNotKept, match="pool_mode = session"):
                async with Database(url):
                    pass


async def test_busy_pooler_is_refused_too(database_url: str, data_dir: Path) -> None:
    # Two servers are held by others, who come and go: each may hide what one round would see.
    with running_pgbouncer(data_dir, database_url, pool_mode="transaction") as url:
        others = [psycopg2.connect(url) for _ in range(2)]
        for other in others:
            other.cursor().execute("SELECT 1")
        with pytest.raises(SessionsNotKept):
            async with Database(url):
                pass
        for other in others:
            other.close()


async def test_pooler_that_keeps_sessions_serves(empty_url: str, data_dir: Path) -> None:
    heard: list[str] = []
    with running_pgbouncer(data_dir, empty_url, pool_mode="session") as url:
        async with Database(url) as database, Database(url) as other:
            first, second = await asyncio.gather(migrate(database), migrate(other))
            assert not set(first) & set(second)
            await database.listen("gw_changes", heard.append, heard.clear)
            await other.execute("SELECT pg_notify('gw_changes', 'key:b')")
            await eventually(lambda: heard == ["key:b"])
