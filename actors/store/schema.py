"""Brings a database to the schema of this program: tables by migrations, functions by digest.

A database begins with the files of `tables/`, which are the first release's, and then gets those of
`migrations/` that it lacks, in order, each once. Both only go forward: an applied file is never
edited, only corrected by a later migration. They hold tables, types and triggers.

Functions are in `functions/`, one file each, and are edited there. Those that have changed are
loaded together, after the migrations. The database lists every set of functions that was loaded
into it: a program whose set is in the list, but not the last, is an earlier program in the middle
of a rolling upgrade, and leaves the later ones in place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.store.database import Database
from actors.store.errors import ContentRefused, DatabaseRefused
from actors.store.queries import load
from actors.store.session import Session

FOLDER = Path(__file__).parent
FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
# `tables/` as a whole is the first migration.
TABLES_VERSION = 1
# Any number that no other user of the database uses.
LOCK_KEY = 0x67775F6D69677261
# For one migration of a large table, and for the wait until another process has done it.
TIMEOUT_SECONDS = 24 * 3600.0
SQL = load("actors.store", "schema.sql")
WAY_OUT = (
    "A database made before the first release cannot be taken over: start with an empty one "
    "(another database_url, or without one another data_dir), or go on with the program that made "
    "it"
)

Applied = tuple[int, str, str]


class MigrationFault(Exception):
    """A schema file that cannot be applied; nothing of it was."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`, or `tables/` as a whole."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Changes when the file is edited."""
        return _digest([self.sql])


@dataclass(frozen=True, slots=True)
class Function:
    """One file of `functions/`, named like the function. `is_trigger`: triggers need it first."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return _digest([self.sql])

    @property
    def is_trigger(self) -> bool:
        return "RETURNS trigger" in self.sql


@dataclass(frozen=True, slots=True)
class Schema:
    """The files of one folder; of migrations `tables/` is the first, where there is one."""

    migrations: Sequence[Migration]
    functions: Sequence[Function]

    @property
    def functions_checksum(self) -> str:
        """The digest of the set of functions, and of the tables that they are written for."""
        return _digest(
            [str(self._last), *(f"{each.name} {each.checksum}" for each in self.functions)]
        )

    @property
    def _last(self) -> int:
        return self.migrations[-1].version if self.migrations else 0

    def missing(self, applied: Sequence[Applied]) -> list[Migration]:
        """Return what the database lacks, in order. Raises MigrationFault."""
        known = {migration.version: migration for migration in self.migrations}
        if applied and applied[0][0] not in known:
            raise MigrationFault(
                f"the schema of the database begins with {applied[0][1]}. {WAY_OUT}"
            )
        for version, name, checksum in applied:
            migration = known.pop(version, None)
            if migration is None:
                raise MigrationFault(
                    f"the database is newer than this program: it has {name} (number {version}), "
                    f"this program knows {self._last} migrations"
                )
            if checksum != migration.checksum:
                raise MigrationFault(
                    f"{migration.name} is not the file that was applied to the database as {name} "
                    f"(number {version}); applied migrations are never edited. {WAY_OUT}"
                )
        return [known[version] for version in sorted(known)]


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


async def migrate(database: Database, folder: Path = FOLDER) -> list[str]:
    """Bring the database to the schema of `folder`; return the names of the applied migrations.

    Each migration is a transaction of its own, and so are the functions together. Nothing is
    written to a database that lacks nothing, which may be read-only. Safe to call from several
    processes at once: one works, the others wait and find nothing left to do. Raises
    MigrationFault for a badly numbered folder, a file edited after it was applied, a database that
    is newer than this program, one that is not UTF-8 and SQL that fails; StoreUnavailable.
    """
    schema = read(folder)
    done: list[str] = []
    session = await database.session(statement_seconds=TIMEOUT_SECONDS)
    try:
        _check_encoding(await session.fetch_all(SQL["encoding"]))
        if await _lacks_nothing(session, schema):
            return done
        while migration := await _apply_next(session, schema):
            done.append(migration.name)
        await _load_functions(session, schema)
    finally:
        await session.close()
    return done


async def unapplied(database: Database, folder: Path = FOLDER) -> list[str]:
    """Return the names of the migrations that `migrate` would apply; nothing is changed.

    Raises MigrationFault where `migrate` would refuse the database as it is, StoreError.
    """
    _check_encoding(await database.fetch_all(SQL["encoding"]))
    ((has_table,),) = await database.fetch_all(SQL["has_table"])
    applied = await database.fetch_all(SQL["applied"]) if has_table else []
    return [migration.name for migration in read(folder).missing(applied)]


