"""Properties of the codecs: what was decoded is said again; a stream says what the whole does."""

import json
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.errors import UpstreamMalformed
from channels.http.sse import SseEvent, SseSplitter
from channels.translation.call_arguments import arguments_object
from channels.translation.events import Ended, Finished, StreamFailed
from channels.translation.model import Part, Protocol, Refusal, Text, Thinking, ToolCall
from channels.translation.session import codec
from channels.translation.turns import EMPTY
from tests.unit.channels.recordings import stated_usage, stream_of, streams, values_of, wholes
from tests.unit.translation.gemini.request_strategies import gemini_requests
from tests.unit.translation.response import Response
from tests.unit.translation.strategies import (
    chat_requests,
    events_of,
    messages_requests,
    responses_of,
)
from tests.unit.translation.translated import (
    body_of,
    comparable,
    events_from,
    events_in,
    folded,
    response_in,
    translated_or_refused,
    written,
)

PROTOCOLS: list[Protocol] = ["chat", "responses", "messages", "native"]
# Bytes that only the end of a stream has.
ENDS = (
    *(b"[DONE]", b"message_stop", b"finishReason", b'finish_reason":"', b'stop_reason":"'),
    *(b"response.completed", b"response.incomplete"),
)
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(chat_requests)
def test_messages_upstream_is_given_what_its_protocol_allows(body: dict[str, Any]) -> None:
    sent = translated_or_refused("chat", "messages", body)
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
    sent = translated_or_refused("messages", "chat", body)
    open_calls: list[str] = []
    for message in sent.get("messages", ()):
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
        else:
            open_calls = [call["id"] for call in message.get("tool_calls", ())]


def normal(protocol: Protocol, reply: Response) -> Response:
    """The answer in the words that this protocol has for it."""
    if protocol in ("chat", "responses"):
        return reply
    parts: list[Part] = []
    has_refusal = any(isinstance(part, Refusal) for part in reply.parts)
    for part in reply.parts:
        output = Text(part.text) if isinstance(part, Refusal) else part
        before = parts[-1] if parts else None
        if isinstance(output, Text) and isinstance(before, Text):
            parts[-1] = Text(before.text + output.text)
        else:
            parts.append(output)
    finish = "refusal" if has_refusal and reply.finish == "stop" else reply.finish
    usage = (
        reply.usage
        or response_in("messages", body_of("messages", reply, id="x", created=0, model="m")).usage
    )
    return replace(reply, parts=tuple(parts), finish=finish, usage=usage)


@pytest.mark.parametrize("protocol", PROTOCOLS[:3])  # gemini seals what another has signed
@slow
@given(data=st.data())
def test_whole_answer_says_the_same_again(protocol: Protocol, data: st.DataObject) -> None:
    response = data.draw(responses_of())
    body = body_of(protocol, response, id="x", created=1, model="m")
    assert comparable(response_in(protocol, body)) == comparable(normal(protocol, response))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@slow
@given(data=st.data())
def test_stream_says_what_the_whole_answer_says(protocol: Protocol, data: st.DataObject) -> None:
    response = data.draw(responses_of())
    events = data.draw(events_of(response))
    stream = written(protocol, events)
    sizes = data.draw(st.lists(st.integers(1, 60), max_size=20))
    found = comparable(folded(events_in(protocol, stream, sizes=sizes)))
    body = body_of(protocol, response, id="x", created=1, model="m")
    assert found == comparable(response_in(protocol, body))


@pytest.mark.parametrize(("client", "upstream"), list(permutations(PROTOCOLS, 2)), ids=str)
@slow
@given(data=st.data())
def test_translated_stream_says_what_the_translated_answer_says(
    client: Protocol, upstream: Protocol, data: st.DataObject
) -> None:
    response = data.draw(responses_of())
    sent = written(upstream, data.draw(events_of(response)))
    got = written(client, events_in(upstream, sent))
    streamed = folded(events_in(client, got))
    body = body_of(upstream, response, id="up", created=1, model="up")
    plain = body_of(client, response_in(upstream, body), id="x", created=1, model="m")
    assert comparable(streamed) == comparable(response_in(client, plain))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@slow
@given(data=st.data())
def test_stream_cut_anywhere_has_no_end(protocol: Protocol, data: st.DataObject) -> None:
    response = data.draw(responses_of())
    events = data.draw(events_of(response))
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
    response = data.draw(responses_of())
    stream = bytearray(written(protocol, data.draw(events_of(response))))
    for at in data.draw(st.lists(st.integers(0, max(0, len(stream) - 1)), max_size=8)):
        stream[at] = data.draw(st.integers(0, 255))
    events = events_in(protocol, bytes(stream) + b"\n\n")
    for client in PROTOCOLS:
        written(client, events)


@slow
@given(st.lists(st.sampled_from(["a", "b"]), max_size=4))
def test_unsigned_thoughts_come_back_as_one_from_a_messages_client(texts: list[str]) -> None:
    parts = tuple(Thinking(text) for text in texts)
    one = (Thinking("".join(texts)),) if texts else ()
    response = Response(id=None, model=None, parts=parts, finish="stop")
    body = body_of("messages", response, id="x", created=1, model="m")
    assert response_in("messages", body).parts == one


