"""Properties of the codec: what was decoded once is said again; a stream says what a whole does."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.dialects.gemini import codec as gemini
from channels.dialects.table import codec
from channels.translation.model import Answer, Finished, Part, Protocol, Refusal, Request, Text
from channels.translation.turns import EMPTY
from tests.unit.translators.answer_strategies import answers, events_of
from tests.unit.translators.gemini.pieces import encoded
from tests.unit.translators.gemini.request_strategies import gemini_requests
from tests.unit.translators.request_strategies import chat_requests, messages_requests
from tests.unit.translators.wire import (
    comparable,
    events_in,
    folded,
    said_or_refused,
    written,
)

slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
OTHERS: list[Protocol] = ["chat", "messages"]


def settled(request: Request) -> Request:
    """The request without the maximum, which an encoder is given, and without its places."""
    return replace(request, max_tokens=None, empty=())


@slow
@given(gemini_requests)
def test_request_says_the_same_again(body: dict[str, Any]) -> None:
    request = gemini.decode_request(body)
    sent, dropped = encoded(request)
    assert settled(gemini.decode_request(sent)) == settled(request)
    assert dropped == []


@slow
@given(gemini_requests)
def test_request_is_translated_for_every_upstream(body: dict[str, Any]) -> None:
    for upstream in OTHERS:
        sent = said_or_refused("native", upstream, body)
        for message in sent.get("messages", ()):
            assert message.get("content") or message.get("tool_calls") or upstream == "chat"


def check_upstream_body(sent: dict[str, Any]) -> None:
    """What an upstream of this protocol insists on."""
    roles = [content["role"] for content in sent.get("contents", ())]
    assert all(one != two for one, two in pairwise(roles)), "roles alternate"
    open_calls: list[str] = []
    for content in sent.get("contents", ()):
        assert content["parts"], "no empty content"
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls:
            assert "thoughtSignature" in calls[0], "the first call of a turn is signed"
        for part in content["parts"]:
            assert part != {"text": ""}, "no empty text"
            if "functionResponse" in part:
                response = part["functionResponse"]
                assert response["id"] in open_calls, "a result of a call before it"
                assert response["name"]
                assert isinstance(response["response"], dict)
        open_calls += [part["functionCall"]["id"] for part in calls]


@slow
@given(chat_requests)
def test_upstream_is_given_what_its_protocol_allows_by_chat(body: dict[str, Any]) -> None:
    check_upstream_body(said_or_refused("chat", "native", body))


@slow
@given(messages_requests)
def test_upstream_is_given_what_its_protocol_allows_by_messages(body: dict[str, Any]) -> None:
    check_upstream_body(said_or_refused("messages", "native", body))


def normal(answer: Answer) -> Answer:
    """The answer in the words that this protocol has for it."""
    parts: list[Part] = []
    has_refusal = any(isinstance(part, Refusal) for part in answer.parts)
    for part in answer.parts:
        said = Text(part.text) if isinstance(part, Refusal) else part
        before = parts[-1] if parts else None
        if isinstance(said, Text) and isinstance(before, Text):
            parts[-1] = Text(before.text + said.text)
        else:
            parts.append(said)
    if has_refusal and answer.finish != "length":
        answer = replace(answer, finish="refusal")
    if answer.usage is not None:
        answer = replace(answer, usage=replace(answer.usage, cache_write_tokens=0))
    return replace(answer, parts=tuple(parts))


def opened(answer: Answer) -> Answer:
    """An answer as its client sends it back: foreign signatures taken out of their envelope."""
    whole = gemini.encode_answer(answer, id="x", created=1, model="m")
    candidate = json.loads(whole)["candidates"][0]
    turns = gemini.decode_request({"contents": [candidate.get("content", {"parts": []})]}).turns
    return replace(answer, parts=turns[0].parts if turns else ())


@slow
@given(answers())
def test_whole_answer_comes_back_as_it_was_said(answer: Answer) -> None:
    again = opened(answer)
    texts = [part.text for part in again.parts if isinstance(part, Text) and part != EMPTY]
    said = [part.text for part in answer.parts if isinstance(part, Text | Refusal)]
    assert texts == [text for text in said if text]
    kept = [part for part in again.parts if not isinstance(part, Text)]
    expected = [part for part in answer.parts if not isinstance(part, Text | Refusal)]
    assert comparable(replace(again, parts=tuple(kept))) == comparable(
        replace(answer, parts=tuple(expected))
    )


@slow
@given(st.data())
def test_stream_says_what_the_whole_answer_says(data: st.DataObject) -> None:
    answer = data.draw(answers())
    stream = written("native", data.draw(events_of(answer)))
    sizes = data.draw(st.lists(st.integers(1, 60), max_size=20))
    found = comparable(folded(events_in("native", stream, sizes=sizes)))
    whole = gemini.encode_answer(answer, id="x", created=1, model="m")
    decoded = comparable(gemini.decode_answer(whole))
    assert found == decoded
    expected = comparable(normal(answer))
    assert (found.finish, found.usage) == (expected.finish, expected.usage)


@pytest.mark.parametrize("client", OTHERS)
@slow
@given(data=st.data())
def test_translated_stream_says_what_the_translated_answer_says(
    client: Protocol, data: st.DataObject
) -> None:
    answer = data.draw(answers())
    events = events_in("native", written("native", data.draw(events_of(answer))))
    streamed = folded(events_in(client, written(client, events)))
    whole = gemini.encode_answer(answer, id="up", created=1, model="up")
    plain = codec(client).encode_answer(gemini.decode_answer(whole), id="x", created=1, model="m")
    assert comparable(streamed) == comparable(codec(client).decode_answer(plain))


@slow
@given(st.data())
def test_stream_cut_anywhere_has_no_end(data: st.DataObject) -> None:
    events = data.draw(events_of(data.draw(answers())))
    at = data.draw(st.integers(0, len(events) - 1))
    stream = written("native", events[:at])
    found = events_in("native", stream)
    assert not any(isinstance(event, Finished) for event in found)
    assert b"finishReason" not in stream
    assert written("native", events).startswith(stream)


@slow
@given(st.data())
def test_no_stream_raises(data: st.DataObject) -> None:
    answer = data.draw(answers())
    stream = bytearray(written("native", data.draw(events_of(answer))))
    for at in data.draw(st.lists(st.integers(0, max(0, len(stream) - 1)), max_size=8)):
        stream[at] = data.draw(st.integers(0, 255))
    events = events_in("native", bytes(stream) + b"\n\n")
    clients: list[Protocol] = [*OTHERS, "native"]
    for client in clients:
        written(client, events)
