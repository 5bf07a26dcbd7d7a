"""What chat-completions upstreams send beside the documentation, for clients of other protocols."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from channels.dialects.table import CHAT_DIALECTS
from channels.dialects.token_counts import Usage, UsageParts
from channels.errors import UpstreamMalformed
from channels.http.sse import SseSplitter
from channels.translation.events import Began, Ended, Event, Finished, TextDelta, UsageStated
from channels.translation.model import FinishReason, Part, Protocol, Text, Thinking, ToolCall
from channels.translation.paths import TRANSLATIONS
from channels.translation.session import TranslatedCall
from tests.support.rows import each
from tests.unit.channels.replay import new_meter
from tests.unit.translation.pieces import assistant
from tests.unit.translation.response import Response
from tests.unit.translation.translated import (
    body_of,
    data_of,
    events_from,
    folded,
    response_in,
    response_to,
    sse,
    translated,
    whole,
    written,
)

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
EMPTY = {"name": "", "arguments": ""}
SOURCE = {"url": "u", "title": "t", "start_index": 0, "end_index": 2}
HI = {"content": "Hi"}
IN_ONE = pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
CLIENTS: tuple[Protocol, ...] = ("messages", "native")


def read(message: dict[str, Any] | None, finish: str | None, *, is_stream: bool) -> Response:
    """What an upstream says in one choice; None says nothing at all."""
    member = {} if message is None else {"delta" if is_stream else "message": message}
    body = {
        "id": "chatcmpl-1",
        "model": "up",
        "choices": [{"index": 0, **member, "finish_reason": finish}],
        "usage": USAGE,
    }
    if not is_stream:
        return response_to("chat", body)
    return folded(events_from("chat", sse(body, b"[DONE]")))


def call(name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    return {"index": 0, **members, "function": {"name": name, "arguments": arguments}}


PLACEHOLDERS: dict[str, dict[str, Any]] = {
    "function_call empty": {"function_call": EMPTY},
    "function_call null": {"function_call": None},
    "function_call of nulls": {"function_call": {"name": None, "arguments": None}},
    "function_call with empty arguments": {"function_call": {"name": "", "arguments": "{}"}},
    "function_call without members": {"function_call": {}},
    "tool_calls null": {"tool_calls": None},
    "tool_calls empty": {"tool_calls": []},
    "tool_calls of null": {"tool_calls": [None]},
    "tool_calls of nothing": {"tool_calls": [{}]},
    "tool_calls with a function of null": {"tool_calls": [{"index": 0, "function": None}]},
    "tool_calls with an empty function": {"tool_calls": [{"index": 0, "function": EMPTY}]},
    "tool_calls with an id alone": {"tool_calls": [call("", "", id="call_1", type="function")]},
    "other members": {"refusal": None, "audio": None, "annotations": None, "images": None},
    "empty other members": {"refusal": "", "reasoning_content": "", "reasoning": "", "images": []},
    "envelope of nothing": {"reasoning_details": None, "reasoning_content": None},
    "all of it": {"function_call": EMPTY, "tool_calls": None, "refusal": None, "audio": None},
}

# One that has an id may have a result, where a client sends it back.
UNNAMED = {
    name: placeholder
    for name, placeholder in PLACEHOLDERS.items()
    if name != "tool_calls with an id alone"
}


@IN_ONE
@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
@pytest.mark.parametrize("placeholder", PLACEHOLDERS.values(), ids=list(PLACEHOLDERS))
def test_placeholder_says_nothing(
    placeholder: dict[str, Any], finish: str, is_stream: bool
) -> None:
    reply = read({**HI, **placeholder}, finish, is_stream=is_stream)
    assert reply.parts == (Text("Hi"),)
    assert reply.finish == "stop"


def test_placeholder_in_every_chunk_leaves_the_number_to_the_call() -> None:
    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    def placed(finish: str | None = None) -> dict[str, Any]:
        empty = [{**call("", ""), "id": ""}]
        return chunk(finish, content="", function_call=EMPTY, tool_calls=empty)

    made = chunk(tool_calls=[{**call("f", '{"a":1}', id="c1"), "index": 1}])
    stream = sse(placed(), made, placed(), placed("tool_calls"), b"[DONE]")
    found = folded(events_from("chat", stream))
    assert found.parts == (ToolCall("c1", "f", '{"a":1}'),)
    assert found.finish == "tool_calls"


@each("upstream", ["messages", "native", "responses"])
@each("placeholder", UNNAMED.values())
def test_placeholder_that_a_client_sends_back_is_none(
    placeholder: dict[str, Any], upstream: Protocol
) -> None:
    user = {"role": "user", "content": "Hello"}
    output = assistant("Hi")
    plain, echoed = (
        translated("chat", upstream, {"messages": [user, one, user]})[0]
        for one in (output, {**output, **placeholder})
    )
    assert echoed == plain


@IN_ONE
@pytest.mark.parametrize("arguments", ["null", " null\n", "", "  ", None, "{}", {}], ids=json.dumps)
def test_arguments_that_are_none_are_an_empty_object(arguments: Any, is_stream: bool) -> None:
    output = {"tool_calls": [call("f", arguments, id="c1", type="function")]}
    assert read(output, "tool_calls", is_stream=is_stream).parts == (ToolCall("c1", "f", "{}"),)
    old = {"function_call": {"name": "f", "arguments": arguments}}
    (part,) = read(old, "function_call", is_stream=is_stream).parts
    assert isinstance(part, ToolCall)
    assert part.arguments == "{}"


@IN_ONE
@pytest.mark.parametrize("arguments", ["[1]", "7", '"x"', "nullable", "{", "null" + " " * 20])
def test_arguments_that_are_no_object_stay(arguments: str, is_stream: bool) -> None:
    output = {"tool_calls": [call("f", arguments, id="c1")]}
    reply = read(output, "tool_calls", is_stream=is_stream)
    assert reply.parts == (ToolCall("c1", "f", arguments),)
    (block,) = whole("messages", reply)["content"]
    assert block["input"] == {"raw_arguments": arguments}


@each("client", ["chat", *CLIENTS])
def test_null_in_pieces_reaches_a_client_as_an_empty_object(client: Protocol) -> None:
    def piece(text: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call("f", text, id="c1")]}}]}

    events = events_from("chat", sse(*map(piece, ("nu", "ll", "")), b"[DONE]"))
    stream = written(client, events)
    assert b"null" not in stream.replace(b"usage", b"").replace(b":null", b"")
    assert folded(events_from(client, [*_events(stream)])).parts[0] == ToolCall("c1", "f", "{}")


def _events(stream: bytes) -> Any:
    return sse(*(b"[DONE]" if data == "[DONE]" else data for data in data_of(stream)))


@IN_ONE
@pytest.mark.parametrize("message", [None, {}, {"content": None}, {"content": ""}], ids=json.dumps)
def test_withheld_answer_is_a_refusal_with_its_usage(
    message: dict[str, Any] | None, is_stream: bool
) -> None:
    reply = read(message, "content_filter", is_stream=is_stream)
    assert reply.parts == ()
    assert reply.finish == "refusal"
    assert reply.usage == Usage(input_tokens=3, output_tokens=4)
    assert whole("messages", reply)["stop_reason"] == "refusal"
    gemini = whole("native", reply)
    assert gemini["candidates"][0]["finishReason"] == "SAFETY"
    assert gemini["usageMetadata"]["candidatesTokenCount"] == 4


def test_message_that_is_null_is_none_at_all() -> None:
    filtered = {"choices": [{"message": None, "finish_reason": "content_filter"}]}
    assert response_to("chat", filtered).finish == "refusal"


def test_message_withheld_without_content_is_a_refusal() -> None:
    message = {"type": "message", "stop_reason": "refusal", "usage": {"output_tokens": 1}}
    assert response_to("messages", message).finish == "refusal"


THOUGHTS: dict[str, list[Any]] = {
    "in parts": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}],
    "as text": [{"type": "thinking", "thinking": "Hm."}],
    "in two": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "H"}, {"text": "m"}, "."]},
        {"type": "thinking", "thinking": None},
    ],
}


@IN_ONE
@pytest.mark.parametrize("thought", THOUGHTS.values(), ids=list(THOUGHTS))
def test_thinking_among_the_content_is_thinking(thought: list[Any], is_stream: bool) -> None:
    content = [*thought, {"type": "text", "text": "Four."}]
    reply = read({"content": content}, "stop", is_stream=is_stream)
    expected: tuple[Part, ...] = (Thinking("Hm."), Text("Four."))
    assert reply.parts == expected
    (candidate,) = whole("native", reply)["candidates"]
    assert candidate["content"]["parts"] == [{"text": "Hm.", "thought": True}, {"text": "Four."}]


@IN_ONE
def test_thinking_beside_the_content_is_read_once(is_stream: bool) -> None:
    content = [*THOUGHTS["in parts"], {"type": "text", "text": "Four."}]
    output = {"content": content, "reasoning_content": "Hm."}
    assert read(output, "stop", is_stream=is_stream).parts == (Thinking("Hm."), Text("Four."))


BLOCK = {"type": "thinking", "thinking": "Hm."}
SIGNED_BLOCK = {**BLOCK, "signature": "c2ln"}
HIDDEN_BLOCK = {"type": "redacted_thinking", "data": "ZGF0"}
SIGNED = Thinking("Hm.", signature="c2ln", signer="messages")
HIDDEN = Thinking("", redacted="ZGF0", signer="messages")
UNREAD: dict[str, tuple[dict[str, Any], tuple[Part, ...]]] = {
    "of Copilot": ({"reasoning_text": "Hm."}, (Thinking("Hm."),)),
    "blocks": ({"thinking_blocks": [BLOCK]}, (Thinking("Hm."),)),
    "signed blocks": ({"thinking_blocks": [SIGNED_BLOCK, HIDDEN_BLOCK]}, (SIGNED, HIDDEN)),
    "blocks beside their text": (
        {"thinking_blocks": [SIGNED_BLOCK], "reasoning_content": "Hm."},
        (SIGNED,),
    ),
    "blocks that a translation marked": (
        {"thinking_blocks": [{**BLOCK, "signature": "translated:unsigned"}]},
        (Thinking("Hm."),),
    ),
    "a part of reasoning": (
        {"content": [{"type": "reasoning", "text": "Hm."}]},
        (Thinking("Hm."),),
    ),
    "a part under its name": (
        {"content": [{"type": "reasoning", "reasoning": "Hm."}]},
        (Thinking("Hm."),),
    ),
    "a part with a summary": (
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]},
        (Thinking("Hm."),),
    ),
    "a signed part": ({"content": [SIGNED_BLOCK]}, (SIGNED,)),
    "odd blocks": ({"thinking_blocks": [None, 7, {"type": "thinking", "thinking": 7}]}, ()),
}


@IN_ONE
@pytest.mark.parametrize(("message", "expected"), UNREAD.values(), ids=list(UNREAD))
def test_thought_in_an_upstreams_own_form_is_thinking(
    message: dict[str, Any], expected: tuple[Part, ...], is_stream: bool
) -> None:
    content = [*message.get("content", ()), {"type": "text", "text": "Four."}]
    for text in (content, "Four.") if "content" not in message else (content,):
        reply = read({**message, "content": text}, "stop", is_stream=is_stream)
        assert reply.parts == (*expected, Text("Four."))


def test_blocks_in_pieces_are_one_thought() -> None:
    pieces: list[dict[str, Any]] = [
        {"thinking_blocks": [{**BLOCK, "thinking": "H", "signature": ""}]},
        {"thinking_blocks": [{**BLOCK, "thinking": "m.", "signature": None}]},
        {"thinking_blocks": [{**SIGNED_BLOCK, "thinking": ""}]},
        {"content": "Four."},
    ]
    for member in ({}, {"reasoning_content": "H"}):
        first, second, *rest = pieces
        deltas = [first | member, second | ({"reasoning_content": "m."} if member else {}), *rest]
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        events = events_from("chat", sse(*chunks, b"[DONE]"))
        assert folded(events).parts == (SIGNED, Text("Four."))


def test_thoughts_in_blocks_are_counted() -> None:
    body = {"choices": [{"message": {"thinking_blocks": [SIGNED_BLOCK], "content": "Four."}}]}
    meter = new_meter("chat")
    meter.take_body(json.dumps(body).encode())
    assert meter.characters == len("Hm.Four.")


FINISHES: list[tuple[str, FinishReason]] = [
    ("stop", "tool_calls"),
    ("function_call", "tool_calls"),
    ("length", "length"),
    ("content_filter", "refusal"),
    ("sensitive", "refusal"),
    ("model_context_window_exceeded", "length"),
    ("network_error", "length"),
    ("model_length", "length"),
    ("insufficient_system_resource", "length"),
    ("error", "length"),
]


@IN_ONE
@pytest.mark.parametrize(("stated", "meant"), FINISHES)
def test_finish_of_an_answer_with_calls(stated: str, meant: FinishReason, is_stream: bool) -> None:
    output = {"tool_calls": [call("f", "{}", id="c1")]}
    assert read(output, stated, is_stream=is_stream).finish == meant


def test_message_in_a_stream_is_read_where_no_delta_was() -> None:
    message = {"content": "Hi", "tool_calls": [call("f", "{}", id="c1")]}
    end = {"choices": [{"message": message, "finish_reason": "stop"}]}
    parts = (Text("Hi"), ToolCall("c1", "f", "{}"))
    assert folded(events_from("chat", sse(end, b"[DONE]"))).parts == parts
    deltas = [{"choices": [{"delta": {name: value}}]} for name, value in message.items()]
    assert folded(events_from("chat", sse(*deltas, end, b"[DONE]"))).parts == parts


def test_choice_that_says_nothing_is_malformed_still() -> None:
    for body in (
        b'{"choices": [{"finish_reason": "stop"}]}',
        b'{"choices": [{"message": 7}]}',
        b'{"choices": [{"finish_reason": []}]}',
    ):
        with pytest.raises(UpstreamMalformed):
            response_in("chat", body)


PARTS = UsageParts(
    cache_write_1h_tokens=5,
    audio_input_tokens=30,
    cached_audio_tokens=20,
    image_input_tokens=9,
    cached_image_tokens=4,
    audio_output_tokens=7,
    image_output_tokens=3,
    web_searches=2,
    service_tier="priority",
)
STATED = Usage(
    input_tokens=200,
    output_tokens=50,
    cached_tokens=60,
    cache_write_tokens=15,
    reasoning_tokens=10,
    parts=PARTS,
)
KEPT = {
    "chat": STATED,
    "responses": STATED,
    "messages": replace(
        STATED, parts=UsageParts(cache_write_1h_tokens=5, web_searches=2, service_tier="priority")
    ),
    "native": replace(
        STATED, cache_write_tokens=0, parts=replace(PARTS, cache_write_1h_tokens=0, web_searches=0)
    ),
}
EVENTS: list[Event] = [
    Began("1", "m"),
    TextDelta("x"),
    UsageStated(STATED),
    Finished("stop"),
    Ended(),
]


@each("protocol", KEPT)
def test_parts_are_stated_as_far_as_the_protocol_has_words(protocol: str) -> None:
    codec = CHAT_DIALECTS[protocol].codec
    assert codec is not None
    response = Response(id="1", model="m", parts=(Text("x"),), finish="stop", usage=STATED)
    meter = new_meter(protocol)
    meter.take_body(body_of(protocol, response))
    assert meter.usage == KEPT[protocol]
    encoder = codec.new_encoder(id="1", created=1, model="m", include_usage=True)
    stream = b"".join(encoder.encode_event(event) for event in EVENTS)
    meter = new_meter(protocol)
    for event in SseSplitter().feed(stream):
        if event.data is not None:
            meter.take_event(meter.read_event(event.data))
    assert meter.usage == KEPT[protocol]


def test_fast_service_of_messages_is_its_speed() -> None:
    usage = replace(STATED, parts=UsageParts(service_tier="fast"))
    response = Response(id="1", model="m", parts=(), finish="stop", usage=usage)
    body = body_of("messages", response)
    assert b'"speed":"fast"' in body
    meter = new_meter("messages")
    meter.take_body(body)
    assert meter.usage == usage


@IN_ONE
def test_sources_of_a_text_are_its_annotations_for_clients_of_responses(is_stream: bool) -> None:
    stated = [{"type": "url_citation", "url_citation": one} for one in (SOURCE, {"url": "v"})]
    early, rest = {"annotations": stated[:1]}, {"content": " you", "annotations": stated}
    if is_stream:
        chunks = ({"choices": [{"delta": one}]} for one in (early, HI, rest))
        done = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        events = events_from("chat", sse(*chunks, done, b"[DONE]"))
        made = data_of(written("responses", events))
        added = [one for one in made if one["type"] == "response.output_text.annotation.added"]
        assert [one["annotation_index"] for one in added] == [0, 1]
        (item,) = made[-1]["response"]["output"]
        assert [one["annotation"] for one in added] == item["content"][0]["annotations"]
    else:
        message = {**rest, "content": "Hi you"}
        body = {"choices": [{"message": message, "finish_reason": "stop"}]}
        call = TranslatedCall(TRANSLATIONS["responses", "chat"], {"input": "hi"})
        meter = CHAT_DIALECTS["chat"].new_meter()
        read = meter.take_body(json.dumps(body).encode())
        whole = call.translate_response(read, meter, id="a", created=1, model="m")
        (item,) = json.loads(whole)["output"]
    (part,) = item["content"]
    assert part["text"] == "Hi you"
    assert part["annotations"] == [
        {"type": "url_citation", **SOURCE},
        {"type": "url_citation", "url": "v", "title": "", "start_index": 0, "end_index": 6},
    ]
