"""The runner of migrations and functions against a real PostgreSQL."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.store.database import Database
from actors.store.errors import DatabaseRefused
from actors.store.schema import MigrationFault, migrate, unapplied
from loadtests.rig.postgres import PostgresForTests
from tests.support.logs import logs

# Of every transaction from the next connection on.
READ_ONLY = """
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
END $$
"""
MAKE = "CREATE TABLE a (n integer); INSERT INTO a VALUES (1); COMMENT ON TABLE a IS '100%';"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "migrations").mkdir()
    (tmp_path / "functions").mkdir()
    (tmp_path / "migrations/0001_make.sql").write_text(MAKE)
    (tmp_path / "migrations/0002_more.sql").write_text("INSERT INTO a VALUES (2);")
    return tmp_path


def write_function(
    folder: Path, name: str, value: str, *, parameters: str = "", returns: str = "integer"
) -> None:
    (folder / f"functions/{name}.sql").write_text(
        f"CREATE OR REPLACE FUNCTION {name}({parameters}) RETURNS {returns} LANGUAGE sql"
        f" AS $$ SELECT {value} -- 100%\n$$;"
    )


async def rows(database: Database) -> list[int]:
    return [n for (n,) in await database.fetch_all("SELECT n FROM a ORDER BY n")]


async def value(database: Database, sql: str) -> Any:
    row = await database.fetch_one(sql)
    assert row is not None
    return row[0]


async def test_empty_database_gets_all_in_order_and_only_once(empty_url: str, folder: Path) -> None:
    async with Database(empty_url) as database:
        assert await migrate(database, folder) == ["0001_make", "0002_more"]
        assert await migrate(database, folder) == []
        (folder / "migrations/0003_last.sql").write_text("INSERT INTO a VALUES (3);")
        assert await migrate(database, folder) == ["0003_last"]
        assert await rows(database) == [1, 2, 3]


async def test_several_processes_at_once_apply_each_once(empty_url: str, folder: Path) -> None:
    write_function(folder, "f", "1")
    databases = [Database(empty_url) for _ in range(5)]
    applied = await asyncio.gather(*(migrate(database, folder) for database in databases))
    assert sorted(name for names in applied for name in names) == ["0001_make", "0002_more"]
    assert await rows(databases[0]) == [1, 2]
    assert await value(databases[0], "SELECT f()") == 1
    for database in databases:
        await database.close()


async def test_database_of_another_encoding_is_refused_with_what_to_do(
    postgres: PostgresForTests,
) -> None:
    with postgres.database(template="template0", encoding="SQL_ASCII") as url:
        async with Database(url) as database:
            for refused in (migrate, unapplied):
                with pytest.raises(MigrationFault, match=r"encoding SQL_ASCII .* --encoding UTF8"):
                    await refused(database)


@logs("database_refused")
async def test_failing_migration_leaves_nothing_of_itself(empty_url: str, folder: Path) -> None:
    async with Database(empty_url) as database:
        broken = folder / "migrations/0003_broken.sql"
        broken.write_text("INSERT INTO a VALUES (3); INSERT INTO nowhere VALUES (1);")
        with pytest.raises(MigrationFault, match='0003_broken: relation "nowhere"'):
            await migrate(database, folder)
        assert await rows(database) == [1, 2]
        broken.write_text("INSERT INTO a VALUES (3);")
        assert await migrate(database, folder) == ["0003_broken"]


async def test_changed_functions_are_loaded_together(empty_url: str, folder: Path) -> None:
    async with Database(empty_url) as database:
        # Whatever the order of their names: they are not read before they are called.
        write_function(folder, "a_caller", "b_called() + 1")
        write_function(folder, "b_called", "1")
        write_function(folder, "c_gone", "1")
        await migrate(database, folder)
        assert await value(database, "SELECT a_caller()") == 2
        write_function(folder, "a_caller", "b_called('x')", returns="text")
        write_function(folder, "b_called", "p || 'y'", parameters="p text", returns="text")
        (folder / "functions/c_gone.sql").unlink()
        await migrate(database, folder)
        assert await value(database, "SELECT a_caller()") == "xy"
        left = "SELECT count(*) FROM pg_proc WHERE proname IN ('a_caller', 'b_called', 'c_gone')"
        assert await value(database, left) == 2


@logs("database_refused")
async def test_function_that_fails_leaves_the_others_as_they_were(
    empty_url: str, folder: Path
) -> None:
    async with Database(empty_url) as database:
        write_function(folder, "f", "1")
        await migrate(database, folder)
        write_function(folder, "f", "2")
        write_function(folder, "g", "1", returns="nothing_known")
        with pytest.raises(MigrationFault, match='the function g: type "nothing_known"'):
            await migrate(database, folder)
        assert await value(database, "SELECT f()") == 1


async def test_a_start_puts_back_a_function_that_somebody_has_renamed(
    empty_url: str, folder: Path
) -> None:
    async with Database(empty_url) as database:
        write_function(folder, "f", "1")
        write_function(folder, "g", "2")
        await migrate(database, folder)
        await database.execute("ALTER FUNCTION f() RENAME TO f_before")
        await migrate(database, folder)
        assert await value(database, "SELECT f() + g()") == 3


async def test_program_before_the_last_one_leaves_its_functions(
    empty_url: str, folder: Path, tmp_path: Path
) -> None:
    async with Database(empty_url) as database:
        write_function(folder, "f", "1")
        await migrate(database, folder)
        earlier = tmp_path / "earlier"
        shutil.copytree(folder, earlier, ignore=lambda *_: ["earlier"])
        write_function(folder, "f", "2")
        await migrate(database, folder)
        await migrate(database, earlier)
        assert await value(database, "SELECT f()") == 2


@logs("database_refused")
async def test_database_that_lacks_nothing_and_only_reads_is_taken_as_it_is(
    empty_url: str, folder: Path
) -> None:
    write_function(folder, "f", "1")
    async with Database(empty_url) as database:
        await migrate(database, folder)
        await database.execute(READ_ONLY)
    async with Database(empty_url) as database:
        assert await migrate(database, folder) == []
        write_function(folder, "f", "2")
        with pytest.raises(DatabaseRefused, match="read-only"):
            await migrate(database, folder)
