"""`gw key`."""

from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gw.admin.keys import check_changes
from gw.cli.key_results import key_result
from gw.cli.main import make_parser
from gw.keys.key import KEY, KeyRecord
from gw.nouns.refused import Invalid, Refused
from gw.nouns.values import canonical_models
from tests.support.rows import cases
from tests.unit.config.reading import channel, read

REGISTRY = read(
    channel()
    + """\
models:
  - {id: gpt-large, channels: [a], price: {input: 1, output: 2}, aliases: [gpt-large-latest]}
  - {id: gpt-small, channels: [a], price: {input: 1, output: 2}}
  - {id: soon, callable: false}
"""
).registry
NOW = datetime(2026, 11, 21, tzinfo=UTC)
RECORD = KeyRecord(
    id="key_1",
    account_id="acct_1",
    name="n",
    kind="console",
    agent_id=None,
    prefix="sk-platform-01234567",
    is_revealable=True,
    allowed_models=None,
    expires_at=None,
    enabled=True,
    revoked_at=None,
    account_logs=False,
    spend_cap_nano_usd=None,
    spent_nano_usd=12,
    last_used_at=None,
    created_at=NOW,
    user="owner",
    requested_by=None,
)


def parsed(*words: str) -> Namespace:
    return make_parser(words).parse_args(words)


def options_of(*arguments: str) -> Namespace:
    return parsed("key", "set", "key_1", *arguments)


def changes_of(*arguments: str, **key: Any) -> dict[str, Any]:
    changes = KEY.changes_of_options(options_of(*arguments), REGISTRY)
    check_changes(changes, replace(RECORD, **key))
    return dict(changes)


def test_models_are_stored_under_their_own_id_and_once() -> None:
    names = ["gpt-large-latest", "gpt-small", "gpt-large", "soon", "gpt-small"]
    assert canonical_models(names, REGISTRY) == ["gpt-large", "gpt-small", "soon"]


def test_unknown_models_are_refused_with_guesses() -> None:
    with pytest.raises(Refused) as caught:
        canonical_models(["gpt-large", "gpt_smal", "zzz", "GPT-large-latest"], REGISTRY)
    assert caught.value.code == "model_not_found"
    assert str(caught.value) == (
        "there is no model gpt_smal, did you mean gpt-small?; there is no model zzz;"
        " there is no model GPT-large-latest, did you mean gpt-large-latest?"
    )


@cases(
    "line, changes",
    ("--name m", {"name": "m"}),
    ("--kind employee", {"kind": "employee"}),
    ("--allow gpt-small", {"allowed_models": ["gpt-small"]}),
    ("--allow-none", {"allowed_models": []}),
    ("--allow-all", {"allowed_models": None}),
    ("--expires none", {"expires_at": None}),
    ("--expires 2020-01-01T00:00:00Z", {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}),
    ("--spend-cap-usd none", {"spend_cap_nano_usd": None}),
    ("--spend-cap-usd 0", {"spend_cap_nano_usd": 0}),
    ("--account-logs", {"account_logs": True}),
    ("--no-account-logs --name m", {"account_logs": False, "name": "m"}),
)
def test_only_what_is_named_is_changed(line: str, changes: dict[str, Any]) -> None:
    assert changes_of(*line.split()) == changes


def test_agent_keys_stay_agent_keys() -> None:
    assert changes_of("--kind", "agent", kind="agent") == {"kind": "agent"}
    assert changes_of("--allow-all", kind="agent") == {"allowed_models": None}
    for arguments, kind in (
        (["--kind", "agent"], "console"),
        (["--kind", "console"], "agent"),
        (["--agent", "g"], "console"),
        (["--agent", "g"], "agent"),
        (["--allow", "gpt-large"], "agent"),
        (["--allow-none"], "agent"),
        (["--account-logs"], "agent"),
    ):
        with pytest.raises(Invalid):
            changes_of(*arguments, kind=kind)


@cases(
    "key, expected",
    ({}, "active"),
    ({"expires_at": NOW + timedelta(seconds=1)}, "active"),
    ({"expires_at": NOW}, "expired"),
    ({"enabled": False, "expires_at": NOW}, "disabled"),
    ({"revoked_at": NOW, "enabled": False}, "revoked"),
)
def test_status_is_what_a_request_would_meet(key: dict[str, Any], expected: str) -> None:
    assert replace(RECORD, **key).status_at(NOW) == expected


def test_key_is_shown_with_everything_but_its_text() -> None:
    record = key_result(RECORD).record
    assert record == {
        "id": "key_1",
        "account_id": "acct_1",
        "name": "n",
        "kind": "console",
        "agent_id": None,
        "user": "owner",
        "requested_by": None,
        "prefix": "sk-platform-01234567",
        "status": "active",
        "enabled": True,
        "revealable": True,
        "allowed_models": None,
        "expires_at": None,
        "account_logs": False,
        "spend_cap_usd": None,
        "data_demand": None,
        "spent_usd": "0.000000012",
        "last_used_at": None,
        "created_at": "2026-11-21T00:00:00Z",
        "revoked_at": None,
    }
    assert "allowed_models  all\n" in key_result(RECORD).text
    assert "allowed_models  none\n" in key_result(replace(RECORD, allowed_models=[])).text
    capped = key_result(replace(RECORD, spend_cap_nano_usd=0, spent_nano_usd=0)).record
    assert (capped["spend_cap_usd"], capped["spent_usd"]) == ("0", "0")
