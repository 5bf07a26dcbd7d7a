"""`gw key` on a real PostgreSQL."""

import hashlib
import json
import os
import pwd
import socket
from typing import Any

import psycopg2
import pytest

from gw.cli.arguments import instant
from gw.keys.key_text import is_key_text, new_key_text
from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw


def make(gw: Gw, account: str, *options: str) -> dict[str, Any]:
    return gw.run_json("key", "create", "--account", account, "--name", "n", *options)


def test_new_key_is_printed_with_its_settings(gw: Gw, account: str) -> None:
    key = make(gw, account)
    assert is_key_text(key["key"])
    assert key["id"].startswith("key_")
    assert len(key["id"]) == 24
    assert key["prefix"] == key["key"][:20]
    shown = {
        name: key[name] for name in ("kind", "status", "allowed_models", "expires_at", "revealable")
    }
    assert shown == {
        "kind": "console",
        "status": "active",
        "allowed_models": None,
        "expires_at": None,
        "revealable": True,
    }
    stated = gw.run("key", "create", "--account", account, "--name", "n")
    (line,) = [line for line in stated.out.splitlines() if line.startswith("key ")]
    assert is_key_text(line.split()[1])
    assert stated.out.count(line.split()[1]) == 1


def test_every_setting_of_a_new_key_is_kept(gw: Gw, account: str) -> None:
    options = (
        "--kind employee --allow gpt-latest --allow gpt-small --allow gpt-large"
        " --expires 2020-01-01T02:00:00+02:00 --spend-cap-usd 1.50 --account-logs"
    )
    key = make(gw, account, *options.split())
    assert key["kind"] == "employee"
    assert key["allowed_models"] == ["gpt-large", "gpt-small"]
    assert key["expires_at"] == "2020-01-01T00:00:00Z"
    assert key["status"] == "expired"
    assert (key["spend_cap_usd"], key["spent_usd"]) == ("1.5", "0")
    assert key["account_logs"] is True
    assert make(gw, account, "--allow-none")["allowed_models"] == []


def test_key_for_a_model_or_account_that_is_not_there_is_refused(gw: Gw, account: str) -> None:
    create = ["key", "create", "--name", "n", "--account"]
    code, message = gw.refuses(*create, account, "--allow", "gpt-smal")
    assert code == "model_not_found"
    assert message == "there is no model gpt-smal, did you mean gpt-small?"
    assert gw.refuses(*create, "acct_1") == ("account_not_found", "there is no account acct_1")
    assert gw.run_json("key", "list", "--account", account) == {"keys": []}


def test_keys_of_a_file_are_made_in_its_order(gw: Gw, account: str, database_url: str) -> None:
    other = gw.run_json("account", "create", "Bob")["id"]
    persona = gw.config.with_name("persona.md")
    persona.write_text("Answer.")
    make_agent = ("agent", "create", "--account", account, "--name", "g", "--system-prompt")
    agent = gw.run_json(*make_agent, str(persona))["id"]
    rows: list[dict[str, Any]] = [
        {"name": "one", "allow": ["gpt-latest"], "spend_cap_usd": "1.5", "user": "eve"},
        {"name": "two", "account": other, "expires": "2020-01-01T02:00:00+02:00"},
        {"name": "three", "kind": "agent", "agent": agent},
        {"name": "four", "allow_none": True, "account_logs": True},
    ]
    file = gw.config.with_name("keys.jsonl")
    file.write_text("\n".join(map(json.dumps, rows)))
    made = gw.run_json("key", "create", "--from", str(file), "--account", account)["keys"]
    assert [key["name"] for key in made] == ["one", "two", "three", "four"]
    assert [key["account_id"] for key in made] == [account, other, account, account]
    one, two, three, four = made
    assert (one["allowed_models"], one["spend_cap_usd"], one["user"]) == (
        ["gpt-large"],
        "1.5",
        "eve",
    )
    assert (two["expires_at"], two["status"]) == ("2020-01-01T00:00:00Z", "expired")
    assert (three["kind"], three["agent_id"]) == ("agent", agent)
    assert (four["allowed_models"], four["account_logs"]) == ([], True)
    for key in made:
        # As those that are made one by one: shown, revealed, in the trail, and without a view.
        assert gw.run_json("key", "views", key["id"]) == {"views": []}
        assert gw.run_json("key", "reveal", key["id"])["key"] == key["key"]
        trail = gw.run_json("admin", "audit", "--object", key["id"])["changes"]
        assert [one["action"] for one in trail] == ["key.reveal", "key.create"]
        noted = trail[1]
        assert noted["details"]["name"] == key["name"]
        assert key["key"] not in json.dumps(noted)
    stated = gw.run("key", "create", "--from", str(file), "--account", account)
    lines = [line.split() for line in stated.out.splitlines()[1:]]
    assert [line[2] for line in lines] == ["one", "two", "three", "four"]
    assert all(is_key_text(line[3]) for line in lines)


