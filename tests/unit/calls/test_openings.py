"""Marks of the cache for a client that names no conversation: what its channel was sent before."""

import asyncio
import json
from functools import partial
from typing import Any

from actors.routing import Candidate
from channels.conversation import OPENING_BYTES_MAX
from channels.dialects.table import CHAT_DIALECTS
from channels.json.json_object import JsonObject
from gw.calls.chat_request import ChatClientRequest
from gw.calls.openings import OPENINGS_MAX, SECONDS, RecentOpenings
from tests.headless.prefixes import hits_by_marks
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model

CHANNEL = Candidate("a", "up", "messages")
DECLARED = [{"name": f"f{n}", "description": "d" * 100} for n in range(5)]


def native(contents: list[Any], words: int, **members: Any) -> bytes:
    """A body of Gemini CLI, which names no conversation."""
    body = {
        "systemInstruction": {"parts": [{"text": "s" * words}]},
        "tools": [{"functionDeclarations": DECLARED}],
        "contents": contents,
        **members,
    }
    return json.dumps(body).encode()


def sent(recent: RecentOpenings, raw: bytes, now: float) -> dict[str, Any]:
    """The body of the channel, which speaks messages."""
    request = ChatClientRequest(
        CHAT_DIALECTS["native"].read_request(raw, model="m", stream=False),
        "native",
        raw,
        model=make_model("a"),
        redact=str,
        is_repeated=partial(recent.is_repeated, "account", now),
    )
    plan = asyncio.run(
        request.plan_for(CHANNEL, make_channel("a", protocols=frozenset({"messages"})))
    )
    assert isinstance(plan.request.body, bytes)
    found: dict[str, Any] = json.loads(plan.request.body)
    return found


@cases("is_loop, words", (True, 30_000), (False, 30_000), (True, 4_000), (False, 4_000))
def test_agent_that_names_no_conversation_finds_what_it_sent(is_loop: bool, words: int) -> None:
    """Gemini CLI, in a loop of 24 calls and in an interactive session of as many questions."""
    recent = RecentOpenings()
    contents: list[Any] = [{"role": "user", "parts": [{"text": "context " * 200}]}]
    requests = []
    for number in range(24):
        requests.append(sent(recent, native(contents, words), 100.0 * number))
        call, text = {"name": "f1", "args": {}, "id": f"c{number}"}, {"text": "Done. " * 100}
        contents.append({"role": "model", "parts": [{"functionCall": call} if is_loop else text]})
        response = {"name": "f1", "id": f"c{number}", "response": {"output": "x" * 800}}
        message = {"text": f"Question {number}? " * 20}
        contents.append(
            {"role": "user", "parts": [{"functionResponse": response} if is_loop else message]}
        )
    assert hits_by_marks(requests) > 0.98


TURN: list[Any] = [{"role": "user", "parts": [{"text": "hi"}]}]
OTHER: list[Any] = [{"role": "user", "parts": [{"text": "Another question."}]}]
BEFORE = native(TURN, 100)
CHAT = {"tools": DECLARED, "messages": [{"role": "system", "content": "s" * 5000}, *OTHER]}
REPORTED = json.dumps(CHAT).encode()


def repeats(before: bytes, now: bytes, account: str, candidate: Candidate, after: float) -> bool:
    recent = RecentOpenings()
    first, second = (JsonObject.parse(body).raw for body in (before, now))
    assert not recent.is_repeated("account", 7.0, CHANNEL, first)
    return recent.is_repeated(account, 7.0 + after, candidate, second)


@cases(
    "before, now, account, candidate, after, expected",
    (BEFORE, native(OTHER, 100), "account", CHANNEL, SECONDS - 1, True),
    (BEFORE, BEFORE, "account", CHANNEL, SECONDS, False),
    (BEFORE, BEFORE, "another", CHANNEL, 1, False),
    (BEFORE, BEFORE, "account", Candidate("b", "up", "messages"), 1, False),
    (BEFORE, BEFORE, "account", Candidate("a", "down", "messages"), 1, False),
    (BEFORE, BEFORE.replace(b"ss", b"st", 1), "account", CHANNEL, 1, False),
    (REPORTED, REPORTED.replace(b"Another", b"One more"), "account", CHANNEL, 1, True),
    (REPORTED, REPORTED.replace(b'ss"', b'st"', 1), "account", CHANNEL, 1, False),
    (*[native(TURN, 100, tools=[])] * 2, "account", CHANNEL, 1, True),
    (*[json.dumps({"contents": TURN}).encode()] * 2, "account", CHANNEL, 1, False),
    (*[native(TURN, OPENING_BYTES_MAX)] * 2, "account", CHANNEL, 1, False),
)
def test_opening_is_repeated_by_its_account_at_its_channel_within_minutes(
    before: bytes, now: bytes, account: str, candidate: Candidate, after: float, expected: bool
) -> None:
    assert repeats(before, now, account, candidate, after) == expected


def test_oldest_opening_is_forgotten_above_the_bound() -> None:
    recent = RecentOpenings()
    bodies = [JsonObject.parse(b'{"tools":[%d]}' % number).raw for number in range(OPENINGS_MAX)]
    for raw in bodies:
        recent.is_repeated("account", 1.0, CHANNEL, raw)
    assert recent.is_repeated("account", 2.0, CHANNEL, bodies[0])
    assert not recent.is_repeated("account", 2.0, CHANNEL, JsonObject.parse(b'{"tools":[]}').raw)
    assert len(recent) == OPENINGS_MAX
    assert recent.is_repeated("account", 2.0, CHANNEL, bodies[0])
    assert not recent.is_repeated("account", 2.0, CHANNEL, bodies[1])
