"""What can go wrong between us and PostgreSQL, in our own words.

The one border where psycopg2's exceptions become ours. It does not retry or log; who uses the
database decides that. The connections are in `actors/store/connection.py`.
"""

from __future__ import annotations

import psycopg2
from psycopg2 import extensions


class StoreError(Exception):
    """Anything the store can raise."""


class StoreUnavailable(StoreError):
    """The database could not be reached, or the connection was lost on the way.

    A statement under way may or may not have taken effect; ask the database again before
    repeating one that is not idempotent.
    """


class StatementTimedOut(StoreUnavailable):
    """The server stopped the statement because it took too long; it had no effect."""


class ConstraintViolated(StoreError):
    """A constraint of the schema refused the statement; it had no effect.

    `constraint_name` is the name given in the migration (for NOT NULL: the column's name), so
    that callers choose their domain error by it and never by the wording.
    """

    def __init__(self, constraint_name: str, message: str) -> None:
        super().__init__(message)
        self.constraint_name = constraint_name


class StatementRefused(StoreError):
    """The server refused the statement for what it says; it had no effect.

    `sqlstate` is PostgreSQL's five-character code.
    """

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def from_psycopg(error: psycopg2.Error, *, connection_lost: bool) -> StoreError:
    """Translate an exception of psycopg2.

    Only the first line of the message is kept: the others may quote the row or the statement.
    """
    lines = str(error).strip().splitlines()
    message = lines[0] if lines else type(error).__name__
    if isinstance(error, extensions.QueryCanceledError):
        return StatementTimedOut(message)
    if connection_lost or isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return StoreUnavailable(message)
    sqlstate = error.pgcode
    if sqlstate is None:
        # Nothing came from the server. A ProgrammingError is our own misuse of the driver; a
        # plain DatabaseError is how libpq tells of a connection that broke inside a reply.
        if isinstance(error, psycopg2.ProgrammingError | psycopg2.NotSupportedError):
            return StatementRefused("", message)
        return StoreUnavailable(message)
    if isinstance(error, psycopg2.IntegrityError):
        name = error.diag.constraint_name or error.diag.column_name or ""
        return ConstraintViolated(name, message)
    return StatementRefused(sqlstate, message)
