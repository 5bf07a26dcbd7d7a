"""A connection held by one user: the ledger writer, or a running transaction.

It never reconnects: a broken session stays closed and raises, and its user requests a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from psycopg2 import extensions

from actors.store.connection import DatabaseConnection, Params, Row
from actors.store.errors import SessionsNotKept, StatementRefused, StoreUnavailable

T = TypeVar("T")

ABORTED = "25P02"  # PostgreSQL: in_failed_sql_transaction
SERVER_PID = "SELECT pg_backend_pid()"
# One round suffices if other clients of the pooler are idle; each of them can hide it once.
POOLER_ROUNDS = 20
NOT_KEPT = (
    "the database is reached through a pooler that gives a connection another session for each "
    "transaction, which LISTEN and the ledger's one writer cannot work with: set "
    "pool_mode = session for this database, or give database_url the address of PostgreSQL itself"
)


class Statements(Protocol):
    """Executes one statement after another: the pool, or a transaction."""

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
        """Whether it was closed, or broke, or was cancelled within a statement."""
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
        """Run one statement and return the number of affected rows. Raises StoreError."""
        self._check()
        return await self._connection.execute(sql, params)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run the body between BEGIN and COMMIT; an exception rolls back.

        A cancelled body closes the session, which rolls back too. After COMMIT was sent, a
        cancellation waits for its outcome. StoreUnavailable from COMMIT leaves the outcome unknown;
        StatementRefused (25P02) means that the body suppressed an SQL error, and nothing was
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
        """Close the connection; the server rolls back an open transaction."""
        self._connection.close()
        self._on_close(self._connection)

    async def _roll_back(self) -> None:
        try:
            if not self.is_closed:
                await carried_through(self.execute("ROLLBACK"))
        except StoreUnavailable:
            # The server rolls back on a lost connection.
            self._connection.close()

    def _check(self) -> None:
        if self._connection.is_closed:
            raise StoreUnavailable("the session is closed")


async def check_sessions_are_kept(first: Session, second: Session) -> None:
    """Raise SessionsNotKept if two connections share servers, as with transaction pooling.

    A direct connection has one server process for its lifetime. While the other connection has a
    transaction open, a pooled one either shares its process or gets another one. The pooler may
    assign servers in rotation, so `first` runs one and two statements by turns.
    """
    for number in range(POOLER_ROUNDS):
        seen = {await first.fetch_one(SERVER_PID) for _ in range(1 + number % 2)}
        try:
            async with second.transaction():
                other = await second.fetch_one(SERVER_PID)
                if other not in seen:  # else its server may be the only one: do not wait for it
                    seen.add(await first.fetch_one(SERVER_PID))
                if other in seen or len(seen) > 1:
                    raise SessionsNotKept(NOT_KEPT)
        except StoreUnavailable as error:
            if "statement pooling" in str(error):  # it closes the connection at a transaction
                raise SessionsNotKept(NOT_KEPT) from error
            raise


async def carried_through(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled meanwhile; then raise that."""
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
        task.exception()  # retrieved, because the cancelled caller will not
    raise cancelled
