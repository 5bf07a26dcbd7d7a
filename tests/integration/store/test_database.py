"""The pool against a real PostgreSQL: values, errors, lost connections, sessions, listeners."""

import asyncio
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from actors.store.database import WAITING_EACH_MAX, Database
from actors.store.errors import (
    ConstraintViolated,
    ContentRefused,
    DatabaseRefused,
    StatementRefused,
    StatementTimedOut,
    StoreError,
    StoreUnavailable,
)
from actors.store.session import Session, carried_through
from channels.shares import OWNER
from loadtests.rig.transactions import transaction
from tests.support.aio import eventually
from tests.support.logs import logs

MAKE = (
    "CREATE TABLE things ("
    "id integer PRIMARY KEY, n integer NOT NULL CONSTRAINT small CHECK (n < 9))"
)


async def test_values_come_back_as_python_values(empty_url: str) -> None:
    async with Database(empty_url) as database:
        row = await database.fetch_one(
            "SELECT 9223372036854775807, 1.50::numeric, 'a', array['b', 'c'], NULL, true, "
            "timestamptz '2026-01-02 03:04:05+05', '{\"a\": [1]}'::jsonb, '\\x00ff'::bytea, "
            "'0190a0b0-0000-7000-8000-000000000001'::uuid"
        )
    assert row is not None
    *plain, blob, identifier = row
    assert plain == [
        2**63 - 1,
        Decimal("1.50"),
        "a",
        ["b", "c"],
        None,
        True,
        datetime(2026, 1, 1, 22, 4, 5, tzinfo=UTC),
        {"a": [1]},
    ]
    assert bytes(blob) == b"\x00\xff"
    assert identifier == "0190a0b0-0000-7000-8000-000000000001"


async def test_parameters_are_taken_by_name_and_by_place(empty_url: str) -> None:
    async with Database(empty_url) as database:
        assert await database.fetch_one("SELECT %s || %s", ("a", "%'b")) == ("a%'b",)
        assert await database.fetch_one("SELECT %(x)s::int * 2", {"x": 21}) == (42,)
        assert await database.fetch_one("SELECT '100%'") == ("100%",)
        assert await database.fetch_one("SELECT 1 WHERE false") is None


async def test_execute_tells_how_many_rows_it_touched(empty_url: str) -> None:
    async with Database(empty_url) as database:
        await database.execute(MAKE)
        insert = "INSERT INTO things SELECT g, g FROM generate_series(1, %s) g"
        assert await database.execute(insert, (3,)) == 3
        assert await database.execute("DELETE FROM things WHERE id = %s", (2,)) == 1
        assert await database.fetch_all("INSERT INTO things VALUES (7, 7)") == []


async def test_violated_constraint_comes_with_its_name(empty_url: str) -> None:
    async with Database(empty_url, size=1) as database:
        await database.execute(MAKE)
        await database.execute("INSERT INTO things VALUES (1, 1)")
        for values, name in (("1, 1", "things_pkey"), ("2, 9", "small"), ("3, NULL", "n")):
            with pytest.raises(ConstraintViolated) as caught:
                await database.execute(f"INSERT INTO things VALUES ({values})")
            assert caught.value.constraint_name == name
            assert "DETAIL" not in str(caught.value)


async def test_refused_statement_comes_with_its_code_and_leaves_the_connection_usable(
    empty_url: str,
) -> None:
    async with Database(empty_url, size=1) as database:
        backend = await database.fetch_one("SELECT pg_backend_pid()")
        with pytest.raises(StatementRefused) as caught:
            await database.execute("SELECT 1 / 0")
        assert caught.value.sqlstate == "22012"
        assert await database.fetch_one("SELECT pg_backend_pid()") == backend


