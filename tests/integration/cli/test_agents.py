"""`gw agent`, the keys of agents, and what an account says of them, on a real PostgreSQL."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.command import Gw

PERSONA = "You are a harbour master.\n"


@pytest.fixture
def prompt(tmp_path: Path) -> str:
    (tmp_path / "persona.md").write_text(PERSONA, encoding="utf-8")
    return str(tmp_path / "persona.md")


@pytest.fixture
def base(gw: Gw, account: str, tmp_path: Path) -> str:
    """A restricted base of the account."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "Tides.md").write_text("# Tides\nThey turn.\n", encoding="utf-8")
    gw.run_json("kb", "import", "--account", account, "--kb", "sea", "--restricted", str(folder))
    return "sea"


def make(gw: Gw, account: str, prompt: str, *options: str) -> dict[str, Any]:
    named = ("--account", account, "--name", "harbour", "--system-prompt", prompt)
    return gw.run_json("agent", "create", *named, *options)


def test_an_agent_is_shown_with_every_field(gw: Gw, account: str, prompt: str) -> None:
    agent = make(gw, account, prompt)
    created_at, agent_id = agent.pop("created_at"), agent.pop("id")
    assert agent_id.startswith("agent_")
    assert created_at.endswith("Z")
    assert agent == {
        "account_id": account,
        "name": "harbour",
        "user": "owner",
        "system_prompt": PERSONA,
        "model": None,
        "effective_model": "gpt-latest",
        "temperature": None,
        "web_search": False,
        "image_generation": False,
        "kbs": [],
        "enabled": True,
    }
    whole = {**agent, "id": agent_id, "created_at": created_at}
    assert gw.run_json("agent", "show", agent_id) == whole
    assert gw.run_json("agent", "list") == {"agents": [whole]}
    assert gw.run_json("agent", "list", "--account", account) == {"agents": [whole]}
    other = gw.run_json("account", "create", "Bob")["id"]
    assert gw.run_json("agent", "list", "--account", other) == {"agents": []}
    assert agent_id in gw.run("agent", "list").out
    assert gw.refuses("agent", "show", "agent_1")[0] == "agent_not_found"
    assert gw.refuses("agent", "list", "--account", "acct_1")[0] == "account_not_found"


def test_an_agent_is_changed_by_what_is_given(
    gw: Gw, account: str, prompt: str, base: str, tmp_path: Path
) -> None:
    gw.run_json("kb", "grant", "--account", account, "--kb", base, "--to-user", "ann")
    first = "--user ann --model gpt-latest --temperature 0.5 --web-search --image-generation"
    agent = make(gw, account, prompt, *first.split(), "--kb", base, "--kb", "default")
    assert agent["model"] == agent["effective_model"] == "gpt-large"
    assert (agent["user"], agent["kbs"]) == ("ann", ["sea", "default"])
    assert (agent["web_search"], agent["image_generation"], agent["temperature"]) == (
        True,
        True,
        0.5,
    )
    (tmp_path / "other.md").write_text("\ufeffBe brief.", encoding="utf-8")
    for options, changed in (
        ("--kb default", {"kbs": ["default"]}),
        ("--no-kb", {"kbs": []}),
        ("--no-web-search", {"web_search": False}),
        ("--no-image-generation", {"image_generation": False}),
        ("--model none", {"model": None, "effective_model": "gpt-latest"}),
        ("--temperature none --name quay", {"temperature": None, "name": "quay"}),
        ("--temperature 2", {"temperature": 2}),
        ("--system-prompt {other}", {"system_prompt": "Be brief."}),
        ("--user owner", {"user": "owner"}),
    ):
        agent.update(changed)
        words = [word.format(other=tmp_path / "other.md") for word in options.split()]
        assert gw.run_json("agent", "set", agent["id"], *words) == agent
    for verb, enabled in (("disable", False), ("enable", True)):
        assert gw.run_json("agent", verb, agent["id"]) == {**agent, "enabled": enabled}
    for command in (
        ["set", "agent_1", "--name", "n"],
        ["disable", "agent_1"],
        ["usage", "agent_1"],
    ):
        assert gw.refuses("agent", *command)[0] == "agent_not_found"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--kb sea", "the user owner may read no knowledge base sea"),
        ("--kb nothing", "may read no knowledge base nothing"),
        ("--model gpt-larg", "there is no model gpt-larg, did you mean gpt-large?"),
        ("--model gpt-soon", "gpt-soon is not a chat model that can be called"),
        ("--model picture", "picture is not a chat model that can be called"),
        ("--system-prompt {empty}", "is empty"),
        ("--system-prompt {large}", "has more than 65536 bytes"),
        ("--system-prompt {nul}", "has a NUL character"),
        ("--system-prompt {bytes}", "is not UTF-8"),
        ("--system-prompt {nowhere}", "cannot be read: No such file or directory"),
    ],
)
def test_what_an_agent_cannot_be_is_refused_and_changes_nothing(
    gw: Gw, account: str, prompt: str, base: str, tmp_path: Path, options: str, message: str
) -> None:
    contents = {"empty": b" \n", "large": b"x" * 65537, "nul": b"a\0b", "bytes": b"\xff"}
    paths = {name: tmp_path / name for name in (*contents, "nowhere")}
    for name, content in contents.items():
        paths[name].write_bytes(content)
    words = [word.format(**paths) for word in options.split()]
    named = ("--account", account, "--name", "n", "--system-prompt", prompt)
    code, text = gw.refuses("agent", "create", *named, *words, exit_code=2)
    assert code == "usage"
    assert message in text
    assert gw.run_json("agent", "list") == {"agents": []}
    agent = make(gw, account, prompt)
    assert message in gw.refuses("agent", "set", agent["id"], *words, exit_code=2)[1]
    assert gw.run_json("agent", "show", agent["id"]) == agent


