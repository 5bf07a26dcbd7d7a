"""Access to PostgreSQL: a small pool for short statements, and separate sessions and listeners.

It knows no tables. Statements are in `.sql` files (`actors/store/queries.py`), the schema in
`actors/store/schema.py`. Nothing is retried here, because a lost statement may have taken effect:
connections that the server has closed are detected before use, and callers decide on the rest.

Values are returned as psycopg2 makes them: bigint as int, numeric as Decimal, timestamptz as an
aware datetime in UTC, uuid as str, json and jsonb parsed, bytea as memoryview, text[] as list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

from psycopg2 import Error, extensions

from actors.store.connection import (
    DatabaseConnection,
    DatabaseRefused,
    Params,
    Row,
    SessionsNotKept,
    StatementRefused,
    StoreError,
    StoreUnavailable,
)
from channels.shares import OWNER, ShareRefused, Shares
from metrics.logs import EventLog

# A connection that only executes LISTEN, and reconnects by itself.
#
# It runs no other statement, because the first SQL error on an aiopg connection closes its queue of
# notifications permanently. Callers choose the channels; triggers of the schema send the
# notifications.

BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0
# Statements of one owner that wait for a connection of one pool.
WAITING_EACH_MAX = 200


class Listener:
    """Passes on the notifications of one channel until closed."""

    def __init__(
        self,
        channel: str,
        *,
        on_payload: Callable[[str], None],
        on_gap: Callable[[], None],
        connect: Callable[[], Awaitable[DatabaseConnection]],
        forget: Callable[[DatabaseConnection], None],
        on_close: Callable[[Listener], None],
        log: EventLog,
    ) -> None:
        self._channel = channel
        self._on_payload = on_payload
        self._on_gap = on_gap
        self._connect = connect
        self._forget = forget
        self._on_close = on_close
        self._log = log
        self._connection: DatabaseConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state = "closed" if self._task is None else "lost" if self._connection is None else "on"
        return f"<Listener {self._channel} {state}>"

    async def start(self) -> None:
        """Connect and start passing on notifications. Raises StoreUnavailable."""
        self._connection = await self._listening()
        self._task = asyncio.create_task(self._run(), name=f"listen {self._channel}")

    async def close(self) -> None:
        """Stop; no callback is called afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._drop()
        self._on_close(self)

    async def _run(self) -> None:
        while True:
            assert self._connection is not None
            await self._hand_on(self._connection)
            self._drop()
            self._connection = await self._listening_again()
            # Only now: any write missed by reads from here on is followed by a notification.
            self._call(self._on_gap)

    async def _hand_on(self, connection: DatabaseConnection) -> None:
        """Pass on notifications; return when the connection is lost."""
        while True:
            try:
                notification = await connection.notifies.get()
            except Error as error:
                self._log.warning("listener_lost", channel=self._channel, error=str(error).strip())
                return
            self._call(partial(self._on_payload, notification.payload))

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # noqa: BLE001 - one bad payload must not end the listening
            self._log.error("listener_callback_failed", channel=self._channel, exc_info=True)

    async def _listening(self) -> DatabaseConnection:
        connection = await self._connect()
        try:
            await connection.execute(f"LISTEN {connection.quoted(self._channel)}")
        except BaseException:
            self._forget(connection)
            raise
        return connection

    async def _listening_again(self) -> DatabaseConnection:
        backoff = BACKOFF_FIRST_SECONDS
        while True:
            try:
                return await self._listening()
            except StoreError:
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, BACKOFF_MAX_SECONDS)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._forget(connection)


# A connection held by one user: the ledger writer, or a running transaction.
#
# It never reconnects: a broken session stays closed and raises, and its user requests a new one.

T = TypeVar("T")
# A refusal for the state of the server is logged at most so often for each code.
REFUSALS_EVERY_SECONDS = 10.0
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
        the first connection fails.
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
            self._log.error("database_refused", sqlstate=error.sqlstate, error=str(error))

    def _forget(self, connection: DatabaseConnection) -> None:
        connection.close()
        self._open.discard(connection)