@logs("database_refused")
async def test_missing_table_is_a_state_of_the_database_and_costs_the_connection(
    empty_url: str,
) -> None:
    seen: list[str] = []
    async with Database(empty_url, size=1, on_refused=seen.append) as database:
        backend = await database.fetch_one("SELECT pg_backend_pid()")
        with pytest.raises(DatabaseRefused, match="nowhere") as caught:
            await database.execute("SELECT * FROM nowhere")
        assert caught.value.sqlstate == "42P01"
        assert seen == ["42P01"]
        # Its settings and plans may be what it was refused for; another has those of today.
        assert await database.fetch_one("SELECT pg_backend_pid()") != backend
        assert database.open_count == 1


# What a statement says can be at fault in these alone.
CONTENT = ("21000", "22003", "22021", "22P02", "23505", "23514", "54000", "54001")
STATE = (
    *("0A000", "25006", "25P02", "2BP01", "42501", "42883", "42P01", "42703", "53100", "53200"),
    *("58030", "F0000", "P0001", "XX000", "XX001"),
)
PASSING = ("40001", "40P01", "55000", "55P03", "57014", "57P03", "08006")


@logs("database_refused")
async def test_refusals_are_distinguished_by_their_classes(empty_url: str) -> None:
    found: dict[str, type[StoreError]] = {}
    async with Database(empty_url, size=1) as database:
        for code in (*CONTENT, *STATE, *PASSING):
            named = ", CONSTRAINT = 'c'" if code == "23514" else ""
            raised = f"RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = 'so'{named}"
            with pytest.raises((StoreUnavailable, ContentRefused)) as caught:
                await database.execute(f"DO $$ BEGIN {raised}; END $$")
            found[code] = type(caught.value)
            if isinstance(caught.value, DatabaseRefused | StatementRefused):
                assert caught.value.sqlstate == code
    assert {code for code, kind in found.items() if issubclass(kind, ContentRefused)} == {*CONTENT}
    assert {code for code, kind in found.items() if kind is DatabaseRefused} == {*STATE}


SLIP = """
CREATE FUNCTION slips() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT there_is_none FROM pg_class LIMIT 1);
END $$
"""


@logs("database_refused")
async def test_slip_in_a_function_of_ours_names_itself_as_a_defect(empty_url: str) -> None:
    async with Database(empty_url, size=1) as database:
        await database.execute(SLIP)
        refused = {}
        for sql in ("SELECT slips()", "SELECT missing()", "SET ROLE pg_read_all_data"):
            with pytest.raises(DatabaseRefused) as caught:
                await database.execute(sql)
            refused[sql] = caught.value.described
    suspicion = "a defect of the gateway, unless the schema was changed by hand"
    assert refused == {
        "SELECT slips()": f"refuses with 42703 in slips, line 3: {suspicion}",
        "SELECT missing()": f"refuses with 42883: {suspicion}",
        "SET ROLE pg_read_all_data": "refuses with 42501",
    }


def cut_everyone(url: str) -> int:
    """Cut every other connection to this database; blocks, so that the loop cannot notice."""
    with transaction(url) as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        row = cursor.fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("is_noticed", [False, True])
async def test_idle_connections_cut_by_the_server_are_not_handed_out(
    empty_url: str, is_noticed: bool
) -> None:
    async with Database(empty_url) as database:
        await asyncio.gather(*(database.fetch_one("SELECT pg_sleep(0.05)") for _ in range(4)))
        assert cut_everyone(empty_url) == 4
        if is_noticed:
            await asyncio.sleep(0.01)
        for _ in range(8):
            assert await database.fetch_one("SELECT 1") == (1,)


async def test_server_time_out_is_an_error_and_no_cancellation(empty_url: str) -> None:
    async with Database(empty_url, size=1, statement_seconds=0.5) as database:
        backend = await database.fetch_one("SELECT pg_backend_pid()")
        with pytest.raises(StatementTimedOut):
            await database.execute("SELECT pg_sleep(30)")
        assert await database.fetch_one("SELECT pg_backend_pid()") == backend