def test_keys_of_a_file_are_all_made_or_none(
    gw: Gw, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = gw.config.with_name("keys.csv")
    create = ("key", "create", "--from", str(file))
    refused = [
        ("acct_1,n,,,", "account_not_found", "there is no account acct_1"),
        (f"{account},n,agent,agent_1,", "invalid_request", "has no agent agent_1"),
    ]
    monkeypatch.setattr("gw.admin.keys.KEYS_AT_ONCE_MAX", 2)
    for row, code, message in refused:
        file.write_text("\n".join(["account,name,kind,agent,allow", *[f"{account},n,,,"] * 5, row]))
        found = gw.refuses(*create)
        assert found[0] == code
        assert found[1].startswith(f"{file}:7: ")
        assert message in found[1]
    file.write_text(f"account,name,allow\n{account},n,\n{account},n,gpt-smal\n")
    stated = gw.run(*create)
    assert (stated.exit_code, stated.out) == (2, "")
    assert stated.err == f"{file}:3  there is no model gpt-smal, did you mean gpt-small?\n"
    monkeypatch.setattr("gw.keys.store.KEYS_OF_ACCOUNT_MAX", 3)
    file.write_text("\n".join(["account,name", *[f"{account},n"] * 4]))
    assert gw.refuses(*create)[0] == "too_many_keys"
    assert gw.run_json("key", "list", "--account", account) == {"keys": []}
    file.write_text("\n".join(["account,name", *[f"{account},n"] * 3]))
    assert len(gw.run_json(*create)["keys"]) == 3
    assert gw.refuses(*create)[0] == "too_many_keys"


def test_keys_are_listed_without_their_text(gw: Gw, account: str) -> None:
    made = [make(gw, account) for _ in range(3)]
    texts = [key.pop("key") for key in made]
    assert gw.run_json("key", "list", "--account", account) == {"keys": made}
    listed = gw.run("key", "list", "--account", account).out
    assert not any(text in listed for text in texts)
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [key["id"] for key in made]
    other = gw.run_json("account", "create", "Bob")["id"]
    assert gw.run_json("key", "list", "--account", other) == {"keys": []}
    assert gw.refuses("key", "list", "--account", "acct_1")[0] == "account_not_found"


def test_list_of_keys_has_pages(gw: Gw, account: str) -> None:
    made = [make(gw, account)["id"] for _ in range(3)]
    first = gw.run_json("key", "list", "--account", account, "--limit", "2")
    assert [one["id"] for one in first["keys"]] == made[:2]
    cursor = first["next_cursor"]
    assert cursor in gw.run("key", "list", "--account", account, "--limit", "2").out
    rest = gw.run_json("key", "list", "--account", account, "--cursor", cursor)
    assert [one["id"] for one in rest["keys"]] == made[2:]
    assert "next_cursor" not in rest
    refused = gw.refuses("key", "list", "--account", account, "--cursor", "nonsense", exit_code=2)
    assert refused[0] in ("invalid_request", "usage")


def test_every_view_of_a_key_is_kept(
    gw: Gw, account: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = make(gw, account), make(gw, account)
    assert gw.run_json("key", "views", key["id"]) == {"views": []}
    assert gw.run("key", "views", key["id"]).out == "nobody has revealed this key\n"
    gw.run_json("key", "reveal", key["id"])
    monkeypatch.setenv("SUDO_USER", "ann")
    gw.run("key", "reveal", key["id"])
    one, two = gw.run_json("key", "views", key["id"])["views"]
    me = pwd.getpwuid(os.getuid()).pw_name
    assert (one["os_user"], one["host"]) == (me, socket.gethostname())
    assert two["os_user"] == (me if os.getuid() else f"ann as {me}")
    assert instant(one["viewed_at"]) < instant(two["viewed_at"])
    assert gw.run_json("key", "views", other["id"]) == {"views": []}
    # What was refused showed nothing.
    gw.use_secret("another-of-16-letters")
    assert gw.refuses("key", "reveal", other["id"])[0] == "wrong_secret"
    assert gw.run_json("key", "views", other["id"]) == {"views": []}
    assert gw.refuses("key", "views", "key_1")[0] == "key_not_found"
    for change in ("DELETE FROM key_views", "UPDATE key_views SET os_user = 'nobody'"):
        with (
            pytest.raises(psycopg2.errors.RaiseException, match="append-only"),
            transaction(database_url) as cursor,
        ):
            cursor.execute(change)


def test_an_agent_is_set_up_with_the_models_that_its_key_may_use(gw: Gw, account: str) -> None:
    key = make(gw, account, "--allow", "gpt-small")["id"]
    assert gw.run_json("setup", "aider", "--key", key)["models"] == ["gpt-small"]
    of_two = ("setup", "aider", "--key", key, "--model", "gpt-small", "--model", "gpt-large")
    assert gw.refuses(*of_two) == ("not_allowed", "the key may not use gpt-large")


def test_key_of_another_secret_is_not_revealed_and_none_is_made(gw: Gw, account: str) -> None:
    key = make(gw, account)
    gw.use_secret("another-of-16-letters")
    code, message = gw.refuses("key", "reveal", key["id"])
    assert code == "wrong_secret"
    assert "another secret" in message
    create = ["key", "create", "--account", account, "--name", "n"]
    assert gw.refuses(*create)[0] == "wrong_secret"


def test_imported_hash_is_a_key_that_cannot_be_revealed(gw: Gw, account: str) -> None:
    digest = hashlib.sha256(new_key_text().encode()).hexdigest()
    command = ["key", "import-hash", "--account", account, "--name", "early", "--hash", digest]
    key = gw.run_json(*command, "--allow", "gpt-latest")
    assert "key" not in key
    assert (key["name"], key["revealable"]) == ("early", False)
    assert (key["prefix"], key["allowed_models"]) == ("sk-platform-", ["gpt-large"])
    code, message = gw.refuses("key", "reveal", key["id"])
    assert code == "key_not_revealable"
    assert "cannot be revealed" in message
    assert gw.refuses(*command)[0] == "key_exists"
    assert gw.run_json("key", "disable", key["id"])["status"] == "disabled"


def test_settings_are_replaced_one_by_one(gw: Gw, account: str) -> None:
    key = make(gw, account, "--allow", "gpt-small")
    key_id = key["id"]
    del key["key"]
    for options, changed in (
        ("--allow gpt-latest", {"allowed_models": ["gpt-large"]}),
        ("--allow-none", {"allowed_models": []}),
        ("--allow-all", {"allowed_models": None}),
        ("--expires 2100-01-01T00:00:00Z", {"expires_at": "2100-01-01T00:00:00Z"}),
        (
            "--expires 2020-01-01T00:00:00Z",
            {"expires_at": "2020-01-01T00:00:00Z", "status": "expired"},
        ),
        ("--expires none", {"expires_at": None, "status": "active"}),
        ("--spend-cap-usd 3", {"spend_cap_usd": "3"}),
        ("--spend-cap-usd none", {"spend_cap_usd": None}),
        ("--account-logs", {"account_logs": True}),
        ("--no-account-logs --name m", {"account_logs": False, "name": "m"}),
        ("--kind compute", {"kind": "compute"}),
    ):
        key.update(changed)
        assert gw.run_json("key", "set", key_id, *options.split()) == key
    assert gw.refuses("key", "set", key_id, "--allow", "gpt")[0] == "model_not_found"
    assert gw.run_json("key", "list", "--account", account) == {"keys": [key]}


def test_disabled_key_is_enabled_again_and_a_revoked_one_never(gw: Gw, account: str) -> None:
    key_id = make(gw, account)["id"]
    for verb, status in (("disable", "disabled"), ("enable", "active"), ("revoke", "revoked")):
        assert gw.run_json("key", verb, key_id)["status"] == status
    for command in (["enable", key_id], ["disable", key_id], ["set", key_id, "--name", "m"]):
        code, message = gw.refuses("key", *command)
        assert code == "key_revoked"
        assert "revocation is for good" in message
    revoked = gw.run_json("key", "revoke", key_id)
    assert revoked["status"] == "revoked"
    assert revoked["revoked_at"] is not None
    assert gw.run_json("key", "list", "--account", account)["keys"] == [revoked]


def test_key_that_is_not_there_is_named(gw: Gw) -> None:
    for command in (
        ["reveal", "key_1"],
        ["enable", "key_1"],
        ["disable", "key_1"],
        ["revoke", "key_1"],
        ["set", "key_1", "--name", "n"],
    ):
        assert gw.refuses("key", *command) == ("key_not_found", "there is no key key_1")