OTHERS: list[Protocol] = ["chat", "messages"]


@slow
@given(gemini_requests)
def test_request_is_translated_for_every_upstream(body: dict[str, Any]) -> None:
    for upstream in OTHERS:
        sent = translated_or_refused("native", upstream, body)
        for message in sent.get("messages", ()):
            assert message.get("content") or message.get("tool_calls") or upstream == "chat"


def check_upstream_body(sent: dict[str, Any]) -> None:
    """What an upstream of this protocol insists on."""
    contents = [
        (content["role"], ["functionResponse" in part for part in content["parts"]])
        for content in sent.get("contents", ())
    ]
    assert all(len(set(answers)) == 1 for _, answers in contents), "responses stand apart"
    for (one, answers), (two, _) in pairwise(contents):
        assert one != two or all(answers), "roles alternate"
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
    check_upstream_body(translated_or_refused("chat", "native", body))


@slow
@given(messages_requests)
def test_upstream_is_given_what_its_protocol_allows_by_messages(body: dict[str, Any]) -> None:
    check_upstream_body(translated_or_refused("messages", "native", body))


def opened(reply: Response) -> Response:
    """An answer as its client sends it back: foreign signatures taken out of their envelope."""
    whole = body_of("native", reply, id="x", created=1, model="m")
    candidate = json.loads(whole)["candidates"][0]
    turns = (
        codec("native")
        .decode_request({"contents": [candidate.get("content", {"parts": []})]})
        .turns
    )
    return replace(reply, parts=turns[0].parts if turns else ())


@slow
@given(responses_of())
def test_whole_answer_comes_back_as_it_was(reply: Response) -> None:
    again = opened(reply)
    texts = [part.text for part in again.parts if isinstance(part, Text) and part != EMPTY]
    output = [part.text for part in reply.parts if isinstance(part, Text | Refusal)]
    assert texts == [text for text in output if text]
    kept = [part for part in again.parts if not isinstance(part, Text)]
    expected = [part for part in reply.parts if not isinstance(part, Text | Refusal)]
    assert comparable(replace(again, parts=tuple(kept))) == comparable(
        replace(reply, parts=tuple(expected))
    )


@slow
@given(responses_of())
def test_whole_answer_ends_as_it_did(reply: Response) -> None:
    found = response_in("native", body_of("native", reply, id="x", created=1, model="m"))
    has_refusal = any(isinstance(part, Refusal) for part in reply.parts)
    is_refused = has_refusal and reply.finish != "length"
    assert found.finish == ("refusal" if is_refused else reply.finish)
    usage = reply.usage  # the protocol has no count for what is written to a cache
    assert found.usage == (None if usage is None else replace(usage, cache_write_tokens=0))


RECORDED: list[Protocol] = ["chat", "messages", "native"]
STREAMS = [(protocol, path) for protocol in RECORDED for path in streams(protocol)]
WHOLES = [(protocol, path) for protocol in RECORDED for path in wholes(protocol)]


def recorded(protocol: Protocol, path: Path) -> list[SseEvent]:
    """The events of the first answer, with the terminator that the recordings of chat lack."""
    stream = stream_of(path)
    if protocol == "chat":
        stream += b"data: [DONE]\n\n"
    events = [event for event in SseSplitter().feed(stream + b"\n\n") if event.data is not None]
    ends = [at for at, event in enumerate(events) if event.data == b'{"type":"message_stop"}']
    return events[: ends[0] + 1] if ends else events


def visible(reply: Response) -> list[object]:
    """What a client sees: all text as one, and the calls."""
    text = "".join(part.text for part in reply.parts if isinstance(part, Text))
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    return [text, *[(call.name, arguments_object(call.arguments)) for call in calls]]


def usage_of(reply: Response) -> tuple[int, int]:
    """Tokens in and out; every recording that is complete states them."""
    assert reply.usage is not None
    return reply.usage.input_tokens, reply.usage.output_tokens


def test_recorded_stream_is_translated_to_its_end() -> None:
    for protocol, path in STREAMS:
        wire = recorded(protocol, path)
        events = events_from(protocol, wire)
        assert isinstance(events[-1], Ended | StreamFailed), path.name
        response = folded(events)
        stated = stated_usage(protocol, list(values_of(b"".join(one.raw for one in wire))))
        assert usage_of(response) == stated, path.name
        for client in RECORDED:
            again = folded(events_in(client, written(client, events)))
            assert again.finish == response.finish, path.name
            if all(isinstance(part, Text | ToolCall) for part in response.parts):
                assert visible(again) == visible(response), path.name
            if client == protocol == "native":
                assert comparable(again) == comparable(response), path.name


def test_recorded_answer_is_translated() -> None:
    for protocol, path in WHOLES:
        body = path.read_bytes()
        if protocol == "native" and b'"error"' in body:
            with pytest.raises(UpstreamMalformed):
                response_in(protocol, body)
            continue
        response = response_in(protocol, body)
        assert response.finish is not None, path.name
        assert usage_of(response) == stated_usage(protocol, [json.loads(body)]), path.name
        for client in RECORDED:
            sent = body_of(client, response, id="a", created=1, model="m")
            again = response_in(client, sent)
            assert again.finish == response.finish, path.name
            assert usage_of(again) == usage_of(response), path.name
