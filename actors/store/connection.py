"""One connection to PostgreSQL: aiopg's, in autocommit, with one cursor, raising our errors.

It neither pools nor reconnects: `actors/store/database.py` pools, and callers decide on retries.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import aiopg
import psycopg2
from psycopg2 import extensions

from actors.store import errors
from actors.store.aiopg_connection import AiopgConnection
from actors.store.dsn import connection_parameters

Params = Mapping[str, object] | Sequence[object]
Row = tuple[Any, ...]

# How long after the server's own limit the connection is given up.
GRACE_SECONDS = 2.0
# `jit`: it compiles a statement of which the planner expects too many rows, such as a summary by
# groups, for longer than that takes.
SETTINGS = (
    "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {};"
    " SET timezone = 'UTC'; SET jit = off"
)
IDLE_IN_TRANSACTION_MS = 60_000


class DatabaseConnection:
    """A connection that runs one statement at a time and is closed by any failure."""

    def __init__(
        self,
        aiopg_connection: AiopgConnection,
        cursor: aiopg.Cursor,
        on_refused: Callable[[errors.DatabaseRefused], None],
    ) -> None:
        self._aiopg = aiopg_connection
        self._cursor = cursor
        self._on_refused = on_refused
        self._has_refused = False

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "busy" if self._aiopg.isexecuting() else "idle"
        return f"<DatabaseConnection {state}>"

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        connect_seconds: float,
        statement_seconds: float,
        on_refused: Callable[[errors.DatabaseRefused], None] = lambda _error: None,
    ) -> DatabaseConnection:
        """Connect. Raises StoreUnavailable, after `connect_seconds` at the latest.

        The server cancels a statement after `statement_seconds`. `on_refused` gets each refusal of
        a statement for the server's state, besides the caller, which takes it for an outage.
        """
        try:
            async with asyncio.timeout(connect_seconds):
                parameters = await connection_parameters(dsn)
                return await cls._open(parameters, statement_seconds, on_refused)
        except TimeoutError as error:
            message = f"the database did not answer within {connect_seconds} s"
            raise errors.StoreUnavailable(message) from error

    @classmethod
    async def _open(
        cls,
        parameters: Mapping[str, Any],
        statement_seconds: float,
        on_refused: Callable[[errors.DatabaseRefused], None],
    ) -> DatabaseConnection:
        connection: AiopgConnection | None = None
        try:
            connection = AiopgConnection(
                None,
                statement_seconds + GRACE_SECONDS,
                enable_json=False,
                enable_hstore=False,
                enable_uuid=False,
                **parameters,
            )
            await connection
            opened = cls(connection, await connection.cursor(), on_refused)
            limit_ms = round(statement_seconds * 1000)
            await opened.execute(SETTINGS.format(limit_ms, IDLE_IN_TRANSACTION_MS))
        except psycopg2.Error as error:
            raise errors.from_psycopg(error, connection_lost=True) from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        return opened

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer run statements."""
        return bool(self._aiopg.closed)

    @property
    def is_fresh(self) -> bool:
        """Whether it can be reused: open, outside a transaction, and not closed by the server.

        Data pending on an idle connection means that the server has closed it. One that refused a
        statement for its state is not reused: another may lead to another server, or has the
        settings and plans of today.
        """
        if self._has_refused or self.is_closed:
            return False
        if self.transaction_status != extensions.TRANSACTION_STATUS_IDLE:
            return False
        poll = select.poll()
        poll.register(self._aiopg.raw.fileno(), select.POLLIN)
        return not poll.poll(0)

    @property
    def transaction_status(self) -> int:
        """One of psycopg2's TRANSACTION_STATUS_ constants."""
        return int(self._aiopg.raw.get_transaction_status())

    @property
    def announced_pid(self) -> int:
        """The server pid in the greeting; a pooler invents its own."""
        return int(self._aiopg.raw.get_backend_pid())

    @property
    def notifies(self) -> Any:
        """The queue of NOTIFY messages; aiopg closes it permanently at the first SQL error."""
        return self._aiopg.notifies

    def quoted(self, name: str) -> str:
        """Quote an identifier, such as a LISTEN channel, which cannot be a parameter."""
        return str(extensions.quote_ident(name, self._aiopg.raw))

    def close(self) -> None:
        """Close it now; a running statement raises StoreUnavailable, the server may complete it."""
        self._aiopg.close()

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement and return its rows, `[]` if it returns none.

        Raises StoreError. When cancelled, the connection is closed, and the statement may still
        take effect.
        """
        await self._run(sql, params)
        if self._cursor.description is None:
            return []
        try:
            return list(await self._cursor.fetchall())
        except psycopg2.Error as error:  # it was closed meanwhile
            raise self._translated(error) from error

    async def execute(self, sql: str, params: Params = ()) -> int:
        """Run one statement, or several without parameters; return the number of affected rows."""
        await self._run(sql, params)
        return int(self._cursor.rowcount)

    async def _run(self, sql: str, params: Params) -> None:
        try:
            # None keeps psycopg2 from interpreting `%` in a statement without parameters.
            await self._cursor.execute(sql, params or None)
        except psycopg2.Error as error:
            raise self._translated(error) from error
        except TimeoutError as error:
            raise errors.StoreUnavailable(
                "the database did not answer the statement in time"
            ) from error

    def _translated(self, error: psycopg2.Error) -> errors.StoreError:
        translated = errors.from_psycopg(error, connection_lost=self.is_closed)
        if self.is_closed:
            self._aiopg.close()  # also unregisters it
        if isinstance(translated, errors.DatabaseRefused):
            self._has_refused = True
            self._on_refused(translated)
        return translated


class Executor(Protocol):
    """Executes one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...