async def test_server_that_falls_silent_is_given_up(empty_url: str) -> None:
    async with Database(empty_url, size=1, statement_seconds=0.5) as database:
        (backend,) = await database.fetch_one("SELECT pg_backend_pid()") or (0,)
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="did not answer the statement in time"):
                await database.execute("SELECT 1")
        finally:
            os.kill(backend, signal.SIGCONT)
        assert await database.fetch_one("SELECT 1") == (1,)


async def test_cancelled_statement_closes_its_connection_and_frees_the_slot(empty_url: str) -> None:
    async with Database(empty_url, size=1) as database:
        backend = await database.fetch_one("SELECT pg_backend_pid()")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await database.execute("SELECT pg_sleep(30)")
        assert await database.fetch_one("SELECT pg_backend_pid()") != backend


async def test_wait_for_a_connection_is_reported_and_seen(empty_url: str) -> None:
    waits: list[float] = []
    async with Database(empty_url, size=1, on_wait=waits.append) as database:
        assert (database.size, database.in_use, database.idle) == (1, 0, 1)
        async with database.transaction():
            waiting = asyncio.create_task(database.fetch_one("SELECT 1"))
            await asyncio.sleep(0)
            assert (database.in_use, database.idle, waits) == (1, 0, [])
        await waiting
        assert (database.in_use, database.idle) == (0, 1)
        await database.fetch_one("SELECT 1")  # it finds one free
    assert len(waits) == 1
    assert waits[0] > 0


async def test_user_who_waits_in_vain_for_a_connection_has_an_error(empty_url: str) -> None:
    async with Database(empty_url, size=1, wait_seconds=0.05) as database:
        async with database.transaction():
            with pytest.raises(StoreUnavailable, match="all 1 connections were busy"):
                await database.fetch_one("SELECT 1")
        assert await database.fetch_one("SELECT 1") == (1,)


async def test_many_users_share_few_connections(empty_url: str) -> None:
    async with Database(empty_url, size=3) as database:
        backends = await asyncio.gather(
            *(database.fetch_one("SELECT pg_backend_pid() FROM pg_sleep(0.001)") for _ in range(90))
        )
        assert len(set(backends)) == 3
        assert repr(database) == "<Database up 3 open 3 idle>"


async def test_statement_of_one_owner_waits_for_one_of_anothers_queue_at_most(
    empty_url: str,
) -> None:
    ended: list[str] = []

    async def search(owner: str) -> None:
        OWNER.set(owner)
        await database.fetch_one("SELECT 1")
        ended.append(owner)

    # Statements of one connection end in the order in which they have begun.
    async with Database(empty_url, size=1, wait_seconds=60.0) as database:
        OWNER.set("greedy")
        async with database.transaction():
            waiting = [asyncio.create_task(search("greedy")) for _ in range(150)]
            waiting.append(asyncio.create_task(search("other")))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert ended.index("other") == 1
        assert database.in_use == 0


async def test_one_of_several_connections_is_left_for_other_owners(empty_url: str) -> None:
    async with Database(empty_url, size=2) as database:
        OWNER.set("greedy")
        async with database.transaction():
            waiting = asyncio.create_task(database.fetch_one("SELECT 1"))
            await asyncio.sleep(0)
            OWNER.set("other")
            assert await database.fetch_one("SELECT 1") == (1,)
            assert not waiting.done()
        await waiting


async def test_statements_of_one_owner_that_wait_have_a_bound(empty_url: str) -> None:
    async def ask(owner: str) -> None:
        OWNER.set(owner)
        await database.fetch_one("SELECT 1")

    async with Database(empty_url, size=1) as database:
        async with database.transaction():
            waiting = [asyncio.create_task(ask("greedy")) for _ in range(WAITING_EACH_MAX)]
            await asyncio.sleep(0)
            with pytest.raises(StoreUnavailable, match="of one owner wait"):
                await asyncio.create_task(ask("greedy"))
            waiting.append(asyncio.create_task(ask("other")))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)


