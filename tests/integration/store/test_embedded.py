"""The embedded PostgreSQL: started, shared, killed, stopped; as whom it runs, and who gets in."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.store.database import Database
from actors.store.embedded import binaries
from actors.store.embedded.access import PASSWORD_FILE, ROLE, SUPERUSER
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import PRIVATE_UIDS, Identity
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.store.errors import ConstraintViolated
from actors.store.schema import migrate
from loadtests.rig.servers import is_running, kill_server, server_of
from tests.support.aio import eventually, run
from tests.support.logs import logs

pytestmark = pytest.mark.long


async def write(url: str, n: int) -> None:
    async with Database(url) as database:
        await database.execute("CREATE TABLE IF NOT EXISTS kept (n integer PRIMARY KEY)")
        await database.execute("INSERT INTO kept VALUES (%s)", (n,))


async def kept(url: str) -> list[int]:
    async with Database(url) as database:
        return [n for (n,) in await database.fetch_all("SELECT n FROM kept ORDER BY n")]


async def test_server_has_no_secret_of_the_gateways_environment(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GW_SECRET", "OPENAI_API_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "a-secret-of-tests")
    embedded = EmbeddedPostgres(data_dir)
    await embedded.start()
    environ = _environ_of(server_of(data_dir).pid)
    assert b"PATH=" in environ
    assert b"a-secret-of-tests" not in environ
    await embedded.stop()


def _environ_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_restart_keeps_everything(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir / "var")
    for n in (1, 2):
        await write(await embedded.start(), n)
        await embedded.stop()
        await embedded.stop()
        assert not is_running(data_dir / "var")
    assert await kept(await EmbeddedPostgres(data_dir / "var").start()) == [1, 2]


async def test_relative_folder_means_the_same_from_elsewhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data_dir)

    embedded = EmbeddedPostgres(Path("var"))
    monkeypatch.chdir("/")
    await embedded.start()
    assert is_running(data_dir / "var")
    await embedded.stop()


async def test_first_start_by_several_at_once_makes_one_cluster(data_dir: Path) -> None:
    users = [EmbeddedPostgres(data_dir) for _ in range(4)]
    urls = await asyncio.gather(*(user.start() for user in users))
    assert len(set(urls)) == 1
    await write(urls[0], 1)
    pid = server_of(data_dir).pid
    for user in users[:-1]:
        await user.stop()
        assert server_of(data_dir).pid == pid
    assert await kept(urls[0]) == [1]
    await users[-1].stop()
    assert not is_running(data_dir)


@logs("postgres_lost", "listener_lost", "database_lost")
async def test_killed_server_is_started_again_under_the_same_url(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    url = await embedded.start()
    await write(url, 1)
    assert not await embedded.ensure_running()
    heard: list[str] = []
    async with Database(url) as database:
        await database.listen("gw_changes", heard.append, lambda: heard.append("gap"))
        session = await database.session()
        kill_server(data_dir)
        await eventually(lambda: session.is_closed or not database.is_up)
        assert await embedded.ensure_running()
        await eventually(lambda: heard == ["gap"])
        assert await database.fetch_all("SELECT n FROM kept") == [(1,)]
        assert database.is_up
    await embedded.stop()


async def test_process_number_taken_by_another_program_does_not_block_the_start(
    data_dir: Path,
) -> None:
    embedded = EmbeddedPostgres(data_dir)
    await write(await embedded.start(), 1)
    kill_server(data_dir)
    await embedded.stop()
    pid_file = data_dir / "postgres" / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert await kept(await embedded.start()) == [1]
    await embedded.stop()


async def test_interrupted_making_is_done_again(data_dir: Path) -> None:
    unfinished = data_dir / "postgres" / "data.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    embedded = EmbeddedPostgres(data_dir)
    await write(await embedded.start(), 1)
    assert not unfinished.exists()
    await embedded.stop()


async def test_long_path_is_no_obstacle(data_dir: Path) -> None:
    folder = data_dir / ("long-" * 20) / ("path-" * 20) / "ünd 'odd'"
    folder.mkdir(parents=True)
    one, two = EmbeddedPostgres(folder), EmbeddedPostgres(folder)
    url = await one.start()
    assert await two.start() == url
    await write(url, 1)
    await one.stop()
    assert await kept(url) == [1]
    sockets = server_of(folder).socket_folder
    assert sockets is not None
    await two.stop()
    assert not sockets.exists()


async def test_server_listens_on_no_port_and_its_socket_is_private(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    async with Database(await embedded.start()) as database:
        shown = await database.fetch_one(
            "SELECT current_setting('listen_addresses'), current_setting('fsync'), "
            "current_setting('synchronous_commit')"
        )
        assert shown == ("", "on", "on")
    sockets = server_of(data_dir).socket_folder
    assert sockets is not None
    assert sockets.stat().st_mode & 0o777 == 0o700
    await embedded.stop()


async def test_log_does_not_quote_statements_or_rows(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    async with Database(await embedded.start()) as database:
        await database.execute("CREATE TABLE notes (t text CHECK (t = ''))")
        with pytest.raises(ConstraintViolated):
            await database.execute("INSERT INTO notes VALUES (%s)", ("confidential",))
    await embedded.stop()
    log = (data_dir / "postgres" / "log" / "postgres.log").read_text()
    assert "violates check constraint" in log
    assert "confidential" not in log


async def test_data_of_another_version_is_a_clear_fault(data_dir: Path) -> None:
    data = data_dir / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("97\n")
    with pytest.raises(EmbeddedFault, match="needs PostgreSQL version 97"):
        await EmbeddedPostgres(data_dir).start()


def test_folder_that_cannot_be_made_is_a_clear_fault(data_dir: Path) -> None:
    (data_dir / "file").write_text("")
    with pytest.raises(EmbeddedFault, match="cannot be made"):
        run(EmbeddedPostgres(data_dir / "file" / "var").start())


IS_ROOT = os.geteuid() == 0
NOBODY = 65534
STRANGER = NOBODY if IS_ROOT else os.geteuid()

# Tries every role through the socket, and, as another user, every file on the way to a password.
ATTACK = """
import json, os, signal, sys
import psycopg2
uid, sockets, pid, *files = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
got = []
def attempt(name, action):
    try:
        action()
        got.append(name)
    except (OSError, psycopg2.OperationalError):
        pass