def read(folder: Path = FOLDER) -> Schema:
    """Read a folder with `migrations/`, `functions/` and, perhaps, `tables/`.

    Raises MigrationFault unless the migrations are numbered without a gap.
    """
    tables = "\n".join(_text(path) for path in sorted((folder / "tables").glob("*.sql")))
    migrations = [Migration(version=TABLES_VERSION, name="tables", sql=tables)] if tables else []
    for path in sorted((folder / "migrations").glob("*.sql")):
        match = FILE_NAME.fullmatch(path.name)
        if match is None:
            raise MigrationFault(f"{path.name} is not named like 0001_what_it_does.sql")
        expected = migrations[-1].version + 1 if migrations else 1
        if int(match[1]) != expected:
            raise MigrationFault(f"{path.name} stands where number {expected:04} should be")
        migrations.append(Migration(version=expected, name=path.stem, sql=_text(path)))
    functions = [
        Function(name=path.stem, sql=_text(path))
        for path in sorted((folder / "functions").glob("*.sql"))
    ]
    return Schema(migrations=migrations, functions=functions)


def _check_encoding(found: Sequence[tuple[str]]) -> None:
    ((encoding,),) = found
    if encoding != "UTF8":  # a cluster of a machine without locales has another
        raise MigrationFault(
            f"the database has the encoding {encoding} and must have UTF8: "
            "createdb --encoding UTF8 --template template0"
        )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def _lacks_nothing(session: Session, schema: Schema) -> bool:
    """Whether each migration was applied, and each function of this program is there.

    Functions are loaded last, so it holds of no database that another process is changing.
    """
    if not all((await session.fetch_all(SQL["has_tables"]))[0]):
        return False
    if schema.missing(await session.fetch_all(SQL["applied"])):
        return False
    return await _knows_functions(session, schema) and not await _lost_functions(session, schema)


async def _knows_functions(session: Session, schema: Schema) -> bool:
    """Whether this set of functions was loaded once."""
    sets = await session.fetch_all(SQL["function_sets"])
    return schema.functions_checksum in {checksum for (checksum,) in sets}


async def _lost_functions(session: Session, schema: Schema) -> list[Function]:
    """Return the functions that somebody has dropped or renamed since they were loaded."""
    recorded = await session.fetch_all(SQL["functions"])
    lost = {(name, checksum) for name, checksum, is_there in recorded if not is_there}
    return [one for one in schema.functions if (one.name, one.checksum) in lost]


async def _apply_next(session: Session, schema: Schema) -> Migration | None:
    """Apply the first missing migration, under a transaction's lock; None if there is none."""
    async with session.transaction():
        await _begin(session)
        missing = schema.missing(await session.fetch_all(SQL["applied"]))
        if not missing:
            return None
        migration = missing[0]
        await session.execute(SQL["make_loader"])
        for function in schema.functions:
            if function.is_trigger:
                await _load(session, function)
        try:
            await session.execute(migration.sql)
        except (ContentRefused, DatabaseRefused) as error:
            raise MigrationFault(f"{migration.name}: {error}") from error
        record = (migration.version, migration.name, migration.checksum)
        await session.execute(SQL["record"], record)
    return migration


async def _load_functions(session: Session, schema: Schema) -> None:
    """Load the functions that have changed since the last set, and drop removed ones.

    Of a set that was loaded before, put back what somebody has dropped or renamed since.
    """
    async with session.transaction():
        await _begin(session)
        if await _knows_functions(session, schema):
            for function in await _lost_functions(session, schema):
                await session.execute(SQL["make_loader"])
                await _load(session, function)
            return
        recorded = await session.fetch_all(SQL["functions"])
        await session.execute(SQL["make_loader"])
        loaded = {name: checksum if is_there else None for name, checksum, is_there in recorded}
        for function in schema.functions:
            if loaded.pop(function.name, None) != function.checksum:
                await _load(session, function)
                await session.execute(SQL["record_function"], (function.name, function.checksum))
        for name in loaded:
            await session.execute(SQL["drop_function"], (name,))
        await session.execute(SQL["record_function_set"], (schema.functions_checksum,))


async def _begin(session: Session) -> None:
    await session.execute(SQL["lock"], (LOCK_KEY,))
    await session.execute(SQL["make_tables"])


async def _load(session: Session, function: Function) -> None:
    try:
        await session.execute(SQL["load_function"], (function.name, function.sql))
    except (ContentRefused, DatabaseRefused) as error:
        raise MigrationFault(f"the function {function.name}: {error}") from error