async def test_unfinished_transaction_never_returns_to_the_pool(empty_url: str) -> None:
    async with Database(empty_url, size=1) as database:
        await database.execute("BEGIN")
        assert repr(database) == "<Database up 0 open 0 idle>"
        assert await database.fetch_one("SELECT now() = statement_timestamp()") is not None


async def test_closed_database_refuses_and_cuts_its_users(empty_url: str) -> None:
    database = Database(empty_url)
    running = asyncio.create_task(database.execute("SELECT pg_sleep(30)"))
    await eventually(lambda: "1 open" in repr(database))
    await asyncio.sleep(0)
    await database.close()
    with pytest.raises(StoreUnavailable):
        await running
    with pytest.raises(StoreUnavailable, match="closed by this process"):
        await database.fetch_one("SELECT 1")


@logs("database_lost")
async def test_server_that_is_not_there_is_unavailable_at_once() -> None:
    database = Database("postgresql://me@/db?host=%2Fnowhere")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await database.open()
    assert not database.is_up
    assert repr(database) == "<Database down 0 open 0 idle>"


@logs("database_lost")
async def test_unknown_database_and_user_are_unavailable(empty_url: str) -> None:
    database = Database(empty_url.replace("@/test_", "@/no_such_"))
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await database.open()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@logs("database_lost")
async def test_silent_server_is_unavailable_after_the_connect_time_out(silent_port: int) -> None:
    database = Database(f"postgresql://me@127.0.0.1:{silent_port}/db", connect_seconds=0.1)
    with pytest.raises(StoreUnavailable, match=r"within 0\.1 s"):
        await database.open()
    await database.close()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Take every descriptor that select() can handle, as a thousand open streams would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2000 if hard == resource.RLIM_INFINITY else min(2000, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
async def test_errors_arrive_on_descriptors_beyond_select(empty_url: str) -> None:
    async with Database(empty_url, size=1) as database:
        await database.execute(MAKE)
        with pytest.raises(ConstraintViolated):
            await database.execute("INSERT INTO things VALUES (1, 9)")
        assert await database.fetch_one("SELECT 1") == (1,)
        with pytest.raises(StoreUnavailable):
            await database.execute("SELECT pg_terminate_backend(pg_backend_pid(), 0)")
        assert await database.fetch_one("SELECT 1") == (1,)
        assert cut_everyone(empty_url) == 1
        await asyncio.sleep(0.01)  # the loss of an idle connection is noticed by the loop
        assert await database.fetch_one("SELECT 1") == (1,)


BREAK = "SELECT pg_terminate_backend(pg_backend_pid(), 0)"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """A database with one table of numbers and one connection."""
    async with Database(url, size=1) as database:
        await database.execute("CREATE TABLE numbers (n integer PRIMARY KEY)")
        yield database


async def numbers(database: Database) -> list[int]:
    return [n for (n,) in await database.fetch_all("SELECT n FROM numbers ORDER BY n")]


def insert(session: Session | Database, n: int) -> Awaitable[int]:
    return session.execute("INSERT INTO numbers VALUES (%s)", (n,))


async def test_transaction_that_raises_is_rolled_back_and_gives_its_connection_back(
    empty_url: str,
) -> None:
    async with opened(empty_url) as database:

        async def work(second: int) -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                await insert(session, second)
                raise KeyError

        with pytest.raises(KeyError):
            await work(2)
        with pytest.raises(ConstraintViolated):
            await work(1)
        assert await numbers(database) == []
        assert repr(database) == "<Database up 1 open 1 idle>"


async def test_error_hidden_in_a_transaction_is_no_commit(empty_url: str) -> None:
    async with opened(empty_url) as database:

        async def work(statement: str) -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                with suppress(ConstraintViolated, StoreUnavailable):
                    await session.execute(statement)

        with pytest.raises(StatementRefused, match="had failed before its commit"):
            await work("INSERT INTO numbers VALUES (1)")
        with pytest.raises(StoreUnavailable):
            await work(BREAK)
        assert await numbers(database) == []


async def test_cancelled_transaction_is_rolled_back(empty_url: str) -> None:
    async with opened(empty_url) as database:
        inside = asyncio.Event()

        async def work(*, in_statement: bool) -> None:
            async with database.transaction() as session:
                await insert(session, 1)
                inside.set()
                if in_statement:
                    await session.execute("SELECT pg_sleep(30)")
                await asyncio.Event().wait()

        for in_statement in (False, True):
            inside.clear()
            task = asyncio.create_task(work(in_statement=in_statement))
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await numbers(database) == []


async def test_cancellation_during_commit_waits_for_the_commit(empty_url: str) -> None:
    async with opened(empty_url) as database, Database(empty_url) as other:
        # The commit waits until the other session lets go.
        await database.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON numbers INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        session = await other.session()
        await session.execute("SELECT pg_advisory_lock(1)")

        async def work() -> None:
            async with database.transaction() as transaction:
                await insert(transaction, 1)

        async def is_committing() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return await other.fetch_one(waiting) == (1,)

        task = asyncio.create_task(work())
        await eventually(is_committing, what="the commit waits")
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        await session.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await numbers(database) == [1]
        assert repr(database) == "<Database up 1 open 1 idle>"


async def test_no_statement_is_compiled_by_a_server_that_would(empty_url: str) -> None:
    async with Database(empty_url) as database:
        alter = "'ALTER DATABASE %I SET jit = on', current_database()"
        await database.execute(f"DO $$ BEGIN EXECUTE format({alter}); END $$")
    async with Database(empty_url) as database:
        assert await database.fetch_one("SHOW jit") == ("off",)


async def test_session_keeps_one_connection_through_errors(empty_url: str) -> None:
    async with opened(empty_url) as database:
        session = await database.session()
        backend = await session.fetch_one("SELECT pg_backend_pid()")
        await insert(session, 1)
        with pytest.raises(ConstraintViolated):
            await insert(session, 1)
        assert await session.fetch_one("SELECT pg_backend_pid()") == backend
        assert await numbers(database) == [1]
        await session.close()
        await session.close()
        assert session.is_closed


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_broken_session_stays_closed_and_says_so(empty_url: str, is_cancelled: bool) -> None:
    async with opened(empty_url) as database:
        session = await database.session()
        if is_cancelled:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await session.execute("SELECT pg_sleep(30)")
        else:
            with pytest.raises(StoreUnavailable):
                await session.execute(BREAK)
        assert session.is_closed
        assert repr(session) == "<Session <DatabaseConnection closed>>"
        with pytest.raises(StoreUnavailable, match="session is closed"):
            await session.fetch_all("SELECT 1")
        await session.close()
        fresh = await database.session()
        assert await fresh.fetch_one("SELECT 1") == (1,)


async def test_cancelled_statement_may_still_take_effect(empty_url: str) -> None:
    """Why money statements never run in a task that a client can cancel."""

    async with opened(empty_url) as database:
        session, other = await database.session(), await database.session()
        await other.execute("SELECT pg_advisory_lock(1)")
        waits = "INSERT INTO numbers SELECT 1 FROM pg_advisory_xact_lock(1)"
        running = asyncio.create_task(session.execute(waits))

        async def is_waiting() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return await database.fetch_one(waiting) == (1,)

        await eventually(is_waiting)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await other.close()

        async def is_there() -> bool:
            return await numbers(database) == [1]

        await eventually(is_there)


async def test_session_with_its_own_limit_outlives_the_statement_time_out(empty_url: str) -> None:
    async with Database(empty_url, statement_seconds=0.05) as database:
        session = await database.session(statement_seconds=10)
        await session.execute("SELECT pg_sleep(0.2)")
        await session.close()


async def test_work_carried_through_survives_several_cancellations() -> None:
    finish, done = asyncio.Event(), []

    async def work() -> None:
        await finish.wait()
        done.append(1)

    task = asyncio.create_task(carried_through(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]


async def test_failure_of_carried_work_reaches_its_caller() -> None:
    async def work() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError):
        await carried_through(work())
