"""A connection held for one user: the ledger writer's own, or the one of a running transaction.

Never reconnects: a broken session stays closed and says so, and its user asks the database for a
new one (`actors/store/database.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from psycopg2 import extensions

from actors.store.connection import DatabaseConnection, Params, Row
from actors.store.errors import StatementRefused, StoreUnavailable

T = TypeVar("T")
ABORTED = "25P02"  # PostgreSQL: in_failed_sql_transaction


class Statements(Protocol):
    """Anything that runs one statement after another: the pool, or a transaction."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...
    async def fetch_one(self, sql: str, params: Params = ()) -> Row | None: ...
    async def execute(self, sql: str, params: Params = ()) -> int: ...


class Session:
    """One connection in autocommit; statements run one after the other, from one task."""

    def __init__(
        self, connection: DatabaseConnection, on_close: Callable[[DatabaseConnection], None]
    ) -> None:
        self._connection = connection
        self._on_close = on_close

    def __repr__(self) -> str:
        return f"<Session {self._connection!r}>"

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or broke, or was cancelled in the middle of a statement."""
        return self._connection.is_closed

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement and return its rows. Raises StoreError."""
        self._check()
        return await self._connection.fetch_all(sql, params)

    async def fetch_one(self, sql: str, params: Params = ()) -> Row | None:
        """Run one statement and return its first row. Raises StoreError."""
        rows = await self.fetch_all(sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: str, params: Params = ()) -> int:
        """Run one statement and return the number of rows touched. Raises StoreError."""
        self._check()
        return await self._connection.execute(sql, params)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run the body between BEGIN and COMMIT; an exception rolls back.

        A cancelled body closes the session, which rolls back too. Once COMMIT is on its way a
        cancellation waits for its outcome. StoreUnavailable from COMMIT leaves the outcome
        unknown; StatementRefused (25P02) says that the body hid an SQL error, and nothing was
        committed.
        """
        await self.execute("BEGIN")
        try:
            yield self
        except Exception:
            await self._roll_back()
            raise
        except BaseException:
            self._connection.close()
            raise
        if self._connection.transaction_status == extensions.TRANSACTION_STATUS_INERROR:
            # PostgreSQL would answer COMMIT with a rollback and no error.
            await self._roll_back()
            raise StatementRefused(ABORTED, "the transaction had failed before its commit")
        await carried_through(self.execute("COMMIT"))

    async def close(self) -> None:
        """Close the connection; a transaction still open is rolled back by the server."""
        self._connection.close()
        self._on_close(self._connection)

    async def _roll_back(self) -> None:
        try:
            if not self.is_closed:
                await carried_through(self.execute("ROLLBACK"))
        except StoreUnavailable:
            # What the server does with a lost connection is a rollback.
            self._connection.close()

    def _check(self) -> None:
        if self._connection.is_closed:
            raise StoreUnavailable("the session is closed")


async def carried_through(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even when the caller is cancelled meanwhile; then cancel the caller."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # its caller has left and no other will ask for its result
    raise cancelled
