"""One connection to PostgreSQL: aiopg's, in autocommit, with one cursor, raising our errors.

It neither pools nor reconnects: `actors/store/database.py` pools, and callers decide on retries.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from weakref import ref

import aiopg
import psycopg2
from psycopg2 import ProgrammingError, errorcodes, extensions
from psycopg2.extensions import parse_dsn

from actors.clock import Clock
from channels.resources import FutureTimeouts

# The errors of the store.
#
# The only place where psycopg2's exceptions are translated. It neither retries nor logs; the caller
# decides that.


class StoreError(Exception):
    """Base of all errors of the store."""


class StoreUnavailable(StoreError):
    """The database could not be reached, or the connection was lost during the statement.

    A statement under way may or may not have taken effect; check before repeating one that is not
    idempotent.
    """


class StatementTimedOut(StoreUnavailable):
    """The server cancelled the statement because it took too long; it had no effect."""


class SessionsNotKept(StoreError):
    """The database is reached through a pooler that changes the session under a connection."""


class ContentRefused(StoreError):
    """The server refused the statement for what it says; it had no effect."""


class ConstraintViolated(ContentRefused):
    """A constraint of the schema refused the statement; it had no effect.

    `constraint_name` is the name in the migration (for NOT NULL: the column's name), by which
    callers distinguish errors, never by the message.
    """

    def __init__(self, constraint_name: str, message: str) -> None:
        super().__init__(message)
        self.constraint_name = constraint_name


class DatabaseRefused(StoreUnavailable):
    """The server refuses statements for its own state; the statement had no effect.

    It is read-only, its disk is full, a right or a function is missing: an operator or time mends
    it, and the same statement succeeds then. A defect in a statement of ours looks the same.
    `sqlstate` is PostgreSQL's five-character code.
    """

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StatementRefused(ContentRefused):
    """The server refused the values of the statement, or the driver the statement.

    `sqlstate` is PostgreSQL's five-character code.
    """

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


# Classes of SQLSTATE by which the values of a statement can be at fault: cardinality, data,
# integrity, and the limits of a value (a row too large, JSON too deep).
CONTENT_CLASSES = frozenset({"21", "22", "23", "54"})
# Classes that pass by themselves within the work of a sound server: a connection lost, a deadlock,
# a lock not granted in time, a shutdown.
PASSING_CLASSES = frozenset({"08", "40", "55", "57"})


def from_psycopg(error: psycopg2.Error, *, connection_lost: bool) -> StoreError:
    """Translate an exception of psycopg2.

    Only the first line of the message is kept: the others may quote the row or the statement.
    """
    lines = str(error).strip().splitlines()
    message = lines[0] if lines else type(error).__name__
    if isinstance(error, extensions.QueryCanceledError):
        return StatementTimedOut(message)
    sqlstate = error.pgcode
    if connection_lost or isinstance(error, psycopg2.InterfaceError):
        return StoreUnavailable(message)
    if sqlstate is None:
        # No error of the server. A ProgrammingError is our misuse of the driver; libpq reports a
        # connection that broke within a reply as a plain DatabaseError.
        if isinstance(error, psycopg2.ProgrammingError | psycopg2.NotSupportedError):
            return StatementRefused("", message)
        return StoreUnavailable(message)
    if sqlstate[:2] in PASSING_CLASSES:
        return StoreUnavailable(message)
    if sqlstate[:2] not in CONTENT_CLASSES:
        return DatabaseRefused(sqlstate, message)
    if isinstance(error, psycopg2.IntegrityError):
        name = error.diag.constraint_name or error.diag.column_name or ""
        if not name and sqlstate == errorcodes.CHECK_VIOLATION:
            # The bound of a partition: the month got its table while the statement waited for the
            # default one. A retry uses the new table.
            return StoreUnavailable(message)
        return ConstraintViolated(name, message)
    return StatementRefused(sqlstate, message)


# Builds the parameters of a connection from `database_url`.
#
# Resolves the host name on the loop, because libpq would resolve it in a blocking call and stop
# every stream of the process. Does not connect.

DEFAULTS = {
    "fallback_application_name": "gw",
    # A host that fails silently is detected within half a minute, also by a connection that only
    # listens.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # milliseconds
}


async def connection_parameters(dsn: str) -> dict[str, str]:
    """Parse `dsn` (a URL or libpq's `key=value` form), add defaults and the host's addresses.

    Raises StoreUnavailable when it cannot be parsed or its host has no address.
    """
    try:
        given: dict[str, str] = parse_dsn(dsn)
    except ProgrammingError as error:
        # The text of the error could quote the password.
        raise StoreUnavailable("the database address cannot be parsed") from error
    parameters = DEFAULTS | given
    host = given.get("host", "")
    is_name = host and not host.startswith(("/", "@")) and "," not in host
    if is_name and "hostaddr" not in given:
        addresses = await _addresses(host)
        parameters["hostaddr"] = ",".join(addresses)
        # libpq wants one name per address; TLS still verifies the name.
        parameters["host"] = ",".join([host] * len(addresses))
    return parameters


async def _addresses(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise StoreUnavailable(f"the database host {host!r} has no address") from error
    return list(dict.fromkeys(str(address[4][0]) for address in found))


Params = Mapping[str, object] | Sequence[object]
Row = tuple[Any, ...]

# How long after the server's own limit the connection is given up.
GRACE_SECONDS = 2.0
SETTINGS = (
    "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; SET timezone = 'UTC'"
)
IDLE_IN_TRANSACTION_MS = 60_000


class _Aiopg(aiopg.Connection):
    """aiopg's connection with six behaviours changed; tests check them."""

    def __init__(self, dsn: str | None, timeout: float, **parameters: Any) -> None:
        # One timer for all statements: one each was a tenth of a ledger batch's CPU here.
        self._timeouts = FutureTimeouts(timeout, TimeoutError)
        super().__init__(dsn, timeout, **parameters)
        self._is_connected = False
        self._breakage = _breakage_of(self._conn.fileno())

    async def _poll(self, waiter: asyncio.Future[None], timeout: float) -> None:
        """Wait for the server; close the connection when cancelled or timed out.

        aiopg raises CancelledError for the server's "statement timeout", which callers could not
        distinguish from a real cancellation. Here it stays psycopg2's QueryCanceledError.
        """
        self._go_on()
        self._timeouts.begin(waiter)
        try:
            await waiter
        except (asyncio.CancelledError, TimeoutError):
            self._close()
            raise
        finally:
            self._waiter = None
            self._timeouts.end(waiter)

    @staticmethod
    def _ready(weak_self: ref[Any]) -> None:
        """Let libpq read and write; pass on the result.

        aiopg checks by select() on any error whether its descriptor is still valid. But select()
        raises ValueError for the descriptors of a process with a thousand streams: the statement
        would wait forever and a lost connection would spin. And the descriptor may have been
        reused, for a file opened by a thread: it would stay registered for this connection, and its
        next owner could not be watched. Here libpq is asked.
        """
        connection: _Aiopg | None = weak_self()
        if connection is not None:
            connection._go_on()

    def _go_on(self) -> None:
        """Process all pending input and output.

        A server that dies before it reads a statement leaves its last messages and then an error.
        uvloop reports both in one event and stops watching, so a partly read reply would never
        complete.
        """
        waiter = self._waiter
        while self._advance() and self._breakage.poll(0):
            if waiter is not None and waiter.done():
                # First its rows are fetched: a connection known to be lost returns none.
                self._loop.call_soon(self._ready, self._weakref)
                return

    def _advance(self) -> bool:
        """Advance once; False when the statement or the connection has failed."""
        try:
            state = self._conn.poll()
            while self._conn.notifies:
                self._notifies.put_nowait(self._conn.notifies.pop(0))
        except (psycopg2.Warning, psycopg2.Error) as error:
            self._fail(error)
            return False
        if state == extensions.POLL_ERROR:
            self._close()  # which fails the waiter
            return False
        if not self._is_connected:
            self._is_connected = state == extensions.POLL_OK
            self._follow()
        if state == extensions.POLL_WRITE:
            if not self._writing and self._fileno is not None:
                self._loop.add_writer(self._fileno, self._ready, self._weakref)
                self._writing = True
            return True
        self._end_writing()
        if state == extensions.POLL_OK and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        return True

    def _follow(self) -> None:
        """Watch the socket that libpq uses now: each address of the host has its own.

        It often has the same number as the previous one, so it is always registered again.
        """
        self._leave_loop()
        number = self._fileno = self._conn.fileno()
        self._loop.add_reader(number, self._ready, self._weakref)
        self._breakage = _breakage_of(number)

    def _fail(self, error: Exception) -> None:
        if self._conn.closed or self._conn.fileno() < 0:  # libpq has closed the descriptor
            self._leave_loop()
        else:
            self._end_writing()
        self._notifies_proxy.close(error)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _close(self) -> None:
        # Idempotent: aiopg would unregister the number each time, even if it has been reused.
        self._leave_loop()
        super()._close()

    def _end_writing(self) -> None:
        if self._writing and self._fileno is not None:
            self._writing = False
            self._loop.remove_writer(self._fileno)

    def _leave_loop(self) -> None:
        """Unregister a descriptor, which is closed or may be."""
        if self._fileno is not None:
            with suppress(OSError):  # the kernel has dropped it already
                self._end_writing()
            self._loop.remove_reader(self._fileno)
            self._fileno = None


def _breakage_of(number: int) -> select.poll:
    """Return a poll for errors and hang-ups of this descriptor, and for nothing else."""
    breakage = select.poll()
    breakage.register(number, 0)
    return breakage


class DatabaseConnection:
    """A connection that runs one statement at a time and is closed by any failure."""

    def __init__(
        self,
        aiopg_connection: _Aiopg,
        cursor: aiopg.Cursor,
        on_refused: Callable[[DatabaseRefused], None],
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
        on_refused: Callable[[DatabaseRefused], None] = lambda _error: None,
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
            raise StoreUnavailable(message) from error

    @classmethod
    async def _open(
        cls,
        parameters: Mapping[str, Any],
        statement_seconds: float,
        on_refused: Callable[[DatabaseRefused], None],
    ) -> DatabaseConnection:
        connection: _Aiopg | None = None
        try:
            connection = _Aiopg(
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
            raise from_psycopg(error, connection_lost=True) from error
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
            raise StoreUnavailable("the database did not answer the statement in time") from error

    def _translated(self, error: psycopg2.Error) -> StoreError:
        translated = from_psycopg(error, connection_lost=self.is_closed)
        if self.is_closed:
            self._aiopg.close()  # also unregisters it
        if isinstance(translated, DatabaseRefused):
            self._has_refused = True
            self._on_refused(translated)
        return translated


# How long a request waits for the database.
#
# A statement may run as long as its pool allows; a client does not wait for that. A frozen server
# keeps its connections open and sends nothing, so only its silence shows it. Storing an upstream's
# result has no timeout: it would be lost.

T = TypeVar("T")

# A read before a response takes milliseconds.
READ_SECONDS = 2.0
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0


async def in_time(reading: Awaitable[T]) -> T:
    """Limit a read that a client waits for. Raises StoreUnavailable after `READ_SECONDS`."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await reading
    except TimeoutError:
        raise StoreUnavailable(f"the database has been silent for {READ_SECONDS:g} s") from None


async def until_stored(
    store: Callable[[], Awaitable[T]], clock: Clock, failed: Callable[[StoreUnavailable], None]
) -> T:
    """Retry storing something that must not be lost until the database is available.

    `store` must be idempotent; `failed` gets each failure. Other errors of `store` are raised.
    """
    backoff = BACKOFF_FIRST_SECONDS
    while True:
        try:
            return await store()
        except StoreUnavailable as error:
            failed(error)
            await clock.sleep(backoff)
            backoff = min(2 * backoff, BACKOFF_MAX_SECONDS)


class Executor(Protocol):
    """Executes one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...
