"""Who gets into the embedded PostgreSQL: the gateway, and nobody else who runs on the machine.

The stranger is a process of the user `nobody` when root runs the tests. An ordinary user cannot
become another one: the stranger is then a process of the same user that has not read the password.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.store.database import Database
from actors.store.embedded import cluster
from actors.store.embedded.access import PASSWORD_FILE, ROLE, SUPERUSER, EmbeddedFault, Identity
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.store.schema import migrate
from tests.support.servers import is_running, server_of

pytestmark = pytest.mark.long

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
    found = cluster.find({})
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
    command = [cluster.find({}).path("pg_ctl"), "start", "-D", "data", "-w", "-s"]
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


async def test_server_that_an_earlier_version_still_uses_is_closed_when_it_has_left(
    data_dir: Path, expect_log: Callable[..., None]
) -> None:
    expect_log("postgres_without_password")
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
