"""The context of a command: the configuration, and the open database.

It uses the database of a running gateway, or starts the embedded one for the command; both may
use it at once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from actors.changes import heard_by_all
from actors.store.database import Database
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.store.schema import migrate
from actors.store.session import Session
from gw.admin.audit import Actor
from gw.cli.output import Result
from gw.config.config import Config
from gw.config.load import load
from gw.config.path import find_path
from gw.keys.secret import Secret, load_secret


@dataclass(frozen=True, slots=True)
class Context:
    """The configuration and services of one command."""

    config: Config
    database: Database

    def secret(self) -> Secret:
        """Return the secret of stored keys. Raises SecretFault."""
        config = self.config
        return load_secret(config.secret, config.data_dir, previous=config.previous_secret)

    @asynccontextmanager
    async def change(self) -> AsyncIterator[tuple[Session, Actor]]:
        """Open a transaction, with the actor of its changes."""
        async with self.database.transaction() as session:
            yield session, Actor.of_this_process()

    async def in_force(self) -> None:
        """Return when committed changes apply in every running gateway."""
        await heard_by_all(self.database, token=secrets.token_hex(8))


Work = Callable[[Context, Namespace], Awaitable[Result]]
Check = Callable[[Namespace], object]


def with_database(work: Work, *, check: Check | None = None) -> Callable[[Namespace], Result]:
    """Return a command that reads the configuration, opens the database and calls `work`.

    `check` validates the options before anything is opened.
    """

    async def do(config: Config, options: Namespace) -> Result:
        async with opened(config) as context:
            return await work(context, options)

    def run(options: Namespace) -> Result:
        if check is not None:
            check(options)
        return asyncio.run(do(read_config(options), options))

    return run


def read_config(options: Namespace) -> Config:
    """Find and read the configuration file. Raises ConfigFaults."""
    return load(find_config(options), os.environ)


def find_config(options: Namespace) -> Path:
    """Return the path of the configuration file (running.md: Commands). Raises ConfigFaults."""
    return find_path(getattr(options, "config", None), os.environ, Path.cwd())


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[Context]:
    """Open the database of `config`, migrated to this program's schema.

    Raises StoreError, EmbeddedFault, MigrationFault.
    """
    async with AsyncExitStack() as stack:
        dsn = config.database_url
        if not dsn:
            embedded = EmbeddedPostgres(config.data_dir)
            dsn = await embedded.start()
            stack.push_async_callback(embedded.stop)
        database = await stack.enter_async_context(Database(dsn, size=1))
        await migrate(database)
        yield Context(config, database)
