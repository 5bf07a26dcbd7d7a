"""The real PgBouncer between a test and its database."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import psycopg2

from tests.support.packaged import PGBOUNCER, libraries, programs
from tests.support.waiting import until

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

    def answers() -> bool:
        assert process.poll() is None, (own / "log").read_text()
        try:
            psycopg2.connect(through).close()
        except psycopg2.OperationalError:
            return False
        return True

    try:
        until(answers, what="a pooler that answers")
        yield through
    finally:
        process.kill()
        process.wait()


def _server_uid(sockets: Path) -> int:
    return sockets.stat().st_uid
