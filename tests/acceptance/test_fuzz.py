"""Requests that chance has spoilt: whatever comes in, no 5xx, no hang, no money lost.

Some of them are still good and are answered; then each costs what its row says, and the rest cost
nothing. What is known to be bad, and the answer to it, is `test_bad_input.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.acceptance.bad_inputs.case import ALIAS, MODEL, OTHER_MODEL, request
from tests.acceptance.bad_inputs.chance import ROOMY, spoilt, values
from tests.acceptance.bad_inputs.stand import FUNDS_NANO_USD, SECRETS, SETTINGS, Stand
from tests.support.house import House
from tests.support.raw import RawAnswer, RawConnection

pytestmark = pytest.mark.long

__all__ = ["SETTINGS"]


STATUS = re.compile(rb"HTTP/1\.1 ([1-4]\d\d) ")

FULL: dict[str, Any] = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Grüße \u2028 😀"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ]},
        {"role": "tool", "content": "12", "tool_call_id": "call_1"},
    ],
    "stream": True,
    "stream_options": {"include_usage": False, "x": [1]},
    "max_tokens": 20,
    "temperature": 0.5,
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_object"},
    "n": 1,
    "user": "someone",
}  # fmt: skip
BODY = json.dumps(FULL, ensure_ascii=False).encode()
HEAD = request("Content-Type: application/json", "session_id: abc", "Expect: x", body=BODY)

SCALARS = values([MODEL, ALIAS, OTHER_MODEL, "user", "function", "auto", "web_search", ""])
NAMES = st.sampled_from(
    ["role", "content", "type", "text", "name", "function", "include_usage", "arguments", "id"]
) | st.text(max_size=4)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4)
)
MEMBERS = st.fixed_dictionaries(
    {name: st.just(FULL[name]) | ANYTHING for name in ("model", "messages")},
    optional={
        name: st.just(FULL[name]) | st.just(FULL[name]) | ANYTHING
        for name in (*FULL, "max_completion_tokens")
        if name in FULL and name not in ("model", "messages")
    }
    | {"max_completion_tokens": st.just(20) | ANYTHING, "seed": ANYTHING},
)


@pytest.fixture(scope="module")
def stand(shared: House) -> Iterator[Stand]:
    """The house of this module; at the end its books are in order."""
    built = Stand(shared)
    yield built
    built.check_quiet()
    built.check_no_fault()
    rows = shared.rows(built.tenant)
    assert {row["status"] for row in rows} >= {"success", "rejected"}  # chance spoils not all
    assert all(row["cost_nano_usd"] == 0 for row in rows if row["status"] == "rejected")
    spent = sum(row["cost_nano_usd"] for row in rows)
    assert shared.balance_nano_usd(built.tenant) == FUNDS_NANO_USD - spent
    assert shared.verify()["ok"]


def ask(stand: Stand, body: bytes) -> RawAnswer:
    """Send a body as a whole request; the answer must come, and nothing after it."""
    with RawConnection(stand.url) as connection:
        connection.send(stand.wire(request("Connection: close", body=body)))
        answer = connection.answer()
        assert answer is not None, "closed without an answer"
        assert connection.rest() == b""
    return answer


def check(stand: Stand, body: bytes) -> None:
    answer = ask(stand, body)
    assert answer.status == 200 or 400 <= answer.status < 500, answer
    assert not SECRETS.search(answer.body), answer
    if answer.status != 200:
        assert list(answer.json["error"]) == ["message", "type", "code"], answer


def test_unspoilt_request_is_answered(stand: Stand) -> None:
    assert ask(stand, BODY).status == 200


@ROOMY
@given(body=spoilt(BODY, len(BODY)))
def test_spoilt_body_is_answered_without_harm(stand: Stand, body: bytes) -> None:
    check(stand, body)


@ROOMY
@given(members=MEMBERS)
def test_members_of_any_value_are_answered_without_harm(
    stand: Stand, members: dict[str, Any]
) -> None:
    check(stand, json.dumps(members).encode())


@ROOMY
@given(wire=spoilt(HEAD, HEAD.index(b"\r\n\r\n") + 4))
def test_spoilt_head_is_answered_or_ended_without_harm(stand: Stand, wire: bytes) -> None:
    with RawConnection(stand.url) as connection:
        connection.send(stand.wire(wire))
        connection.end_sending()  # what is not complete will never be
        seen = connection.rest()
    assert not seen or STATUS.match(seen), (wire, seen)
    assert not SECRETS.search(seen), seen
