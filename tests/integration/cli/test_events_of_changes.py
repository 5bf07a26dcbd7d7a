"""Changes of accounts and keys, as commands make them: their events, once, without a key's text."""

from pathlib import Path
from typing import Any

from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw


def events_of(url: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Type, account and data of every event so far, in order."""
    with transaction(url) as cursor:
        cursor.execute("SELECT events_number(1000)")
        cursor.execute("SELECT type, account_id, data FROM events ORDER BY sequence")
        return [(kind, account, data) for kind, account, data in cursor.fetchall()]


def test_account_from_its_making_to_its_end(gw: Gw, database_url: str) -> None:
    account = gw.run_json("account", "create", "Ann", "--credit-usd", "2", "--rpm", "60")["id"]
    gw.run_json("account", "limits", account, "--rpm", "none", "--concurrency", "3")
    gw.run_json("account", "disable", account)
    gw.run_json("account", "disable", account)
    gw.run_json("account", "enable", account)
    gw.run_json("account", "topup", account, "1")
    gw.run_json("account", "alerts", account, "--below-usd", "0.5", "2")
    limits = {"rpm_limit": 60, "concurrency_limit": None, "data_demand": None}
    assert events_of(database_url) == [
        ("account.created", account, {"name": "Ann", "changes": {"name": "Ann", **limits}}),
        (
            "account.updated",
            account,
            {"name": "Ann", "changes": {"rpm_limit": None, "concurrency_limit": 3}},
        ),
        ("account.disabled", account, {"name": "Ann", "changes": {"enabled": False}}),
        ("account.enabled", account, {"name": "Ann", "changes": {"enabled": True}}),
        (
            "account.updated",
            account,
            {"name": "Ann", "changes": {"balance_alerts_usd": ["2", "0.5"]}},
        ),
    ]


def test_key_from_its_making_to_its_end(gw: Gw, database_url: str) -> None:
    account = gw.run_json("account", "create", "Ann")["id"]
    options = ["--account", account, "--name", "laptop", "--spend-cap-usd", "5"]
    key = gw.run_json("key", "create", *options)
    gw.run_json("key", "set", key["id"], "--allow", "gpt-latest", "--name", "desk")
    gw.run_json("key", "disable", key["id"])
    gw.run_json("key", "reveal", key["id"])
    gw.run_json("key", "revoke", key["id"])
    gw.run_json("key", "revoke", key["id"])
    _, made, named, disabled, revoked = events_of(database_url)
    who = {"key_id": key["id"], "kind": "console"}
    assert made == (
        "key.created",
        account,
        {
            **who,
            "name": "laptop",
            "changes": {
                "name": "laptop",
                "kind": "console",
                "allowed_models": None,
                "expires_at": None,
                "data_demand": None,
                "account_logs": False,
                "spend_cap_usd": "5",
            },
        },
    )
    changes = {"name": "desk", "allowed_models": ["gpt-large"]}
    assert named == ("key.updated", account, {**who, "name": "desk", "changes": changes})
    changed = {"enabled": False}
    assert disabled == ("key.updated", account, {**who, "name": "desk", "changes": changed})
    assert revoked == ("key.revoked", account, {**who, "name": "desk", "changes": {}})
    assert key["key"] not in str(events_of(database_url))


def test_keys_that_others_ask_for_and_hashes_have_their_event(
    gw: Gw, database_url: str, tmp_path: Path
) -> None:
    account = gw.run_json("account", "create", "Ann")["id"]
    prompt = tmp_path / "prompt"
    prompt.write_text("Help.")
    persona = ["--name", "helper", "--system-prompt", str(prompt)]
    agent = gw.run_json("agent", "create", "--account", account, *persona)["id"]
    wish = ["--agent", agent, "--name", "bot", "--requested-by", "ben", "--spend-cap-usd", "1"]
    asked = gw.run_json("key", "request", "--account", account, *wish)["id"]
    assert [kind for kind, _, _ in events_of(database_url)] == ["account.created"]
    key = gw.run_json("key", "approve", asked)["id"]
    hashed = ["--hash", "ab" * 32, "--account", account, "--name", "old"]
    imported = gw.run_json("key", "import-hash", *hashed)["id"]
    assert [(kind, data["key_id"]) for kind, _, data in events_of(database_url)[1:]] == [
        ("key.created", key),
        ("key.created", imported),
    ]


def test_alerts_of_a_balance_are_few_amounts_or_none(gw: Gw) -> None:
    account = gw.run_json("account", "create", "Ann")["id"]

    def alerts(*options: str) -> list[str]:
        shown: list[str] = gw.run_json("account", "alerts", account, *options)["balance_alerts_usd"]
        return shown

    assert alerts("--below-usd", "5", "20", "--below-usd", "5.0") == ["20", "5"]
    assert gw.run_json("account", "show", account)["balance_alerts_usd"] == ["20", "5"]
    assert "20, 5" in gw.run("account", "show", account).out
    assert alerts("--none") == []
    for options in (
        ["--below-usd", *"123456"],
        ["--below-usd", "-1"],
        ["--below-usd", "0.0000000001"],
        ["--below-usd", "much"],
        ["--below-usd", "1", "--none"],
        [],
    ):
        assert gw.run("account", "alerts", account, *options).exit_code == 2, options
    code, _ = gw.refuses("account", "alerts", "acct_nobody", "--none")
    assert code == "account_not_found"
