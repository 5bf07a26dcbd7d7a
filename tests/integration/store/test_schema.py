"""The runner of migrations and functions against a real PostgreSQL."""

import asyncio
import json
import shutil
import tarfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from actors.process import ProcessIdentity, register
from actors.store.connection import Executor
from actors.store.database import Database
from actors.store.schema import FOLDER, RELEASED_VERSION, MigrationFault, migrate, read, unapplied
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply, parameters
from actors.wallet.verify import verify
from loadtests.rig.postgres import PostgresForTests
from tests.integration.actors.process import lease, leased_by, ledger_of, process
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.aio import eventually
from tests.support.ledger_values import hold, settle
from tests.support.logs import logs

MAKE = "CREATE TABLE a (n integer); INSERT INTO a VALUES (1); COMMENT ON TABLE a IS '100%';"
# What the release had; its program is not there any more.
RELEASED = Path(__file__).with_name("released_migrations.tar.gz")
PARAMETERS_BEFORE = 9  # of `ledger_apply`, the first of those of `ledger_batch`
LATER = [migration.name for migration in read().migrations]


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


BALANCE = 10**12


def released(folder: Path, later: int) -> Path:
    """Write the migrations of the release and so many of those that came after it."""
    with tarfile.open(RELEASED) as archive:
        archive.extractall(folder, filter="data")
    for name in LATER[:later]:
        shutil.copy(FOLDER / f"migrations/{name}.sql", folder / "migrations")
    # Of the functions that its triggers need, those that the release did not have.
    (folder / "functions").mkdir(exist_ok=True)
    made = "".join(path.read_text() for path in folder.glob("migrations/*.sql"))
    for function in read().functions:
        if f"FUNCTION {function.name}(" in made.replace("EXECUTE FUNCTION", ""):
            continue
        if function.is_trigger and f"EXECUTE FUNCTION {function.name}(" in made:
            shutil.copy(FOLDER / f"functions/{function.name}.sql", folder / "functions")
    return folder


async def release(database: Database, folder: Path, later: int = 0) -> None:
    """Make the database of the release, with so many of the migrations that came after it."""
    assert len(await migrate(database, released(folder, later))) == RELEASED_VERSION + later
    await database.execute("DROP TABLE schema_functions, schema_function_sets")


SHAPES = [
    """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.attstorage::text, pg_get_expr(d.adbin, d.adrelid)
       FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
       LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
       WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
           AND c.relkind IN ('r', 'p', 'v', 'c')""",
    """SELECT relname, relkind::text, relpersistence::text, reloptions FROM pg_class
       WHERE relnamespace = 'public'::regnamespace""",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
       WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    """SELECT oid::regprocedure::text, prosrc, proconfig, provolatile::text,
           prorettype::regtype::text
       FROM pg_proc WHERE pronamespace = 'public'::regnamespace""",
    """SELECT t.typname, array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
       FROM pg_type t LEFT JOIN pg_enum e ON e.enumtypid = t.oid
       WHERE t.typnamespace = 'public'::regnamespace GROUP BY t.typname""",
]


async def shape(database: Database) -> list[list[Any]]:
    """Everything that is defined, without the tables of months."""
    await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
    return [
        sorted(
            (row for row in await database.fetch_all(query) if "entries_2" not in str(row)), key=str
        )
        for query in SHAPES
    ]


async def test_empty_database_is_made_as_one_of_the_release_is_upgraded(
    empty_url: str, database_url: str, tmp_path: Path
) -> None:
    async with Database(empty_url) as upgraded, Database(database_url) as fresh:
        await release(upgraded, tmp_path)
        assert await migrate(upgraded) == LATER
        assert await migrate(fresh) == []
        for one, other in zip(await shape(upgraded), await shape(fresh), strict=True):
            assert one == other


