"""Commands and what is around them: the database they find or start, secrets, other commands."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.store.connection import Row
from actors.store.database import Database
from actors.store.embedded.postgres import EmbeddedPostgres
from gw.cli import check_config
from gw.keys.key_text import is_key_text
from loadtests.rig.processes import GatewayProcess
from loadtests.rig.servers import is_running
from tests.integration.cli.command import CONFIGURATION, Gw
from tests.support.logs import ExpectLog, logs

pytestmark = pytest.mark.long


def start(config: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gw", *arguments, "--json"],
        env={**os.environ, "GW_CONFIG": str(config)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    response: dict[str, Any] = json.loads(out)
    return response


def command(config: Path, *arguments: str) -> dict[str, Any]:
    return outcome(start(config, *arguments))


@pytest.fixture
def embedded(data_dir: Path) -> Path:
    """A configuration whose database is an embedded one that nobody has started."""
    config = data_dir / "gw.yaml"
    config.write_text(
        CONFIGURATION.format(database_url='""', data_dir=data_dir / "var", secret='""')
    )
    return config


def test_commands_bring_their_own_database_and_leave_its_contents(embedded: Path) -> None:
    var = embedded.parent / "var"
    account = command(embedded, "account", "create", "Ann", "--trial")
    assert not is_running(var)
    key = command(embedded, "key", "create", "--account", account["id"], "--name", "n")
    assert is_key_text(key["key"])
    assert (var / "secret").stat().st_mode & 0o777 == 0o600
    assert command(embedded, "key", "reveal", key["id"])["key"] == key["key"]
    assert command(embedded, "account", "list") == {"accounts": [account]}
    assert not is_running(var)


def test_first_commands_at_once_share_one_database_and_one_secret(embedded: Path) -> None:
    makers = [start(embedded, "account", "create", f"a{n}", "--trial") for n in range(3)]
    accounts = [outcome(maker) for maker in makers]
    assert {account["balance_usd"] for account in accounts} == {"0.3"}
    makers = [
        start(embedded, "key", "create", "--account", account["id"], "--name", "n")
        for account in accounts
    ]
    keys = [outcome(maker) for maker in makers]
    revealed = [start(embedded, "key", "reveal", key["id"]) for key in keys]
    assert [outcome(process)["key"] for process in revealed] == [key["key"] for key in keys]
    assert command(embedded, "ledger", "verify")["counts"]["entries"] == 3


async def test_command_beside_a_running_gateway_leaves_its_database_running(embedded: Path) -> None:
    var = embedded.parent / "var"

    gateway = EmbeddedPostgres(var)
    await gateway.start()
    try:
        command(embedded, "account", "create", "Ann")
        assert is_running(var)
    finally:
        await gateway.stop()
    assert not is_running(var)


def test_first_command_makes_the_tables(
    tmp_path: Path, empty_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gw = Gw(tmp_path, empty_url, capsys)
    assert gw.run_json("account", "list") == {"accounts": []}
    assert gw.run_json("ledger", "verify")["ok"] is True


@logs("database_lost")
def test_database_that_is_not_there_is_one_clear_line(gw: Gw, tmp_path: Path) -> None:
    gw.write_config(
        database_url='"postgresql://me:hidden@127.0.0.1:1/db"', data_dir=tmp_path / "var"
    )
    code, message = gw.refuses("account", "list")
    assert code == "database_unavailable"
    assert message.startswith("the database cannot be reached: ")
    assert "hidden" not in message
    assert "\n" not in message


def test_configured_secret_needs_no_file(gw: Gw, tmp_path: Path) -> None:
    gw.use_secret("configured-by-hand")
    account = gw.run_json("account", "create", "Ann")["id"]
    key = gw.run_json("key", "create", "--account", account, "--name", "n")
    assert gw.run_json("key", "reveal", key["id"])["key"] == key["key"]
    assert not (tmp_path / "var").exists()


def test_secret_that_cannot_be_kept_is_one_clear_line(gw: Gw, tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file where the folder should be")
    account = gw.run_json("account", "create", "Ann")["id"]
    refusal = gw.refuses("key", "create", "--account", account, "--name", "n")
    assert refusal[0] == "secret_unavailable"


def database_warnings(gw: Gw) -> list[str]:
    """What `check-config` reports of the database, beside the names that are too short."""
    checked = gw.run_json("check-config")
    assert checked["ok"]
    warned = {one["path"]: one["message"] for one in checked["warnings"]}
    del warned["channels[0].id"], warned["channels[0].api_key"]
    assert list(warned) in ([], ["database_url"])
    return list(warned.values())


async def done(url: str, sql: str) -> list[Row]:
    """The rows of one statement."""
    async with Database(url) as database:
        return await database.fetch_all(sql)


NEWER = "INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, '9999_later', '')"
EDITED = "UPDATE schema_migrations SET checksum = 'other' WHERE name = 'tables'"


@pytest.mark.parametrize(
    ("change", "why"),
    [(NEWER, "it has 9999_later (number 9999)"), (EDITED, "tables is not the file")],
)
def test_check_config_warns_of_the_start_that_the_database_refuses(
    gw: Gw, database_url: str, change: str, why: str
) -> None:
    assert database_warnings(gw) == []
    asyncio.run(done(database_url, change))
    code, refusal = gw.refuses("account", "list")
    assert (code, why in refusal) == ("migration", True)
    assert database_warnings(gw) == [f"gw serve would refuse to start: {refusal}"]


def test_check_config_finds_the_secret_of_another_database(gw: Gw, account: str) -> None:
    create = ("key", "create", "--account", account, "--name", "n")
    assert database_warnings(gw) == []  # no key is there yet
    gw.run_json(*create)  # under the secret of the data folder
    assert database_warnings(gw) == []
    gw.use_secret("another-of-16-letters")
    stated = gw.run("check-config", "--json")
    assert stated.exit_code == 2
    error = json.loads(stated.out)["error"]
    assert error["code"] == "invalid_configuration"
    (fault,) = error["faults"]
    assert fault["path"] == "secret"
    assert "another-of-16-letters" not in stated.out + stated.err
    assert gw.refuses(*create)[0] == "wrong_secret"  # as a start would be
    # A secret that is lost is another one, and none is made in its place.
    gw.config.write_text(gw.config.read_text().replace("another-of-16-letters", '""'))
    file = gw.config.parent / "var" / "secret"
    kept = file.read_text()
    file.unlink()
    assert gw.run("check-config").exit_code == 2
    assert not file.exists()
    # The previous one opens it as well.
    text = f"{gw.config.read_text()}previous_secret: {kept.strip()}\n"
    gw.config.write_text(text.replace('secret: ""', "secret: another-of-16-letters", 1))
    assert database_warnings(gw) == []
    # What cannot be read is no fault of the file.
    file.mkdir()
    gw.config.write_text(text)
    (warning,) = database_warnings(gw)
    assert warning.startswith("the secret was not compared")


@pytest.mark.parametrize("processes", [1, 2])
def test_service_manager_hears_once_that_a_gateway_is_ready_and_stops(
    gw: Gw, tmp_path: Path, processes: int
) -> None:
    config = f'{gw.config.read_text()}listen: "127.0.0.1:0"\nadmin_listen: "127.0.0.1:0"\n'
    gw.config.write_text(config)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"gw-{os.getpid()}-{tmp_path.name}"
        manager.bind(f"\0{name}")
        manager.settimeout(60)
        environ = {"NOTIFY_SOCKET": f"@{name}"}
        with closing(GatewayProcess(gw.config, processes=processes, environ=environ)) as gateway:
            assert manager.recv(100) == b"READY=1"
            gateway.popen.send_signal(signal.SIGTERM)
            assert gateway.wait() == 0
        assert manager.recv(100) == b"STOPPING=1"
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(100)


def test_check_config_makes_nothing(gw: Gw, tmp_path: Path, empty_url: str) -> None:
    gw.write_config(database_url=json.dumps(empty_url), data_dir=tmp_path / "var")
    assert database_warnings(gw) == []
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert asyncio.run(done(empty_url, tables)) == []
    assert sorted(tmp_path.iterdir()) == [gw.config]


@pytest.mark.parametrize("is_silent", [True, False])
def test_check_config_warns_of_a_database_that_it_cannot_ask(
    gw: Gw,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expect_log: ExpectLog,
    *,
    is_silent: bool,
) -> None:
    if not is_silent:
        expect_log("database_lost")
    monkeypatch.setattr(check_config, "DATABASE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if is_silent else 1
        url = f'"postgresql://me:hidden@127.0.0.1:{port}/db"'
        gw.write_config(database_url=url, data_dir=tmp_path / "var")
        (warning,) = database_warnings(gw)
    assert warning.startswith(check_config.NOT_COMPARED + ": ")
    assert ("did not answer" in warning) == is_silent
    assert "hidden" not in warning


async def test_check_config_asks_the_embedded_database_only_while_it_runs(embedded: Path) -> None:
    def warned() -> list[str]:
        warnings = command(embedded, "check-config")["warnings"]
        return [one["message"] for one in warnings if one["path"] == "data_dir"]

    var = embedded.parent / "var"
    assert (warned(), var.exists()) == ([], False)
    gateway = EmbeddedPostgres(var)
    url = await gateway.start()
    try:
        command(embedded, "account", "list")  # makes the tables
        assert warned() == []
        await done(url, NEWER)
        (newer,) = warned()
        assert newer.startswith("gw serve would refuse to start: the database is newer")
    finally:
        await gateway.stop()
    (unknown,) = warned()
    assert unknown.startswith(check_config.NOT_COMPARED + ": the embedded PostgreSQL runs only")
    assert not is_running(var)


@pytest.mark.parametrize(("processes", "host"), [("1", "localhost"), ("2", "127.0.0.1")])
def test_address_in_use_is_named_with_its_key_before_a_database_is_made(
    embedded: Path, processes: str, host: str
) -> None:
    text = embedded.read_text()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"{host}:{taken.getsockname()[1]}"
        for key, other in (("listen", "admin_listen"), ("admin_listen", "listen")):
            embedded.write_text(f'{text}{key}: "{place}"\n{other}: "127.0.0.1:0"\n')
            out, _ = start(embedded, "serve", "--processes", processes).communicate(timeout=60)
            assert json.loads(out)["error"] == {
                "message": f"the gateway cannot run: {key}: {place}: Address already in use",
                "code": "cannot_serve",
            }
            assert not (embedded.parent / "var").exists()


# Runs a command with a folder as `ProtectSystem=strict` leaves it: nothing can be written there.
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 1; shift; exec "$@"'


def protected(folder: Path) -> list[str]:
    """What to run a command by, so that it cannot write `folder`/var."""
    prefix = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(folder)]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
        return prefix
    (folder / "var").write_text("")  # no namespaces here: something else stands in the way
    return []


def test_first_file_of_a_service_keeps_its_state_where_the_unit_says(data_dir: Path) -> None:
    etc, state = data_dir / "etc", data_dir / "lib"
    etc.mkdir()
    state.mkdir()
    named = ["--config", str(etc / "gw.yaml"), "--json"]
    gw = [sys.executable, "-m", "gw"]
    initial = subprocess.run([*gw, "init", "--provider", "openai", *named], capture_output=True)
    assert initial.returncode == 0, initial.stderr
    gw = [*protected(etc), *gw]
    for environ, warned in (({}, ["data_dir"]), ({"GW_DATA_DIR": str(state)}, [])):
        done = subprocess.run(
            [*gw, "check-config", *named],
            env={**os.environ, "OPENAI_API_KEY": "sk-of-openai", **environ},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert [one["path"] for one in json.loads(done.stdout)["warnings"]] == warned
    units = Path("ops/systemd").glob("*.service")
    for unit in units:
        assert "\nEnvironment=GW_DATA_DIR=/var/lib/model-gateway\n" in unit.read_text()
