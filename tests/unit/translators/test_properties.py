"""Properties of the codecs: what was decoded is said again; a stream says what the whole does."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.translation.model import (
    Finished,
    Part,
    Protocol,
    Refusal,
    Request,
    Response,
    Text,
    Thinking,
)
from channels.translation.session import codec
from channels.translation.tool_calls import LossReport
from tests.unit.translators.answer_strategies import answers, events_of
from tests.unit.translators.request_strategies import chat_requests, messages_requests
from tests.unit.translators.wire import (
    comparable,
    events_in,
    folded,
    said_or_refused,
    written,
)

PROTOCOLS: list[Protocol] = ["chat", "responses", "messages", "native"]
# Bytes that only the end of a stream has.
ENDS = (
    *(b"[DONE]", b"message_stop", b"finishReason", b'finish_reason":"', b'stop_reason":"'),
    *(b"response.completed", b"response.incomplete"),
)
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def again(protocol: Protocol, request: Request, **options: Any) -> Request:
    """The request, encoded and decoded."""
    module = codec(protocol)
    body = module.encode_request(
        request,
        model="m",
        stream=False,
        max_tokens=request.max_tokens or 4000,
        report=LossReport(),
        **options,
    )
    return module.decode_request(body)


def settled(request: Request) -> Request:
    """The request without what is not the wire's to keep: the maximum, names that were merged."""
    extras = {name: value for name, value in request.extras.items() if "." not in name}
    return replace(request, max_tokens=None, extras=extras, empty=())


@slow
@given(chat_requests)
def test_chat_request_says_the_same_again(body: dict[str, Any]) -> None:
    request = codec("chat").decode_request(body)
    assert settled(again("chat", request)) == settled(request)


@slow
@given(messages_requests)
def test_messages_request_says_the_same_again(body: dict[str, Any]) -> None:
    request = codec("messages").decode_request(body)
    assert settled(again("messages", request, has_system_turns=True)) == settled(request)


@slow
@given(chat_requests)
def test_messages_upstream_is_given_what_its_protocol_allows(body: dict[str, Any]) -> None:
    sent = said_or_refused("chat", "messages", body)
    roles = [message["role"] for message in sent.get("messages", ())]
    assert roles == [("user", "assistant")[index % 2] for index in range(len(roles))]
    for message in sent.get("messages", ()):
        assert message["content"], "no empty content"
        blocks = message["content"]
        kinds = [] if isinstance(blocks, str) else [block["type"] for block in blocks]
        results = [index for index, kind in enumerate(kinds) if kind == "tool_result"]
        assert results == list(range(len(results))), "results first"


@slow
@given(messages_requests)
def test_chat_upstream_is_given_results_right_after_calls(body: dict[str, Any]) -> None:
    sent = said_or_refused("messages", "chat", body)
    open_calls: list[str] = []
    for message in sent.get("messages", ()):
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
        else:
            open_calls = [call["id"] for call in message.get("tool_calls", ())]


def normal(protocol: Protocol, answer: Response) -> Response:
    """The answer in the words that this protocol has for it."""
    if protocol in ("chat", "responses"):
        return answer
    parts: list[Part] = []
    has_refusal = any(isinstance(part, Refusal) for part in answer.parts)
    for part in answer.parts:
        said = Text(part.text) if isinstance(part, Refusal) else part
        before = parts[-1] if parts else None
        if isinstance(said, Text) and isinstance(before, Text):
            parts[-1] = Text(before.text + said.text)
        else:
            parts.append(said)
    finish = "refusal" if has_refusal and answer.finish == "stop" else answer.finish
    usage = (
        answer.usage
        or codec("messages")
        .decode_response(codec("messages").encode_response(answer, id="x", created=0, model="m"))
        .usage
    )
    return replace(answer, parts=tuple(parts), finish=finish, usage=usage)


@pytest.mark.parametrize("protocol", PROTOCOLS[:3])  # gemini seals what another has signed
@slow
@given(data=st.data())
def test_whole_answer_says_the_same_again(protocol: Protocol, data: st.DataObject) -> None:
    answer = data.draw(answers())
    module = codec(protocol)
    body = module.encode_response(answer, id="x", created=1, model="m")
    assert comparable(module.decode_response(body)) == comparable(normal(protocol, answer))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@slow
@given(data=st.data())
def test_stream_says_what_the_whole_answer_says(protocol: Protocol, data: st.DataObject) -> None:
    answer = data.draw(answers())
    events = data.draw(events_of(answer))
    stream = written(protocol, events)
    sizes = data.draw(st.lists(st.integers(1, 60), max_size=20))
    found = comparable(folded(events_in(protocol, stream, sizes=sizes)))
    module = codec(protocol)
    body = module.encode_response(answer, id="x", created=1, model="m")
    assert found == comparable(module.decode_response(body))


@pytest.mark.parametrize(("client", "upstream"), list(permutations(PROTOCOLS, 2)), ids=str)
@slow
@given(data=st.data())
def test_translated_stream_says_what_the_translated_answer_says(
    client: Protocol, upstream: Protocol, data: st.DataObject
) -> None:
    answer = data.draw(answers())
    sent = written(upstream, data.draw(events_of(answer)))
    got = written(client, events_in(upstream, sent))
    streamed = folded(events_in(client, got))
    body = codec(upstream).encode_response(answer, id="up", created=1, model="up")
    plain = codec(client).encode_response(
        codec(upstream).decode_response(body), id="x", created=1, model="m"
    )
    assert comparable(streamed) == comparable(codec(client).decode_response(plain))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@slow
@given(data=st.data())
def test_stream_cut_anywhere_has_no_end(protocol: Protocol, data: st.DataObject) -> None:
    answer = data.draw(answers())
    events = data.draw(events_of(answer))
    at = data.draw(st.integers(0, len(events) - 1))
    stream = written(protocol, events[:at])
    found = events_in(protocol, stream)
    assert not any(isinstance(event, Finished) for event in found)
    assert not any(end in stream for end in ENDS)
    # And what was said before the cut is the beginning of the whole.
    assert written(protocol, events).startswith(stream)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@slow
@given(data=st.data())
def test_no_stream_raises(protocol: Protocol, data: st.DataObject) -> None:
    answer = data.draw(answers())
    stream = bytearray(written(protocol, data.draw(events_of(answer))))
    for at in data.draw(st.lists(st.integers(0, max(0, len(stream) - 1)), max_size=8)):
        stream[at] = data.draw(st.integers(0, 255))
    events = events_in(protocol, bytes(stream) + b"\n\n")
    for client in PROTOCOLS:
        written(client, events)


@slow
@given(st.lists(st.sampled_from(["a", "b"]), max_size=4))
def test_unsigned_thoughts_never_reach_a_messages_client(texts: list[str]) -> None:
    parts = tuple(Thinking(text) for text in texts)
    answer = Response(id=None, model=None, parts=parts, finish="stop")
    body = codec("messages").encode_response(answer, id="x", created=1, model="m")
    assert codec("messages").decode_response(body).parts == ()
