"""Brings a database to the schema of this code: the files of `migrations/`, in order, each once.

Only goes forward. The first files hold the schema as it was released, by noun; from then on they
only grow: what a migration does stands in its own `.sql` file, which is never edited, corrected
only by a later one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from actors.store.database import ConstraintViolated, Database, StatementRefused
from actors.store.queries import load
from actors.store.session import Session

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
    session = await database.session(statement_seconds=TIMEOUT_SECONDS)
    try:
        await session.execute(SQL["lock"], (LOCK_KEY,))
        await session.execute(SQL["make_table"])
        applied = await session.fetch_all(SQL["applied"])
        missing = pending(migrations, applied)
        for migration in missing:
            await _apply(session, migration)
    finally:
        await session.close()
    return [migration.name for migration in missing]


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


async def _apply(session: Session, migration: Migration) -> None:
    try:
        async with session.transaction():
            await session.execute(migration.sql)
            record = (migration.version, migration.name, migration.checksum)
            await session.execute(SQL["record"], record)
    except (StatementRefused, ConstraintViolated) as error:
        raise MigrationFault(f"{migration.name}: {error}") from error
