"""`gw import new-api`: out of a real database into a real one, once, however often it is done."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gw.moving_in.writing import read_env_file
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw
from tests.support.new_api import make_postgresql, make_sqlite

pytestmark = pytest.mark.long

# What new-api's users had, in USD.
BALANCES = {"root": "10", "Ann": "1.234568", "Bob": "0"}


@pytest.fixture(params=["sqlite", "postgresql"])
def source(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresForTests) -> Any:
    if request.param == "sqlite":
        yield make_sqlite(tmp_path / "one-api.db")
        return
    with postgres.database() as url:
        make_postgresql(url)
        yield url


@pytest.fixture
def operate(gw: Gw, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Do what an operator is told to: set the variables, say the price that nobody knew."""

    def do() -> None:
        for name, value in read_env_file(gw.config.with_suffix(".env").read_text()).items():
            monkeypatch.setenv(name, value)
        waiting = "# price: not known; without one this is a fault of the configuration"
        text = gw.config.read_text()
        assert text.count(waiting) == 1
        gw.config.write_text(text.replace(waiting, "price: {input: 1, output: 2}"))
        gw.run_json("check-config")

    return do


def entries(url: str) -> list[tuple[str, str, int]]:
    """The ledger: account, kind, amount."""
    with transaction(url) as cursor:
        cursor.execute("SELECT account_id, kind::text, amount_nano_usd FROM entries ORDER BY id")
        found = cursor.fetchall()
    return [(account, kind, int(amount)) for account, kind, amount in found]


def test_accounts_are_booked_once_with_what_they_had(
    gw: Gw, source: str, database_url: str, operate: Callable[[], None]
) -> None:
    before = gw.config.read_text()
    dry = gw.run_json("import", "new-api", "--database", source, "--dry-run")
    assert {one["name"]: one["balance_usd"] for one in dry["accounts"]} == BALANCES
    assert (dry["written"], gw.config.read_text()) == (False, before)
    assert gw.run_json("account", "list")["accounts"] == []
    assert not gw.config.with_suffix(".env").exists()

    first = gw.run_json("import", "new-api", "--database", source)
    assert first["unpriced"] == ["half"]
    operate()
    accounts = {one["name"]: one for one in gw.run_json("account", "list")["accounts"]}
    assert {name: one["balance_usd"] for name, one in accounts.items()} == BALANCES
    assert {name: one["enabled"] for name, one in accounts.items()} == {
        "root": True,
        "Ann": True,
        "Bob": False,
    }
    assert entries(database_url) == [
        (accounts["root"]["id"], "topup", 10_000_000_000),
        (accounts["Ann"]["id"], "topup", 1_234_568_000),
    ]
    assert gw.run_json("ledger", "verify")["ok"] is True

    keys = gw.run_json("key", "list", "--account", accounts["Ann"]["id"])["keys"]
    made = {one["name"]: one for one in keys}
    assert made.keys() == {"laptop", "capped"}
    assert made["capped"]["allowed_models"] == ["llama-3"]
    assert made["capped"]["spend_cap_usd"] == "0.5"
    assert made["laptop"]["allowed_models"] is None
    texts = [key["key"] for one in first["accounts"] for key in one["keys"]]
    assert len(texts) == 2
    assert all(text.startswith("sk-platform-") for text in texts)
    events = gw.run_json("events", "list", "--account", accounts["Ann"]["id"])["events"]
    assert [one["type"] for one in events] == ["account.created", "key.created", "key.created"]
    assert {one["data"]["key_id"] for one in events[1:]} == {one["id"] for one in keys}
    assert not any(text in str(events) for text in texts)

    content = gw.config.read_text()
    assert "sk-first-upstream" not in content
    again = gw.run_json("import", "new-api", "--database", source)
    assert [one["new"] for one in again["accounts"]] == [False, False, False]
    assert (again["written"], gw.config.read_text()) == (False, content)
    assert len(entries(database_url)) == 2
    other = gw.run_json("import", "new-api", "--database", source, "--source", "another")
    assert [one["new"] for one in other["accounts"]] == [True, True, True]


def test_money_that_was_spent_here_is_not_given_again(
    gw: Gw, source: str, operate: Callable[[], None]
) -> None:
    gw.run_json("import", "new-api", "--database", source)
    operate()
    accounts = {one["name"]: one["id"] for one in gw.run_json("account", "list")["accounts"]}
    gw.run_json("account", "topup", accounts["Ann"], "3")
    gw.run_json("import", "new-api", "--database", source)
    assert gw.run_json("account", "show", accounts["Ann"])["balance_usd"] == "4.234568"


def test_imports_at_once_book_once(gw: Gw, source: str, database_url: str) -> None:
    gw.run_json("account", "list")  # makes the tables
    command = [sys.executable, "-m", "gw", "import", "new-api", "--database", source, "--json"]
    running = []
    for number in range(2):
        # Each with a configuration of its own: the database is what they share.
        config = gw.config.with_name(f"gw-{number}.yaml")
        config.write_text(gw.config.read_text().replace("/var", f"/var-{number}"))
        text = config.read_text().replace('secret: ""', "secret: of-these-tests-alone")
        config.write_text(text)
        running.append(
            subprocess.Popen([*command, "--config", str(config)], stdout=subprocess.PIPE, text=True)
        )
    results = []
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        results.append([one["new"] for one in json.loads(out)["accounts"]])
    assert [sum(pair) for pair in zip(*results, strict=True)] == [1, 1, 1]
    assert len(entries(database_url)) == 2


def test_database_that_is_none_changes_nothing(gw: Gw, tmp_path: Path) -> None:
    before = gw.config.read_text()
    message = gw.run("import", "new-api", "--database", f"sqlite:///{tmp_path}/none.db", "--json")
    assert message.exit_code == 2
    assert json.loads(message.out)["error"]["code"] == "invalid_configuration"
    message = gw.run("import", "new-api", "--database", "postgresql://u:hidden@127.0.0.1:1/x")
    assert message.exit_code == 2
    assert "hidden" not in message.out + message.err
    assert gw.config.read_text() == before


def test_gateway_that_knows_other_keys_refuses_and_books_nothing(
    gw: Gw, source: str, operate: Callable[[], None]
) -> None:
    gw.use_secret("the-first-secret-of-all")
    account = gw.run_json("account", "create", "Mine")["id"]
    gw.run_json("key", "create", "--account", account, "--name", "mine")
    gw.config.write_text(gw.config.read_text().replace("the-first-secret", "another-secret"))
    code, _ = gw.refuses("import", "new-api", "--database", source)
    assert code == "wrong_secret"
    # Under the secret of the keys the configuration is as good as before.
    gw.config.write_text(gw.config.read_text().replace("another-secret", "the-first-secret"))
    operate()
    # One without keys may have been booked before; none is half there.
    booked = {one["name"] for one in gw.run_json("account", "list")["accounts"]}
    assert booked <= {"Mine", "root"}
    assert gw.run_json("ledger", "verify")["ok"] is True
