"""Reads a room's `.sql` file into a mapping from query name to SQL.

Only loads text: what runs it is `actors/store/database.py`. A file looks like

    -- top_up --
    -- Credit an account and write the entry, together.
    UPDATE accounts SET …

with a header, one line that says what the query is for, and the statement. Parameters are
psycopg2's `%s` or `%(name)s`; with parameters a literal percent sign is written `%%`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from actors.store.connection import ConstraintViolated, StatementRefused
from actors.store.database import Database, Session

HEADER = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.MULTILINE)


class QueryFileFault(Exception):
    """A query file that is not written as it must be; the message names file and query."""


def load(package: str, filename: str) -> Mapping[str, str]:
    """Return the queries of `filename` beside the modules of `package`, by name.

    Raises QueryFileFault.
    """
    return parse(files(package).joinpath(filename).read_text(encoding="utf-8"), filename)


def parse(text: str, filename: str) -> Mapping[str, str]:
    """Split the text of a query file. Raises QueryFileFault."""
    preamble, *rest = HEADER.split(text)
    if any(line.strip() and not line.startswith("--") for line in preamble.splitlines()):
        raise QueryFileFault(f"{filename}: SQL stands before the first `-- name --` header")
    queries: dict[str, str] = {}
    for name, section in zip(rest[::2], rest[1::2], strict=True):
        description, _, sql = section.lstrip("\n").partition("\n")
        if not re.match(r"-- \S", description):
            raise QueryFileFault(f"{filename}: {name} has no line that says what it is for")
        if not re.search(r"^(?!--)\s*\S", sql, re.MULTILINE):
            raise QueryFileFault(f"{filename}: {name} has no SQL")
        if name in queries:
            raise QueryFileFault(f"{filename}: {name} stands there twice")
        queries[name] = sql.strip()
    return MappingProxyType(queries)


def settings(changes: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """The parameters of an UPDATE that sets some columns: of each whether to set it (`set_…`), and
    to what."""
    params: dict[str, Any] = {}
    for column in columns:
        params[f"set_{column}"] = column in changes
        params[column] = changes.get(column)
    return params


# Brings a database to the schema of this code: the files of `migrations/`, in order, each once.
#
# Only goes forward. The first files hold the schema as it was released, by noun; from then on they
# only grow: what a migration does stands in its own `.sql` file, which is never edited, corrected
# only by a later one.

FOLDER = Path(__file__).parent / "migrations"
FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
# Any number will do as long as no other user of the database takes it.
LOCK_KEY = 0x67775F6D69677261
# For one migration of a large table, and for waiting until another process has done it.
TIMEOUT_SECONDS = 24 * 3600.0
SQL = load("actors.store", "schema_migrations.sql")
WAY_OUT = (
    "A database made before the first release cannot be taken over: start with an empty one "
    "(another database_url, or without one another data_dir), or go on with the program that made "
    "it"
)


class MigrationFault(Exception):
    """A migration that cannot be applied; nothing of it was."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the folder."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What tells an edited file from the one that was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


async def migrate(database: Database, folder: Path = FOLDER) -> list[str]:
    """Apply what is missing, each file in a transaction of its own; return their names.

    Safe to call from several processes at once: one works, the others wait and find nothing left
    to do. Raises MigrationFault for a badly numbered folder, a file edited after it was applied,
    a database that is newer than this code and SQL that fails; StoreUnavailable.
    """
    migrations = read(folder)
    done: list[str] = []
    session = await database.session(statement_seconds=TIMEOUT_SECONDS)
    try:
        while migration := await _apply_next(session, migrations):
            done.append(migration.name)
    finally:
        await session.close()
    return done


async def unapplied(database: Database, folder: Path = FOLDER) -> list[str]:
    """Return the names of what `migrate` would apply; nothing is changed.

    Raises MigrationFault where `migrate` would refuse the database as it is, StoreError.
    """
    ((has_table,),) = await database.fetch_all(SQL["has_table"])
    applied = await database.fetch_all(SQL["applied"]) if has_table else []
    return [migration.name for migration in pending(read(folder), applied)]


def read(folder: Path) -> list[Migration]:
    """Read the folder in order. Raises MigrationFault unless it is numbered 0001, 0002, …"""
    migrations = []
    for expected, path in enumerate(sorted(folder.glob("*.sql")), start=1):
        match = FILE_NAME.fullmatch(path.name)
        if match is None:
            raise MigrationFault(f"{path.name} is not named like 0001_what_it_does.sql")
        if int(match[1]) != expected:
            raise MigrationFault(f"{path.name} stands where number {expected:04} should be")
        text = path.read_text(encoding="utf-8")
        migrations.append(Migration(version=expected, name=path.stem, sql=text))
    return migrations


def pending(migrations: list[Migration], applied: list[tuple[int, str, str]]) -> list[Migration]:
    """Return the migrations that the database lacks. Raises MigrationFault."""
    for migration, (version, name, checksum) in zip(migrations, applied, strict=False):
        if version != migration.version or checksum != migration.checksum:
            raise MigrationFault(
                f"{migration.name} is not the file that was applied to the database as {name} "
                f"(number {version}); applied migrations are never edited. {WAY_OUT}"
            )
    if len(applied) > len(migrations):
        version, name, _ = applied[-1]
        raise MigrationFault(
            f"the database is newer than this program: it has {name} (number {version}), "
            f"this program knows {len(migrations)} migrations"
        )
    return migrations[len(applied) :]


async def _apply_next(session: Session, migrations: list[Migration]) -> Migration | None:
    """Apply the first that the database lacks, under a transaction's lock; None at the end."""
    async with session.transaction():
        await session.execute(SQL["lock"], (LOCK_KEY,))
        await session.execute(SQL["make_table"])
        missing = pending(migrations, await session.fetch_all(SQL["applied"]))
        if not missing:
            return None
        migration = missing[0]
        try:
            await session.execute(migration.sql)
        except (StatementRefused, ConstraintViolated) as error:
            raise MigrationFault(f"{migration.name}: {error}") from error
        record = (migration.version, migration.name, migration.checksum)
        await session.execute(SQL["record"], record)
    return migration
