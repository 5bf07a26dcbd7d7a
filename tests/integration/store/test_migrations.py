"""The runner of migrations against a real PostgreSQL, on folders made by the test."""

from __future__ import annotations

import asyncio
import shutil
from itertools import count
from pathlib import Path

import pytest

from actors.store.database import Database
from actors.store.queries import FOLDER, MigrationFault, migrate, read
from actors.wallet import ledger
from actors.wallet.ledger import Batch, Executor
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.ledger_values import hold, settle

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
    assert sorted(name for names in applied for name in names) == ["0001_make", "0002_more"]
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


BALANCE = 10**12
NEWEST = len(read(FOLDER))


def first(folder: Path, number: int) -> Path:
    """The folder of the program that had so many migrations."""
    folder.mkdir()
    for migration in read(FOLDER)[:number]:
        shutil.copy(FOLDER / f"{migration.name}.sql", folder)
    return folder


async def call(session: Executor, process: str, number: int) -> None:
    """Hold for one call and settle it at a cost of 1."""
    held = await ledger.apply(session, process, Batch(holds=[hold(number)]))
    assert held.refused == {}
    done = await ledger.apply(session, process, Batch(settlements=[settle(number, 1)]))
    assert len(done.settled) == 1


async def assert_proved(database: Database, calls: int, entries: int) -> None:
    """The ledger adds up, and has these entries beside the first top-up."""
    report = await verify(database, is_everything=True)
    assert (report.faults, report.counts["entries"]) == ([], 1 + entries)
    assert await ledger.read_balance(database, ACCOUNT) == (BALANCE - calls, 0)


@pytest.mark.parametrize("behind", [1, 2, 3])
async def test_database_of_an_earlier_program_is_upgraded_while_its_gateways_write(
    empty_url: str, tmp_path: Path, behind: int
) -> None:
    earlier = first(tmp_path / "earlier", NEWEST - behind)
    async with Database(empty_url) as database:
        await migrate(database, earlier)
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, BALANCE)
        await ledger.apply(database, PROCESS, Batch(holds=[hold(number) for number in (1, 2)]))
        await call(database, PROCESS, 3)
        numbers = count(10)
        is_upgraded = asyncio.Event()
        began = [asyncio.Event() for _ in range(4)]

        async def gateway(at: int) -> int:
            process, calls = f"proc_{at}", 0
            await database.execute(
                "INSERT INTO processes (id, host, boot_id, pid) VALUES (%s, 'h', '', 1)", (process,)
            )
            session = await database.session(statement_seconds=60.0)
            try:
                while not is_upgraded.is_set():
                    await call(session, process, next(numbers))
                    calls += 1
                    began[at].set()
                # Once more, with the plans of before.
                await call(session, process, next(numbers))
            finally:
                await session.close()
            return calls + 1

        gateways = [asyncio.create_task(gateway(at)) for at in range(len(began))]
        await asyncio.gather(*(event.wait() for event in began))
        applied = await migrate(database)
        is_upgraded.set()
        calls = 3 + sum(await asyncio.gather(*gateways))
        assert applied == [migration.name for migration in read(FOLDER)[-behind:]]
        for number in (1, 2):  # held before the upgrade
            done = await ledger.apply(database, PROCESS, Batch(settlements=[settle(number, 1)]))
            again = await ledger.apply(database, PROCESS, Batch(settlements=[settle(number, 1)]))
            assert (len(done.settled), len(again.settled)) == (1, 0)
        await assert_proved(database, calls, 2 * calls)


@pytest.mark.parametrize("applied", [1, 2])
async def test_transaction_that_began_before_the_months_writes_into_its_own(
    empty_url: str, tmp_path: Path, applied: int
) -> None:
    before = [migration.name for migration in read(FOLDER)].index("0024_entries_by_month")
    async with Database(empty_url) as database:
        await migrate(database, first(tmp_path / "earlier", before))
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, BALANCE)
        session = await database.session(statement_seconds=60.0)
        async with session.transaction():
            await session.fetch_all("SELECT now()")
            await migrate(database, first(tmp_path / "now", before + applied))
            await call(session, PROCESS, 1)
        await session.close()
        await migrate(database)
        where = "SELECT DISTINCT tableoid::regclass::text FROM entries"
        assert await database.fetch_all(where) == [("entries_first",)]
        await assert_proved(database, 1, 2)
