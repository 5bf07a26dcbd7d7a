"""The runner of migrations against a real PostgreSQL, on folders made by the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.store.database import Database
from actors.store.migrations import MigrationFault, migrate

MAKE = "CREATE TABLE a (n integer); INSERT INTO a VALUES (1); COMMENT ON TABLE a IS '100%';"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_make.sql").write_text(MAKE)
    (tmp_path / "0002_more.sql").write_text("INSERT INTO a VALUES (2);")
    return tmp_path


async def rows(database: Database) -> list[int]:
    return [n for (n,) in await database.fetch_all("SELECT n FROM a ORDER BY n")]


async def test_empty_database_gets_all_in_order_and_only_once(empty_url: str, folder: Path) -> None:
    async with Database(empty_url) as database:
        assert await migrate(database, folder) == ["0001_make", "0002_more"]
        assert await migrate(database, folder) == []
        (folder / "0003_last.sql").write_text("INSERT INTO a VALUES (3);")
        assert await migrate(database, folder) == ["0003_last"]
        assert await rows(database) == [1, 2, 3]


async def test_several_processes_at_once_apply_each_once(empty_url: str, folder: Path) -> None:
    databases = [Database(empty_url) for _ in range(5)]
    applied = await asyncio.gather(*(migrate(database, folder) for database in databases))
    assert sorted(map(len, applied)) == [0, 0, 0, 0, 2]
    assert await rows(databases[0]) == [1, 2]
    for database in databases:
        await database.close()


async def test_failing_migration_leaves_nothing_of_itself(empty_url: str, folder: Path) -> None:
    async with Database(empty_url) as database:
        broken = folder / "0003_broken.sql"
        broken.write_text("INSERT INTO a VALUES (3); INSERT INTO nowhere VALUES (1);")
        with pytest.raises(MigrationFault, match='0003_broken: relation "nowhere"'):
            await migrate(database, folder)
        assert await rows(database) == [1, 2]
        broken.write_text("INSERT INTO a VALUES (3);")
        assert await migrate(database, folder) == ["0003_broken"]


async def test_edited_and_missing_files_are_refused(empty_url: str, folder: Path) -> None:
    async with Database(empty_url) as database:
        await migrate(database, folder)
        (folder / "0002_more.sql").write_text("INSERT INTO a VALUES (22);")
        with pytest.raises(MigrationFault, match="0002_more is not the file"):
            await migrate(database, folder)
        (folder / "0002_more.sql").unlink()
        with pytest.raises(MigrationFault, match="newer than this program"):
            await migrate(database, folder)
        assert await rows(database) == [1, 2]


async def test_own_migrations_make_a_fresh_database(empty_url: str, database_url: str) -> None:
    async with Database(empty_url) as fresh, Database(database_url) as copy:
        await migrate(fresh)
        assert await migrate(copy) == []
        columns = (
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        )
        assert await fresh.fetch_all(columns) == await copy.fetch_all(columns)
