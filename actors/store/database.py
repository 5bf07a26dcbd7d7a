"""The way to PostgreSQL: a small pool for short statements, sessions and listeners beside it.

Knows no table. Statements stand in `.sql` files (`actors/store/queries.py`), the schema in
`actors/store/migrations/`. Nothing is ever repeated here, because a lost statement may have taken
effect: connections that the server has dropped are found before they are used, and who calls
decides about the rest.

Values come back as psycopg2 makes them: bigint as int, numeric as Decimal, timestamptz as an aware
datetime in UTC, uuid as str, json and jsonb parsed, bytea as memoryview, text[] as list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType

from actors.store.connection import DatabaseConnection, Params, Row
from actors.store.errors import (
    ConstraintViolated,
    StatementRefused,
    StatementTimedOut,
    StoreError,
    StoreUnavailable,
)
from actors.store.listener import Listener
from actors.store.session import Session
from metrics.logs import EventLog

__all__ = [
    "ConstraintViolated",
    "Database",
    "Listener",
    "Session",
    "StatementRefused",
    "StatementTimedOut",
    "StoreError",
    "StoreUnavailable",
]


class Database:
    """A pool of at most `size` connections, opened as they are needed.

    `connect_seconds` bounds a connection attempt, `statement_seconds` a statement (the server
    enforces it), `wait_seconds` the wait for a free connection; `on_wait` is told how long each
    lasted, in seconds, those given up too. Every method raises StoreError.
    """

    def __init__(
        self,
        dsn: str,
        *,
        size: int = 4,
        connect_seconds: float = 3.0,
        statement_seconds: float = 30.0,
        wait_seconds: float = 5.0,
        on_wait: Callable[[float], None] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._dsn = dsn
        self._size = size
        self._connect_seconds = connect_seconds
        self._statement_seconds = statement_seconds
        self._wait_seconds = wait_seconds
        self._on_wait = on_wait
        self._log = log or EventLog("actors.store.database")
        self._free_slots = asyncio.Semaphore(size)
        self._in_use = 0
        self._idle: list[DatabaseConnection] = []
        self._open: set[DatabaseConnection] = set()
        self._listeners: set[Listener] = set()
        self._is_closed = False
        self._is_up = True

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "up" if self._is_up else "down"
        return f"<Database {state} {len(self._open)} open {len(self._idle)} idle>"

    @property
    def is_up(self) -> bool:
        """Whether the latest attempt to connect succeeded."""
        return self._is_up

    @property
    def size(self) -> int:
        """How many connections the pool may have."""
        return self._size

    @property
    def in_use(self) -> int:
        """How many of them are taken, those with them that are being opened."""
        return self._in_use

    @property
    def idle(self) -> int:
        """How many are open and free; some of them may have been dropped by the server."""
        return len(self._idle)

    async def open(self) -> None:
        """Make sure that the database answers."""
        await self.fetch_one("SELECT 1")

    async def close(self) -> None:
        """Close every connection, also those in use, whose users get StoreUnavailable."""
        self._is_closed = True
        for listener in list(self._listeners):
            await listener.close()
        for connection in list(self._open):
            self._forget(connection)
        self._idle.clear()

    async def __aenter__(self) -> Database:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement and return its rows."""
        connection = await self._acquire()
        try:
            return await connection.fetch_all(sql, params)
        finally:
            self._release(connection)

    async def fetch_one(self, sql: str, params: Params = ()) -> Row | None:
        """Run one statement and return its first row, None when there is none."""
        rows = await self.fetch_all(sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: str, params: Params = ()) -> int:
        """Run one statement and return the number of rows touched."""
        connection = await self._acquire()
        try:
            return await connection.execute(sql, params)
        finally:
            self._release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run the body in one transaction on one connection (see Session.transaction)."""
        connection = await self._acquire()
        try:
            async with Session(connection, self._forget).transaction() as session:
                yield session
        finally:
            self._release(connection)

    async def session(self, *, statement_seconds: float | None = None) -> Session:
        """Open a connection of the caller's own, outside the pool; the caller closes it.

        `statement_seconds` is a limit for its statements other than the pool's.
        """
        connection = await self._connect(statement_seconds or self._statement_seconds)
        return Session(connection, self._forget)

    async def listen(
        self, channel: str, on_payload: Callable[[str], None], on_gap: Callable[[], None]
    ) -> Listener:
        """Call `on_payload` with each NOTIFY on `channel`, from now until the listener is closed.

        A lost connection is made again in the background, then `on_gap` is called: pushes may
        have been missed. Neither callback may block. Raises StoreUnavailable when the first
        connection cannot be made.
        """
        listener = Listener(
            channel,
            on_payload=on_payload,
            on_gap=on_gap,
            connect=lambda: self._connect(self._statement_seconds),
            forget=self._forget,
            on_close=self._listeners.discard,
            log=self._log,
        )
        self._listeners.add(listener)
        try:
            await listener.start()
        except BaseException:
            self._listeners.discard(listener)
            raise
        return listener

    async def _acquire(self) -> DatabaseConnection:
        if self._free_slots.locked():
            await self._wait_for_slot()
        else:
            await self._free_slots.acquire()
        self._in_use += 1
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_fresh:
                    return connection
                self._forget(connection)
            return await self._connect(self._statement_seconds)
        except BaseException:
            self._free_slot()
            raise

    async def _wait_for_slot(self) -> None:
        now = asyncio.get_running_loop().time
        since = now()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free_slots.acquire()
        except TimeoutError as error:
            message = f"all {self._size} connections were busy for {self._wait_seconds} s"
            raise StoreUnavailable(message) from error
        finally:
            if self._on_wait is not None:
                self._on_wait(now() - since)

    def _release(self, connection: DatabaseConnection) -> None:
        self._free_slot()
        if connection.is_fresh and not self._is_closed:
            self._idle.append(connection)
        else:
            self._forget(connection)

    def _free_slot(self) -> None:
        self._in_use -= 1
        self._free_slots.release()

    async def _connect(self, statement_seconds: float) -> DatabaseConnection:
        if self._is_closed:
            raise StoreUnavailable("the database was closed by this process")
        try:
            connection = await DatabaseConnection.open(
                self._dsn,
                connect_seconds=self._connect_seconds,
                statement_seconds=statement_seconds,
            )
        except StoreUnavailable as error:
            if self._is_up:
                self._is_up = False
                self._log.warning("database_lost", error=str(error))
            raise
        if self._is_closed:  # meanwhile
            connection.close()
            raise StoreUnavailable("the database was closed by this process")
        self._open.add(connection)
        if not self._is_up:
            self._is_up = True
            self._log.info("database_reached")
        return connection

    def _forget(self, connection: DatabaseConnection) -> None:
        connection.close()
        self._open.discard(connection)
