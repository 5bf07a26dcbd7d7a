"""The errors of the store.

The only place where psycopg2's exceptions are translated. It neither retries nor logs; the caller
decides that.
"""

from __future__ import annotations

import re

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
    it, and the same statement succeeds then. A defect in a statement of ours looks the same
    (`is_suspect`). `sqlstate` is PostgreSQL's five-character code, `within` the function of the
    schema that was refused a statement, with its line; empty outside of them.
    """

    def __init__(self, sqlstate: str, message: str, within: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.within = within

    @property
    def is_suspect(self) -> bool:
        """Whether a sound schema has no state that is refused so; a missing right is one."""
        return self.sqlstate[:2] == NAMES_CLASS and self.sqlstate != RIGHT_MISSING

    @property
    def described(self) -> str:
        """What is refused, in words for an operator."""
        text = f"refuses with {self.sqlstate}" + (f" in {self.within}" if self.within else "")
        return f"{text}: {SUSPICION}" if self.is_suspect else text


# The class of names and types that a statement has and the schema lacks, and of rights.
NAMES_CLASS, RIGHT_MISSING = "42", "42501"
SUSPICION = "a defect of the gateway, unless the schema was changed by hand"


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
        return DatabaseRefused(sqlstate, message, _within(error.diag.context))
    if isinstance(error, psycopg2.IntegrityError):
        name = error.diag.constraint_name or error.diag.column_name or ""
        if not name and sqlstate == errorcodes.CHECK_VIOLATION:
            # The bound of a partition: the month got its table while the statement waited for the
            # default one. A retry uses the new table.
            return StoreUnavailable(message)
        return ConstraintViolated(name, message)
    return StatementRefused(sqlstate, message)


_IN_FUNCTION = re.compile(r"^PL/pgSQL function (\w+)\(.*\) (line \d+)", re.MULTILINE)


def _within(context: str | None) -> str:
    """Return the innermost of our functions that PostgreSQL names, without what it quotes."""
    found = _IN_FUNCTION.search(context or "")
    return "" if found is None else f"{found[1]}, {found[2]}"
