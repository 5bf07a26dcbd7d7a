"""Access to PostgreSQL: a small pool for short statements, and separate sessions and listeners.

It knows no tables. Statements are in `.sql` files (`actors/store/queries.py`), the schema in
`actors/store/schema.py`. Nothing is retried here, because a lost statement may have taken effect:
connections that the server has closed are detected before use, and callers decide on the rest.

Values are returned as psycopg2 makes them: bigint as int, numeric as Decimal, timestamptz as an
aware datetime in UTC, uuid as str, json and jsonb parsed, bytea as memoryview, text[] as list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType

from actors.store.connection import DatabaseConnection, Params, Row
from actors.store.errors import SUSPICION, DatabaseRefused, StoreUnavailable
from actors.store.listener import Listener
from actors.store.session import SERVER_PID, Session, check_sessions_are_kept
from channels.shares import OWNER, ShareRefused, Shares
from metrics.logs import EventLog

# Statements of one owner that wait for a connection of one pool.
WAITING_EACH_MAX = 200
# A refusal for the state of the server is logged at most so often for each code.
REFUSALS_EVERY_SECONDS = 10.0


class Database:
    """A pool of at most `size` connections, opened on demand; owners take turns (`OWNER`).

    `connect_seconds` bounds a connection attempt, `statement_seconds` a statement (enforced by the
    server), `wait_seconds` the wait for a free connection; `on_wait` gets the duration of each wait
    in seconds, including those that timed out; `on_refused` the SQLSTATE of each statement that the
    server refuses for its state, which is also logged. Every method raises StoreError.
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
        on_refused: Callable[[str], None] = lambda _sqlstate: None,
        log: EventLog | None = None,
    ) -> None:
        self._dsn = dsn
        self._size = size
        self._connect_seconds = connect_seconds
        self._statement_seconds = statement_seconds
        self._wait_seconds = wait_seconds
        self._on_wait = on_wait
        self._on_refused = on_refused
        self._refusals_logged: dict[str, float] = {}  # when, by SQLSTATE
        self._log = log or EventLog("actors.store.database")
        # One of several connections is left for other owners, however many statements one has.
        self._slots = Shares(size, max(1, size - 1), waiting_each=WAITING_EACH_MAX)
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
        """The maximum number of connections in the pool."""
        return self._size

    @property
    def in_use(self) -> int:
        """The number of connections in use, including those being opened."""
        return self._slots.used

    @property
    def idle(self) -> int:
        """The number of idle connections; the server may have closed some of them."""
        return len(self._idle)

    @property
    def open_count(self) -> int:
        """The number of open connections, including those of sessions and listeners."""
        return len(self._open)

    async def open(self) -> None:
        """Check that the database is available, and that a connection to it is a session.

        Raises SessionsNotKept if a pooler assigns servers to transactions or statements.
        """
        owner = OWNER.get()
        connection = await self._acquire(owner)
        try:
            ((pid,),) = await connection.fetch_all(SERVER_PID)
            is_direct = pid == connection.announced_pid
        finally:
            self._release(connection, owner)
        if not is_direct:
            await self._check_pooler()

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
        owner = OWNER.get()
        connection = await self._acquire(owner)
        try:
            return await connection.fetch_all(sql, params)
        finally:
            self._release(connection, owner)

    async def fetch_one(self, sql: str, params: Params = ()) -> Row | None:
        """Run one statement and return its first row, or None."""
        rows = await self.fetch_all(sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: str, params: Params = ()) -> int:
        """Run one statement and return the number of affected rows."""
        owner = OWNER.get()
        connection = await self._acquire(owner)
        try:
            return await connection.execute(sql, params)
        finally:
            self._release(connection, owner)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Run the body in one transaction on one connection (see Session.transaction)."""
        owner = OWNER.get()
        connection = await self._acquire(owner)
        try:
            async with Session(connection, self._forget).transaction() as session:
                yield session
        finally:
            self._release(connection, owner)

    async def session(self, *, statement_seconds: float | None = None) -> Session:
        """Open a separate connection outside the pool; the caller closes it.

        `statement_seconds` replaces the pool's limit for its statements.
        """
        connection = await self._connect(statement_seconds or self._statement_seconds)
        return Session(connection, self._forget)

    async def listen(
        self, channel: str, on_payload: Callable[[str], None], on_gap: Callable[[], None]
    ) -> Listener:
        """Call `on_payload` with each NOTIFY on `channel`, until the listener is closed.

        A lost connection is reopened in the background, then `on_gap` is called, because
        notifications may have been missed. Neither callback may block. Raises StoreUnavailable when
        the first connection fails; a standby, which takes no listeners, is tried again.
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

    async def _check_pooler(self) -> None:
        # The pooler may have no free server: wait as long as for a connection.
        async with AsyncExitStack() as stack:
            sessions = []
            for _ in range(2):
                session = await self.session(statement_seconds=self._connect_seconds)
                stack.push_async_callback(session.close)
                sessions.append(session)
            await check_sessions_are_kept(*sessions)

    async def _acquire(self, owner: str) -> DatabaseConnection:
        if not self._slots.try_take(owner):
            await self._wait_for_slot(owner)
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_fresh:
                    return connection
                self._forget(connection)
            return await self._connect(self._statement_seconds)
        except BaseException:
            self._slots.give_back(owner)
            raise

    async def _wait_for_slot(self, owner: str) -> None:
        now = asyncio.get_running_loop().time
        since = now()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._slots.take(owner)
        except ShareRefused as error:
            raise StoreUnavailable(f"{WAITING_EACH_MAX} statements of one owner wait") from error
        except TimeoutError as error:
            message = f"all {self._size} connections were busy for {self._wait_seconds} s"
            raise StoreUnavailable(message) from error
        finally:
            if self._on_wait is not None:
                self._on_wait(now() - since)

    def _release(self, connection: DatabaseConnection, owner: str) -> None:
        self._slots.give_back(owner)
        if connection.is_fresh and not self._is_closed:
            self._idle.append(connection)
        else:
            self._forget(connection)

    async def _connect(self, statement_seconds: float) -> DatabaseConnection:
        if self._is_closed:
            raise StoreUnavailable("the database was closed by this process")
        try:
            connection = await DatabaseConnection.open(
                self._dsn,
                connect_seconds=self._connect_seconds,
                statement_seconds=statement_seconds,
                on_refused=self._note_refusal,
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

    def _note_refusal(self, error: DatabaseRefused) -> None:
        self._on_refused(error.sqlstate)
        now = asyncio.get_running_loop().time()
        logged_at = self._refusals_logged.get(error.sqlstate, float("-inf"))
        if now - logged_at >= REFUSALS_EVERY_SECONDS:
            self._refusals_logged[error.sqlstate] = now
            self._log.error(
                "database_refused",
                sqlstate=error.sqlstate,
                error=str(error),
                within=error.within,
                suspect=SUSPICION if error.is_suspect else None,
            )

    def _forget(self, connection: DatabaseConnection) -> None:
        connection.close()
        self._open.discard(connection)
