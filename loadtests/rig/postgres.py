"""One PostgreSQL for a run of the tests, and a fresh, migrated database for each test that asks.

A test's database is a copy of a template that was migrated once, and belongs to the role that the
embedded server gives the gateway; making and dropping it takes a superuser, whom the rules of this
one server let in as well. The fixtures that hand it out are in `tests/conftest.py`.
"""

import asyncio
import itertools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
from psycopg2 import sql

from actors.store.database import Database
from actors.store.embedded.access import ROLE, SUPERUSER
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.store.schema import migrate
from loadtests.rig.servers import server_of
from loadtests.rig.waiting import until

TEMPLATE = "migrated"
# Durability against a power cut is not what tests are about.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


class PostgresForTests:
    """A running server with a migrated template database; `admin` is a superuser's connection."""

    def __init__(self, url: str, admin: Any) -> None:
        self._url = url
        self._numbers = itertools.count(1)
        self._admin = admin

    def make_template(self) -> None:
        """Make the database that every test's is a copy of."""
        self._run("CREATE DATABASE {} OWNER {}", TEMPLATE, ROLE)
        asyncio.run(self._migrate(self._url_of(TEMPLATE)))

    @contextmanager
    def database(self, *, template: str = TEMPLATE, encoding: str = "UTF8") -> Iterator[str]:
        """Yield the URL of a new copy of `template`; drop it afterwards, whoever is connected."""
        name = f"test_{next(self._numbers)}"
        create = "CREATE DATABASE {} OWNER {} TEMPLATE {} ENCODING {}"
        self._run(create, name, ROLE, template, encoding)
        try:
            yield self._url_of(name)
        finally:
            self._run("DROP DATABASE {} WITH (FORCE)", name)

    @contextmanager
    def away(self, url: str) -> Iterator[None]:
        """Take a database away meanwhile: connections to it are lost, new ones refused."""
        name = urlsplit(url).path.removeprefix("/")
        self._run("ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
        with self._admin.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
        try:
            yield
        finally:
            self._run("ALTER DATABASE {} ALLOW_CONNECTIONS true", name)

    def change(self, url: str, statement: str) -> None:
        """Run a statement on a database, which stands in it as `{}`."""
        self._run(statement, urlsplit(url).path.removeprefix("/"))

    def close(self) -> None:
        """Give up the connection of its own."""
        self._admin.close()

    async def _migrate(self, url: str) -> None:
        async with Database(url) as database:
            await migrate(database)

    def _run(self, statement: str, *names: Any) -> None:
        with self._admin.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _url_of(self, name: str) -> str:
        return self._url.replace("@/postgres?", f"@/{name}?")


@contextmanager
def running_postgres(folder: Path) -> Iterator[PostgresForTests]:
    """Yield a server in `folder`, ready to hand out databases; stop it afterwards."""
    embedded = EmbeddedPostgres(folder, settings=SETTINGS)
    url = asyncio.run(embedded.start())
    try:
        postgres = PostgresForTests(url, superuser(folder))
        try:
            postgres.make_template()
            yield postgres
        finally:
            postgres.close()
    finally:
        asyncio.run(embedded.stop())


def superuser(data_dir: Path) -> Any:
    """Return a superuser's connection to the embedded server of `data_dir`, let in until it ends.

    Only who may write the server's own files can do this: the user it runs as, and root.
    """
    server = server_of(data_dir)
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write(f"local all {SUPERUSER} trust\n")
    server.send(signal.SIGHUP)

    def try_connect() -> Any:
        try:
            return psycopg2.connect(
                host=str(server.socket_folder), user=SUPERUSER, dbname="postgres"
            )
        except psycopg2.OperationalError:
            return None

    connection = until(try_connect, what="the superuser's connection")
    connection.autocommit = True
    return connection
