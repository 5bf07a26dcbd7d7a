"""Reads the tables of a new-api database, in PostgreSQL or SQLite, in one snapshot.

(https://github.com/QuantumNous/new-api, model/*.go.) It only reads. Columns differ between
versions: the needed ones must exist, the others may be missing. A file of SQLite is a stranger's
program: of it only rows of plain tables are read, within a time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import psycopg2
import psycopg2.extensions

from gw.config.faults import ConfigFaults, Fault

# The `status` of enabled rows.
ENABLED = 1
# The columns read of each table: needed ones, then those that may be missing.
COLUMNS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "channels": (
        ("id", "type", "key", "status", "name", "base_url", "models", "group", "model_mapping"),
        (
            *("priority", "weight", "other", "openai_organization", "param_override"),
            *("header_override", "status_code_mapping", "setting", "channel_info"),
        ),
    ),
    "options": (("key", "value"), ()),
    "users": (
        ("id", "username", "status", "quota", "group", "deleted_at"),
        ("aff_code", "aff_quota", "created_at"),
    ),
    "tokens": (
        (
            *("id", "user_id", "status", "name", "expired_time", "remain_quota"),
            *("unlimited_quota", "deleted_at"),
        ),
        ("model_limits_enabled", "model_limits", "allow_ips", "group"),
    ),
}
# More than any installation has; a larger table means the wrong database.
ROWS_MAX = 1_000_000
CONNECT_SECONDS = 10
STATEMENT_MS = 120_000
# Of SQLite: steps of its machine between two looks at the clock, and bytes of a value.
SQLITE_STEPS = 10_000
VALUE_BYTES_MAX = 16 * 1024 * 1024

Row = Mapping[str, Any]


class DriverCursor(Protocol):
    """The methods that the cursors of both drivers share."""

    @property
    def description(self) -> Any: ...
    def execute(self, sql: str, /) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...


def read_tables(url: str) -> dict[str, list[Row]]:
    """Read all tables of the database at `url`. Raises ConfigFaults, which show no password."""
    with _connected(url) as cursor:
        return {table: _rows(cursor, table, url) for table in COLUMNS}


@contextmanager
def _connected(url: str) -> Iterator[DriverCursor]:
    scheme = urlsplit(url).scheme
    try:
        if scheme in ("postgresql", "postgres"):
            with closing(
                psycopg2.connect(
                    url,
                    connect_timeout=CONNECT_SECONDS,
                    options=f"-c statement_timeout={STATEMENT_MS}",
                )
            ) as connection:
                connection.set_session(
                    readonly=True,
                    isolation_level=psycopg2.extensions.ISOLATION_LEVEL_REPEATABLE_READ,
                )
                with connection.cursor() as cursor:
                    yield cursor
        elif scheme == "sqlite":
            path = Path(url.partition("://")[2].removeprefix("/"))
            if not path.is_file():
                raise ConfigFaults([_fault(url, "no file")])
            with closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            ) as connection:
                _confine(connection)
                connection.execute("BEGIN")
                yield connection.cursor()
        else:
            found = f"a database of {scheme}" if scheme else "no address of a database"
            if _is_mysql(url):
                found = "a database of mysql, which is not read: no driver of it comes with this"
            raise ConfigFaults([_fault(url, found)])
    except (psycopg2.Error, sqlite3.Error, ValueError) as error:
        reason = str(error).strip().splitlines()
        raise ConfigFaults([_fault(url, reason[0] if reason else "no database")]) from None


def _confine(connection: sqlite3.Connection) -> None:
    """Let a connection only read columns of tables, for so long, and no value that is longer.

    A view, a trigger, a generated column or an index can hold any expression, and a virtual table
    runs the code of its module. Nothing here calls a function; what does is refused.
    """
    deadline = time.monotonic() + STATEMENT_MS / 1000
    connection.set_progress_handler(lambda: time.monotonic() > deadline, SQLITE_STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(_authorized)


def _authorized(
    action: int, first: str | None, second: str | None, name: str | None, inner: str | None
) -> int:
    """Return SQLite's word on one access; `inner` is the view or trigger that it is made by."""
    is_read = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION)
    is_pragma = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
    return sqlite3.SQLITE_OK if (is_read and inner is None) or is_pragma else sqlite3.SQLITE_DENY


def _require_plain(cursor: sqlite3.Cursor, table: str, url: str) -> None:
    """Raise ConfigFaults unless the table is a plain one, without generated columns."""
    plain = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND rootpage > 0"
    cursor.execute(plain, (table,))
    if cursor.fetchone() is None:
        raise ConfigFaults([_fault(url, f"no table {table}, or one that is no plain table")])
    for column in cursor.execute(f'PRAGMA table_xinfo("{table}")'):
        if column[-1]:  # hidden, or generated
            found = f"a table {table} whose column {column[1]!r} is generated"
            raise ConfigFaults([_fault(url, found)])


def _rows(cursor: DriverCursor, table: str, url: str) -> list[Row]:
    if isinstance(cursor, sqlite3.Cursor):
        _require_plain(cursor, table, url)
    cursor.execute(f'SELECT * FROM "{table}" LIMIT 0')
    there = {column[0] for column in cursor.description}
    needed, others = COLUMNS[table]
    missing = [name for name in needed if name not in there]
    if missing:
        found = f"a table {table} without {', '.join(missing)}"
        raise ConfigFaults([_fault(url, found)])
    names = [*needed, *(name for name in others if name in there)]
    columns = ", ".join(f'"{name}"' for name in names)
    cursor.execute(f'SELECT {columns} FROM "{table}" ORDER BY 1 LIMIT {ROWS_MAX + 1}')
    rows = cursor.fetchmany(ROWS_MAX + 1)
    if len(rows) > ROWS_MAX:
        raise ConfigFaults([_fault(url, f"more than {ROWS_MAX} rows in {table}")])
    missing_ones = dict.fromkeys(others)
    return [{**missing_ones, **dict(zip(names, row, strict=True))} for row in rows]


def _fault(url: str, found: str) -> Fault:
    hint = "of MySQL, let a tool such as pgloader copy it into PostgreSQL first"
    allowed = "a database of new-api: postgresql://… or sqlite:///PATH"
    return Fault(shown(url), "", found, allowed, hint if _is_mysql(url) else "")


def _is_mysql(url: str) -> bool:
    """Whether an address is of MySQL; new-api's own have no scheme: `user:word@tcp(host)/name`."""
    return url.startswith("mysql") or "@tcp(" in url or "@unix(" in url


def shown(url: str) -> str:
    """Return a database's address without its credentials."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    is_address = parts.scheme and "://" in url and "@" not in parts.path
    return f"{parts.scheme}://{host}{parts.path}" if is_address else "--database"


def json_of(text: Any) -> Any:
    """Return the value of a JSON column; None if it is NULL or invalid."""
    if text is None or isinstance(text, dict | list):
        return text
    try:
        return json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, TypeError, RecursionError):
        return None
