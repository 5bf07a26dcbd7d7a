"""The errors of the store.

The only place where psycopg2's exceptions are translated. It neither retries nor logs; the caller
decides that.
"""

from __future__ import annotations

import psycopg2
from psycopg2 import errorcodes, extensions


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
