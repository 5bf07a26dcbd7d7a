"""Properties of the codec: what was decoded once is said again; a stream says what a whole does."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from channels.dialects.gemini import codec as gemini
from channels.translation.model import EMPTY, Protocol, Refusal, Request, Response, Text
from tests.unit.translators.answer_strategies import answers
from tests.unit.translators.gemini.pieces import encoded
from tests.unit.translators.gemini.request_strategies import gemini_requests
from tests.unit.translators.request_strategies import chat_requests, messages_requests
from tests.unit.translators.wire import (
    comparable,
    said_or_refused,
)

slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


def opened(answer: Response) -> Response:
    """An answer as its client sends it back: foreign signatures taken out of their envelope."""
    whole = gemini.encode_response(answer, id="x", created=1, model="m")
    candidate = json.loads(whole)["candidates"][0]
    turns = gemini.decode_request({"contents": [candidate.get("content", {"parts": []})]}).turns
    return replace(answer, parts=turns[0].parts if turns else ())


@slow
@given(answers())
def test_whole_answer_comes_back_as_it_was_said(answer: Response) -> None:
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
@given(answers())
def test_whole_answer_ends_as_it_was_said(answer: Response) -> None:
    found = gemini.decode_response(gemini.encode_response(answer, id="x", created=1, model="m"))
    has_refusal = any(isinstance(part, Refusal) for part in answer.parts)
    is_refused = has_refusal and answer.finish != "length"
    assert found.finish == ("refusal" if is_refused else answer.finish)
    usage = answer.usage  # the protocol has no count for what is written to a cache
    assert found.usage == (None if usage is None else replace(usage, cache_write_tokens=0))
