"""Every way through the gateway, its bytes cut as a network may; and a second turn of the talk.

How bytes are cut at every single place is `tests/unit/calls/test_every_cut.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from tests.acceptance.dialogues.asked import Asked, body_of, path_of
from tests.acceptance.dialogues.cases import (
    NOW,
    THOUGHT,
    USAGE,
    WAYS,
    WORDS,
    ZURICH,
    Way,
    settings,
    stated,
)
from tests.acceptance.dialogues.sent import read_sent
from tests.acceptance.dialogues.streamed import read_stream
from tests.acceptance.dialogues.told import Told
from tests.acceptance.dialogues.whole import read_whole
from tests.support.client import NANO_PER_USD, Reply
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = settings()
STREAMS = [way for way in WAYS if way.form != "whole"]
HUGE_BYTES = 3_000_000
TOOLS = Asked(has_tools=True, thinks=True)
SIGNATURES = {
    "messages": "c2ltdWxhdGVkLXNpZ25hdHVyZQ==",
    "native": "c2ltdWxhdGVkLXRob3VnaHQ=",
    "responses": "c2ltdWxhdGVkLXByb29m",
}


@pytest.fixture(scope="module")
def payer(shared: House) -> Tenant:
    return shared.tenant(nano_usd=100 * NANO_PER_USD)


def send(payer: Tenant, way: Way, body: dict[str, Any]) -> Reply:
    reply = payer.client.send("POST", path_of(way.client, way.model, way.form), body)
    assert reply.status == 200, reply
    return reply


def told(way: Way, reply: Reply) -> Told:
    if way.form == "whole":
        return read_whole(way.client, reply.json)
    return read_stream(way.client, way.form, reply.body)


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_event_of_megabytes_comes_through_whole(h: House, payer: Tenant, way: Way) -> None:
    h.upstream.fault(way.channel, huge=HUGE_BYTES, usage=USAGE)
    found = told(way, send(payer, way, body_of(way.client, way.model, way.form, Asked())))
    assert len(found.text) == HUGE_BYTES
    assert set(found.text) == {"x"}
    assert found.has_end


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_stream_in_small_pieces_is_the_same(h: House, payer: Tenant, way: Way) -> None:
    directive = {"text": WORDS, "reasoning_text": THOUGHT, "usage": USAGE}
    found = []
    for cut in ({}, {"split_bytes": 3, "crlf": True}, {"split_bytes": 5, "crlf": False}):
        h.upstream.fault(way.channel, **directive, **cut)
        reply = send(payer, way, body_of(way.client, way.model, way.form, Asked()))
        found.append(asdict(told(way, reply)))
        assert found[-1]["text"] == WORDS
    assert found[0] == found[1] == found[2]


def next_turn(way: Way, body: dict[str, Any], turn: Any, call_ids: list[str]) -> dict[str, Any]:
    """The request that goes on: the assistant's turn as it came, and what its tools gave."""
    said = ["rain", "noon"]
    results: list[dict[str, Any]]
    if way.client == "chat":
        results = [
            {"role": "tool", "tool_call_id": call_id, "content": text}
            for call_id, text in zip(call_ids, said, strict=True)
        ]
        return {**body, "messages": [*body["messages"], turn, *results]}
    if way.client == "messages":
        results = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text}
            for call_id, text in zip(call_ids, said, strict=True)
        ]
        turns = [{"role": "assistant", "content": turn}, {"role": "user", "content": results}]
        return {**body, "messages": [*body["messages"], *turns]}
    if way.client == "responses":
        results = [
            {"type": "function_call_output", "call_id": call_id, "output": text}
            for call_id, text in zip(call_ids, said, strict=True)
        ]
        return {**body, "input": [*body["input"], *turn, *results]}
    results = [
        {"functionResponse": {"id": call_id, "name": name, "response": {"output": text}}}
        for call_id, name, text in zip(call_ids, ("weather", "now"), said, strict=True)
    ]
    turns = [{"role": "model", "parts": turn}, {"role": "user", "parts": results}]
    return {**body, "contents": [*body["contents"], *turns]}


@pytest.mark.parametrize(
    "way",
    # On its own channel a client of responses is given what it asks for, which is nothing here.
    [
        way
        for way in WAYS
        if way.upstream in SIGNATURES and (way.translation or way.upstream != "responses")
    ],
    ids=str,
)
def test_signatures_come_back_to_whom_they_belong(h: House, payer: Tenant, way: Way) -> None:
    """What proves the thoughts goes to the client and, with the turn, back to its maker."""
    calls = stated(ZURICH, NOW)
    h.upstream.fault(way.channel, tool_calls=calls, reasoning_text=THOUGHT, usage=USAGE)
    body = body_of(way.client, way.model, way.form, TOOLS)
    first = told(way, send(payer, way, body))
    assert first.signatures
    turn = json.loads(json.dumps(first.turn))
    h.upstream.fault(way.channel, text="It rains at noon.", usage=USAGE)
    second = told(way, send(payer, way, next_turn(way, body, turn, first.call_ids)))
    assert second.text == "It rains at noon."
    sent = read_sent(way.upstream, h.upstream.last_request()["body"])
    assert sent.signatures == made_by(way)
    assert sent.calls == [ZURICH, NOW]
    assert sent.results == [("weather", "rain"), ("now", "noon")]


def made_by(way: Way) -> list[str]:
    """The signatures that the simulator makes: of the thoughts, native of the calls."""
    return [SIGNATURES[way.upstream]]