for role in ("gateway", "gw", "postgres", "nobody", "root"):
    attempt(role, lambda: psycopg2.connect(host=sockets, user=role, dbname="postgres"))
for file in files:
    attempt(file, lambda: open(file).read())
    attempt("write " + file, lambda: open(file, "a"))
if files:
    attempt("signal", lambda: os.kill(int(pid), 0))
print(json.dumps(got))
"""


def attack(data_dir: Path, *, uid: int = STRANGER) -> list[str]:
    """Let the stranger try; return what succeeded."""
    server = server_of(data_dir)
    assert server.socket_folder is not None
    files = [
        str(data_dir / PASSWORD_FILE),
        *(str(server.data / name) for name in ("pg_hba.conf", "PG_VERSION")),
    ]
    if uid == os.geteuid():
        files = []  # the files are its own
    command = [sys.executable, "-c", ATTACK, str(uid), str(server.socket_folder), str(server.pid)]
    done = subprocess.run(
        [*command, *files], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    tried: list[str] = json.loads(done.stdout)
    return tried


def open_cluster(data_dir: Path) -> Path:
    """Make a cluster as versions before this one did, and leave it stopped; return its folder."""
    folder = data_dir / "postgres"
    folder.mkdir()
    found = binaries.find_binaries({})
    owner = Identity(uid=STRANGER, gid=STRANGER if IS_ROOT else os.getgid(), is_switched=IS_ROOT)
    for name in ("data", "run", "log"):
        owner.make_folder(folder / name)
    options = ["--auth=trust", "--encoding=UTF8", "--no-locale", f"--username={SUPERUSER}"]
    code, output = owner.run(
        [found.path("initdb"), *options, "-D", "data"], cwd=folder, timeout_seconds=60
    )
    assert code == 0, output
    return folder


def start_as_before(folder: Path) -> str:
    """Start the open cluster; return the URL that earlier versions used."""
    owner = Identity(uid=STRANGER, gid=STRANGER if IS_ROOT else os.getgid(), is_switched=IS_ROOT)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder / 'run'}"
    command = [binaries.find_binaries({}).path("pg_ctl"), "start", "-D", "data", "-w", "-s"]
    code, output = owner.run(
        [*command, "-l", "log/postgres.log", "-o", options], cwd=folder, timeout_seconds=60
    )
    assert code == 0, output
    return f"postgresql://{SUPERUSER}@/postgres?host={folder / 'run'}"


async def one(url: str, query: str) -> tuple[Any, ...] | None:
    async with Database(url) as database:
        return await database.fetch_one(query)


async def test_only_the_gateway_gets_in(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    url = await embedded.start()
    assert attack(data_dir) == []
    # Whoever may pass through the socket's folder needs the password all the same.
    assert attack(data_dir, uid=os.geteuid()) == []
    assert (data_dir / PASSWORD_FILE).stat().st_mode & 0o777 == 0o600
    assert await one(url, "SELECT current_user::text") == (ROLE,)
    await embedded.stop()


async def test_role_of_the_gateway_owns_the_database_and_nothing_else(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    url = await embedded.start()
    async with Database(url) as database:
        await migrate(database)
        rights = await database.fetch_one(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, "
            "pg_has_role('pg_read_server_files', 'member'), "
            "pg_has_role('pg_execute_server_program', 'member') "
            "FROM pg_roles WHERE rolname = current_user"
        )
        assert rights == (False,) * 7
    await embedded.stop()


async def test_open_cluster_of_an_earlier_version_is_closed_and_keeps_everything(
    data_dir: Path,
) -> None:
    folder = open_cluster(data_dir)
    old_url = start_as_before(folder)
    assert "gateway" in attack(data_dir)  # what is to end

    async with Database(old_url) as database:
        await migrate(database)
        await database.execute("CREATE TABLE kept (n serial PRIMARY KEY, t text)")
        await database.execute("INSERT INTO kept (t) VALUES ('paid')")
    embedded = EmbeddedPostgres(data_dir)
    url = await embedded.start()
    assert attack(data_dir) == []
    async with Database(url) as database:
        assert await migrate(database) == []
        assert await database.fetch_one("SELECT t FROM kept") == ("paid",)
        # Later migrations and months change what the superuser has made.
        await database.execute("ALTER TABLE call_logs ADD COLUMN later integer")
        await database.execute("ALTER TABLE kept ADD COLUMN later integer")
        others = await database.fetch_all(
            "SELECT relname::text FROM pg_class WHERE relowner <> 'gw'::regrole "
            "AND relnamespace = 'public'::regnamespace UNION ALL "
            "SELECT proname::text FROM pg_proc WHERE proowner <> 'gw'::regrole "
            "AND pronamespace = 'public'::regnamespace UNION ALL "
            "SELECT typname::text FROM pg_type WHERE typowner <> 'gw'::regrole "
            "AND typnamespace = 'public'::regnamespace"
        )
        assert others == []
    if IS_ROOT:
        assert all(path.lstat().st_uid != NOBODY for path in folder.rglob("*"))
    await embedded.stop()
    assert not is_running(data_dir)
    assert await one(await embedded.start(), "SELECT t FROM kept") == ("paid",)
    await embedded.stop()


async def test_rules_that_another_user_could_write_are_not_believed(data_dir: Path) -> None:
    rules = open_cluster(data_dir) / "data" / "pg_hba.conf"
    rules.write_text(f"local all all trust\nlocal all {ROLE} scram-sha-256\n")

    embedded = EmbeddedPostgres(data_dir)
    await embedded.start()
    assert attack(data_dir, uid=os.geteuid()) == []
    await embedded.stop()


async def test_rule_that_an_operator_adds_stays(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    await embedded.start()
    with (data_dir / "postgres" / "data" / "pg_hba.conf").open("a") as rules:
        rules.write("local all backup scram-sha-256\n")
    another = EmbeddedPostgres(data_dir)
    assert await one(await another.start(), "SELECT current_user::text") == (ROLE,)
    await another.stop()
    await embedded.stop()
    await embedded.start()
    assert "backup" in (data_dir / "postgres" / "data" / "pg_hba.conf").read_text()
    await embedded.stop()


@logs("postgres_without_password")
async def test_server_that_an_earlier_version_still_uses_is_closed_when_it_has_left(
    data_dir: Path,
) -> None:
    old_url = start_as_before(open_cluster(data_dir))

    old, new = EmbeddedPostgres(data_dir), EmbeddedPostgres(data_dir)
    with old._users.alone():
        old._users.join()  # as a process of that version has
    url = await new.start()
    assert await one(url, "SELECT 1") == await one(old_url, "SELECT 1") == (1,)
    await new.stop()
    with old._users.alone():
        old._users.leave()
    await new.start()
    assert attack(data_dir) == []
    await new.stop()


async def test_interrupted_closing_is_done_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, embedded = EmbeddedPostgres(data_dir), EmbeddedPostgres(data_dir)
    with monkeypatch.context() as patch:
        patch.setattr("actors.store.embedded.cluster.Cluster._close", lambda *_: None)
        assert SUPERUSER in await killed.start()
    with killed._users.alone():
        killed._users.leave()  # as the lock of a dead process
    await embedded.start()
    assert attack(data_dir, uid=os.geteuid()) == []
    await embedded.stop()


async def test_lost_password_is_made_anew_at_the_next_start(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    await one(await embedded.start(), "CREATE TABLE kept AS SELECT 1 AS n; SELECT 1")
    (data_dir / PASSWORD_FILE).unlink()
    with pytest.raises(EmbeddedFault, match=r"postgres\.password is missing: stop every process"):
        await EmbeddedPostgres(data_dir).start()
    await embedded.stop()
    assert await one(await embedded.start(), "SELECT n FROM kept") == (1,)
    assert attack(data_dir) == []
    await embedded.stop()


async def test_password_of_another_cluster_is_a_clear_fault(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    await embedded.start()
    await embedded.stop()
    (data_dir / PASSWORD_FILE).write_text("another\n")
    with pytest.raises(EmbeddedFault, match="not of this cluster: put the right one back"):
        await embedded.start()
    assert not is_running(data_dir)


NAMELESS = 54321


def use_as(uid: int, folder: Path) -> str:
    """Start, use and stop the server of `folder` as user `uid`; return what it said."""
    command = [sys.executable, "-m", "tests.support.as_user", str(uid), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "") or "postgres_st" in done.stderr, done.stderr
    return done.stdout.strip()


def make_folder(folder: Path, *, owner: int, mode: int) -> Path:
    folder.mkdir()
    if IS_ROOT:
        os.chown(folder, owner, owner)
    folder.chmod(mode)
    return folder


def owner_of_data(folder: Path) -> int:
    return (folder / "postgres" / "data").stat().st_uid


def modes(*folders: Path) -> list[int]:
    return [stat.S_IMODE(folder.stat().st_mode) for folder in folders]


def test_open_folder_is_used_by_root_through_a_user_id_that_nothing_else_has(
    data_dir: Path,
) -> None:
    folder = make_folder(data_dir / "var", owner=os.geteuid(), mode=0o755)
    assert [use_as(os.geteuid(), folder) for _ in range(2)] == ["1", "2"]
    owner = owner_of_data(folder)
    assert owner in PRIVATE_UIDS if IS_ROOT else owner == os.geteuid()
    assert modes(data_dir, folder) == [0o711, 0o755]


def test_folder_under_a_closed_one_is_used_without_opening_it(data_dir: Path) -> None:
    closed = make_folder(data_dir / "home", owner=os.geteuid(), mode=0o700)
    message = use_as(os.geteuid(), closed / "var")
    assert modes(closed) == [0o700]
    if message.startswith("fault:"):  # a container that allows no user namespaces
        assert f"{closed} is closed to other users" in message
        return
    assert message == "1"
    assert owner_of_data(closed / "var") == os.geteuid()
    # Opened up later, the data stays its owner's.
    closed.chmod(0o755)
    assert use_as(os.geteuid(), closed / "var") == "2"
    assert owner_of_data(closed / "var") == os.geteuid()


def test_data_in_a_folder_closed_later_is_a_clear_fault(data_dir: Path) -> None:
    folder = make_folder(data_dir / "var", owner=os.geteuid(), mode=0o755)
    assert use_as(os.geteuid(), folder) == "1"
    folder.chmod(0o700)
    message = use_as(os.geteuid(), folder)
    if IS_ROOT:
        assert f"{folder} is closed to that user" in message
    else:
        assert message == "2"


def test_ordinary_user_uses_a_folder_of_their_own(data_dir: Path) -> None:
    user = NOBODY if IS_ROOT else os.geteuid()
    folder = make_folder(data_dir / "home", owner=user, mode=0o700)
    assert [use_as(user, folder / "var") for _ in range(2)] == ["1", "2"]
    assert owner_of_data(folder / "var") == user


def test_user_without_a_name_is_served_or_sees_why_not(data_dir: Path) -> None:
    user = NAMELESS if IS_ROOT else os.geteuid()
    folder = make_folder(data_dir / "home", owner=user, mode=0o700)
    message = use_as(user, folder)
    assert message == "1" or "this user id has no name on this machine" in message


@pytest.mark.parametrize("first", ["root", "user"])
def test_root_and_the_owner_share_a_folder(data_dir: Path, first: str) -> None:
    user = NOBODY if IS_ROOT else os.geteuid()
    folder = make_folder(data_dir / "home", owner=user, mode=0o755)
    order = [user, os.geteuid(), user] if first == "user" else [os.geteuid()] * 3
    assert [use_as(uid, folder) for uid in order] == ["1", "2", "3"]
    assert owner_of_data(folder) == user


def test_folder_of_another_user_is_a_clear_fault(data_dir: Path) -> None:
    folder = make_folder(data_dir / "home", owner=0, mode=0o500 if not IS_ROOT else 0o755)
    message = use_as(NOBODY if IS_ROOT else os.geteuid(), folder)
    assert message.startswith("fault:")
    assert "cannot be made: Permission denied" in message