async def apply_as_before(session: Executor, process: str, batch: Batch) -> dict[str, Any]:
    """Apply a batch by the function of the program before, and return its answer."""
    arguments = parameters(process, None, batch.settlements, batch)[:PARAMETERS_BEFORE]
    places = ", ".join(["%s"] * PARAMETERS_BEFORE)
    ((response,),) = await session.fetch_all(f"SELECT ledger_apply({places})::text", arguments)
    found: dict[str, Any] = json.loads(response)
    assert not found.get("buried")
    return found


async def call(session: Executor, process: str, number: int) -> None:
    """Hold for one call and settle it at a cost of 1."""
    held = await apply_as_before(session, process, Batch(holds=[hold(number)]))
    assert held["refused"] == []
    done = await apply_as_before(session, process, Batch(settlements=[settle(number, 1)]))
    assert done["unsettled"] == []


async def assert_proved(database: Database, calls: int, entries: int) -> None:
    """The ledger adds up, and has these entries beside the first top-up."""
    report = await verify(database, is_everything=True)
    assert (report.faults, report.counts["entries"]) == ([], 1 + entries)
    assert await ledger.read_balance(database, ACCOUNT) == (BALANCE - calls, 0)


# Those that followed have functions of their own, which an earlier program lacks.
@pytest.mark.parametrize("later", range(4))
async def test_database_of_an_earlier_program_is_upgraded_while_its_gateways_write(
    empty_url: str, tmp_path: Path, later: int
) -> None:
    async with Database(empty_url) as database:
        await release(database, tmp_path, later)
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, BALANCE)
        await apply_as_before(database, PROCESS, Batch(holds=[hold(number) for number in (1, 2)]))
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
        assert applied == LATER[later:]
        for number in (1, 2):  # held before the upgrade
            done = await apply(database, PROCESS, Batch(settlements=[settle(number, 1)]))
            again = await apply(database, PROCESS, Batch(settlements=[settle(number, 1)]))
            assert (len(done.unsettled), len(again.unsettled)) == (0, 1)
        await assert_proved(database, calls, 2 * calls)


@pytest.mark.parametrize("applied", [1, 2])
async def test_transaction_that_began_before_the_months_writes_into_its_own(
    empty_url: str, tmp_path: Path, applied: int
) -> None:
    async with Database(empty_url) as database:
        await release(database, tmp_path / "release", 1)
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, BALANCE)
        session = await database.session(statement_seconds=60.0)
        async with session.transaction():
            await session.fetch_all("SELECT now()")
            await migrate(database, released(tmp_path / "now", 1 + applied))
            await call(session, PROCESS, 1)
        await session.close()
        await migrate(database)
        where = "SELECT DISTINCT tableoid::regclass::text FROM entries"
        assert await database.fetch_all(where) == [("entries_first",)]
        await assert_proved(database, 1, 2)


async def test_program_without_leases_does_not_take_a_leased_balance_for_spent(
    database_url: str,
) -> None:
    """Its reply lacks what it reads first: it reports that one hold as unavailable (503)."""
    async with ledger_of(database_url, BALANCE) as database, process(database_url, "new") as new:
        await register(database, ProcessIdentity(PROCESS, "host", "", 1))
        await lease(new, BALANCE // 100, calls=12)
        holds = [hold(1, BALANCE // 100), hold(2, BALANCE * 9 // 10), hold(3, BALANCE * 2)]
        both = await apply_as_before(database, PROCESS, Batch(holds=holds[:2]))
        assert "refused" not in both
        alone = [await apply_as_before(database, PROCESS, Batch(holds=[one])) for one in holds]
        assert alone[0]["refused"] == []
        assert "refused" not in alone[1]
        assert alone[2]["refused"] == [[0, "insufficient_funds"]]
        answering = asyncio.create_task(new.neighbours.run())
        await new.heartbeat.beat()  # the lease was called back
        await eventually(lambda: has_no_lease(database), what="the end of the lease")
        again = await apply_as_before(database, PROCESS, Batch(holds=[holds[1]]))
        assert again["refused"] == []
        ends = [settle(1, 1), settle(2, 1)]
        await apply_as_before(database, PROCESS, Batch(settlements=ends))
        answering.cancel()


async def has_no_lease(database: Database) -> bool:
    return await leased_by(database) == {}