def test_an_account_says_what_its_agents_call(gw: Gw, account: str, prompt: str) -> None:
    shown = gw.run_json("account", "show", account)
    assert (shown["default_model"], shown["allowed_models"]) == (None, None)
    agent = make(gw, account, prompt)
    for options, changed in (
        ("--default-model gpt-small", {"default_model": "gpt-small"}),
        ("--allow gpt-latest --allow gpt-large", {"allowed_models": ["gpt-large"]}),
        ("--allow-none", {"allowed_models": []}),
        ("--allow-all --default-model none", {"allowed_models": None, "default_model": None}),
    ):
        shown.update(changed)
        assert gw.run_json("account", "set", account, *options.split()) == shown
        effective = gw.run_json("agent", "show", agent["id"])["effective_model"]
        assert effective == (shown["default_model"] or "gpt-latest")
    assert (
        "soon"
        in gw.refuses("account", "set", account, "--default-model", "gpt-soon", exit_code=2)[1]
    )
    assert gw.refuses("account", "set", account, "--allow", "gpt")[0] == "model_not_found"
    assert gw.refuses("account", "set", "acct_1", "--allow-all")[0] == "account_not_found"


def test_a_key_speaks_for_an_agent_of_its_account(gw: Gw, account: str, prompt: str) -> None:
    agent = make(gw, account, prompt)["id"]
    create = ("key", "create", "--name", "n", "--kind", "agent")
    key = gw.run_json(*create, "--account", account, "--agent", agent)
    assert (key["kind"], key["agent_id"], key["spend_cap_usd"]) == ("agent", agent, None)
    other = gw.run_json("account", "create", "Bob")["id"]
    for owner, named in ((other, agent), (account, "agent_1")):
        words = ("--account", owner, "--agent", named)
        assert "has no agent" in gw.refuses(*create, *words, exit_code=2)[1]
    for change in (["--agent", agent], ["--kind", "console"], ["--allow", "gpt-large"]):
        gw.refuses("key", "set", key["id"], *change, exit_code=2)
    plain = gw.run_json("key", "create", "--name", "n", "--account", account)
    gw.refuses("key", "set", plain["id"], "--kind", "agent", exit_code=2)
    shown = gw.run_json("key", "list", "--account", account)["keys"]
    assert [one["kind"] for one in shown] == ["agent", "console"]


def test_a_key_that_is_requested_is_made_when_it_is_approved(
    gw: Gw, account: str, prompt: str
) -> None:
    agent = make(gw, account, prompt)["id"]
    who = ("--account", account, "--agent", agent, "--name", "n", "--requested-by", "Eve")
    request = gw.run_json("key", "request", *who, "--spend-cap-usd", "2")
    assert request == {"id": request["id"], "status": "pending"}
    turned_down = gw.run_json("key", "request", *who, "--spend-cap-usd", "3")["id"]
    assert gw.run_json("key", "list", "--account", account) == {"keys": []}
    assert gw.refuses("key", "reveal", request["id"])[0] == "key_not_found"
    key = gw.run_json("key", "approve", request["id"])
    assert (key["id"], key["agent_id"], key["requested_by"]) == (request["id"], agent, "Eve")
    assert (key["kind"], key["spend_cap_usd"], key["status"]) == ("agent", "2", "active")
    assert gw.run_json("key", "reject", turned_down) == {"id": turned_down, "status": "rejected"}
    for verb in ("approve", "reject"):
        for one in (request["id"], turned_down):
            assert gw.refuses("key", verb, one)[0] == "request_decided"
        assert gw.refuses("key", verb, "key_1")[0] == "request_not_found"
    listed = gw.run_json("key", "requests", "--account", account)["requests"]
    assert [(one["id"], one["status"]) for one in listed] == [
        (request["id"], "approved"),
        (turned_down, "rejected"),
    ]
    assert all(one["decided_by"] and one["decided_at"] for one in listed)
    cap = gw.run_json("key", "set", key["id"], "--spend-cap-usd", "9")
    assert cap["spend_cap_usd"] == "9"
    message = gw.refuses("key", "set", key["id"], "--spend-cap-usd", "none", exit_code=2)[1]
    assert "keep a spend cap" in message
    assert gw.run_json("key", "views", key["id"]) == {"views": []}
    assert gw.run_json("key", "reveal", key["id"])["key"] == key["key"]
    assert len(gw.run_json("key", "views", key["id"])["views"]) == 1
    gw.run_json("key", "revoke", key["id"])
    assert gw.refuses("key", "enable", key["id"])[0] == "key_revoked"
    strange = ("--account", account, "--agent", "agent_1", "--name", "n", "--requested-by", "E")
    gw.refuses("key", "request", *strange, "--spend-cap-usd", "1", exit_code=2)


def test_an_agent_that_was_never_called_has_cost_nothing(gw: Gw, account: str, prompt: str) -> None:
    agent = make(gw, account, prompt)["id"]
    usage = gw.run_json("agent", "usage", agent, "--from", "2026-01-01", "--to", "2026-01-31")
    assert usage == {
        "agent_id": agent,
        "name": "harbour",
        "period_from": "2026-01-01T00:00:00Z",
        "period_to": "2026-02-01T00:00:00Z",
        "requests": 0,
        "cost_usd": "0",
        "cost": "0",
        "input_tokens": 0,
        "output_tokens": 0,
        "cached_tokens": 0,
        "status_counts": {"success": 0, "error": 0, "interrupted": 0, "rejected": 0},
        "by_key": [],
    }
    assert gw.run("agent", "usage", agent, "--period", "all").exit_code == 0
