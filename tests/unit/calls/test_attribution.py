"""For whom a call is, as headers and bodies say it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from actors.wallet.attribution import NOBODY, Attribution
from actors.wallet.rows import encode_settlement
from channels.conversation import members_in
from channels.families import FAMILIES, MESSAGES
from gw.calls.attribution import KEPT_CHARACTERS_MAX, EndUsers, end_user_in, read_headers
from gw.errors import GatewayError
from gw.keys.end_users import EndUserKey, is_digest
from tests.support.ledger_values import outcome, settle
from tests.support.rows import each

UUID = "0198b3a1-2c3d-4e5f-8a9b-0c1d2e3f4a5b"
SESSION = "11111111-2222-3333-4444-555555555555"
HEX = "ab" * 32
KEY = EndUserKey(b"a key for tests only")


def said(**headers: str | list[str]) -> Attribution:
    named = {f"x-gateway-{name.replace('_', '-')}": value for name, value in headers.items()}
    return read_headers(
        lambda name: [value] if isinstance(value := named.get(name, []), str) else value
    )


def test_headers_say_whom_a_call_is_for() -> None:
    found = said(
        end_user="Zoë (42)".encode().decode("latin-1"), run="a/b@c:1", labels="a=1 , b-c=d"
    )
    assert found == Attribution(end_user="Zoë (42)", run="a/b@c:1", labels={"a": "1", "b-c": "d"})
    assert said() == said(end_user="", run=" ", labels="") == NOBODY
    assert not NOBODY
    assert said(labels=["team=a", "team=a, feature=b"]).labels == {"team": "a", "feature": "b"}
    assert len(said(labels=",".join(f"k{i}=v" for i in range(8))).labels) == 8
    assert said(end_user="x" * 256, run="r" * 128, labels=f"{'k' * 32}={'v' * 64}")


@each(
    "headers",
    [
        {"end_user": "x" * 257},
        {"end_user": "a\x7fb"},
        {"end_user": "\xff\xfe"},  # no UTF-8
        {"end_user": ["a", "b"]},
        {"run": "r" * 129},
        {"run": "a b"},
        {"run": "ü"},
        {"run": ["a", "a"]},
        {"labels": "team"},
        {"labels": "team="},
        {"labels": "=search"},
        {"labels": "Team=search"},
        {"labels": "1team=search"},
        {"labels": f"{'k' * 33}=v"},
        {"labels": f"k={'v' * 65}"},
        {"labels": "team = search"},
        {"labels": "team=a=b"},
        {"labels": "team=a, team=b"},
        {"labels": ",".join(f"k{i}=v" for i in range(9))},
    ],
)
def test_a_malformed_header_is_refused_by_its_name(headers: dict[str, Any]) -> None:
    with pytest.raises(GatewayError) as refused:
        said(**headers)
    (name,) = headers
    assert refused.value.kind.code == "invalid_request"
    assert refused.value.param == f"x-gateway-{name.replace('_', '-')}"
    assert refused.value.message.startswith(refused.value.param)


@each(
    "protocol, body, name",
    [
        ("chat", {"user": "ann"}, "ann"),
        ("chat", {"user": "ann", "safety_identifier": "bob"}, "bob"),
        ("responses", {"safety_identifier": "", "user": "ann"}, "ann"),
        ("chat", {"user": 7, "metadata": {"user_id": "eve"}}, "eve"),
        ("chat", {"metadata": {"user_id": ["eve"]}}, None),
        ("chat", {"metadata": "eve"}, None),
        ("responses", {"metadata": {"session_id": "s"}}, None),
        ("messages", {"user": "ann", "metadata": {"user_id": "eve"}}, "eve"),
        ("messages", {"user": "ann"}, None),
        ("native", {"user": "ann", "metadata": {"user_id": "eve"}}, None),
        ("images", {"user": "ann", "safety_identifier": "bob"}, "ann"),
        ("rerank", {"user": None}, None),
        ("speech", {}, None),
    ],
)
def test_a_body_names_its_end_user_where_its_protocol_does(
    protocol: str, body: dict[str, Any], name: str | None
) -> None:
    assert end_user_in(FAMILIES[protocol], members_in(json.dumps(body).encode())) == name


@each(
    "sent, person",
    [
        (f"user_{HEX}_account_{UUID}_session_{SESSION}", UUID),
        (f"user_{HEX}_account__session_{SESSION}", HEX),
        ({"device_id": HEX, "account_uuid": UUID, "session_id": SESSION}, UUID),
        ({"device_id": HEX, "account_uuid": "", "session_id": SESSION}, HEX),
        ({"device_id": HEX, "session_id": SESSION}, HEX),
        ({"device_id": 7, "session_id": "s"}, '{"device_id": 7, "session_id": "s"}'),
        ("{no json", "{no json"),
        ("user_1_account_2_session_3", "user_1_account_2_session_3"),
    ],
)
def test_a_coding_agent_is_its_account_or_else_its_device(sent: Any, person: str) -> None:
    name = sent if isinstance(sent, str) else json.dumps(sent)
    body = json.dumps({"metadata": {"user_id": name}}).encode()
    assert end_user_in(MESSAGES, members_in(body)) == person


def test_what_is_kept_of_a_name_is_the_operators_choice() -> None:
    plain, digest, off = (
        EndUsers(KEY, lambda mode=mode: mode)  # type: ignore[misc]
        for mode in ("plain", "digest", "off")
    )
    assert plain.kept("acct_1", "ann") == "ann"
    kept = digest.kept("acct_1", "ann")
    assert is_digest(kept or "")
    assert kept == digest.kept("acct_1", "ann") != digest.kept("acct_2", "ann")
    assert off.kept("acct_1", "ann") is None
    # What cannot be stored as it stands is its digest.
    for name in ("x" * 257, "a\nb", "\ud800"):
        assert is_digest(plain.kept("acct_1", name) or "")
    assert plain.kept("acct_1", "") is plain.kept("acct_1", None) is None


def test_no_line_of_the_log_names_an_end_user() -> None:
    of = Attribution(end_user="zoe-17", run="r-of-zoe-17", labels={"team": "of-zoe-17"})
    settled = settle(1, 5)
    named = encode_settlement(replace(settled.facts, attribution=of), outcome(5))
    assert b"zoe-17" in named.row
    assert "zoe-17" not in repr(named)
    assert repr(of) == "<Attribution end_user, run, label.team>"


def test_equal_headers_are_read_once_and_long_ones_are_not_kept() -> None:
    assert said(end_user="zoe", labels="a=b") is said(end_user="zoe", labels="a=b")
    assert said(end_user="zoe", labels="a=b") is not said(end_user="zoe", labels="a=c")
    long = {"run": "r" * 128, "labels": " " * KEPT_CHARACTERS_MAX + "a=b"}
    assert said(**long) == said(**long)
    assert said(**long) is not said(**long)


def test_a_body_that_is_no_json_names_nobody() -> None:
    for body in (b"", b"{", b"[]", b'{"user": "\xff"}', rb'{"user": "\ud800"}', b"[" * 100_000):
        assert members_in(body) == {}
