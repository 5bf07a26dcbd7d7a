"""Streams of messages upstreams, as documented and as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.dialects.table import codec
from channels.http.sse import SseEvent
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Finished,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    UsageStated,
)
from channels.usage import Usage
from tests.unit.translators.wire import events_from, events_in, folded, sse

STOP = {"type": "message_stop"}
PING = {"type": "ping"}


def start(**usage: int) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "model": "up", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def begin(index: int, kind: str, **members: Any) -> dict[str, Any]:
    block = {"type": kind, **members}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **members},
    }


def words(index: int, text: str) -> dict[str, Any]:
    return delta(index, "text", text=text)


def json_piece(index: int, piece: str) -> dict[str, Any]:
    return delta(index, "input_json", partial_json=piece)


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def last(
    reason: str = "end_turn", usage: dict[str, Any] | None = None, **delta: Any
) -> dict[str, Any]:
    event = {"type": "message_delta", "delta": {"stop_reason": reason, **delta}}
    return event if usage is None else {**event, "usage": usage}


BEGAN = Began("msg_1", "up")


def test_text_comes_in_order_and_ends() -> None:
    found = events_from(
        "messages",
        sse(
            start(input_tokens=3, output_tokens=1),
            PING,
            begin(0, "text", text=""),
            words(0, "a"),
            PING,
            words(0, "b"),
            stop(0),
            last(usage={"output_tokens": 4}),
            STOP,
        ),
    )
    assert found == [
        BEGAN,
        TextDelta("a"),
        TextDelta("b"),
        Finished("stop"),
        UsageStated(Usage(input_tokens=3, output_tokens=4)),
        Ended(),
    ]


def test_cut_stream_has_no_end() -> None:
    found = events_from("messages", sse(start(), begin(0, "text"), words(0, "a"), last()))
    assert found == [BEGAN, TextDelta("a"), Finished("stop")]


def test_running_totals_replace_and_what_is_left_out_stays() -> None:
    found = events_from(
        "messages",
        sse(
            start(
                input_tokens=3,
                cache_read_input_tokens=10,
                cache_creation_input_tokens=2,
                output_tokens=1,
            ),
            last(usage={"output_tokens": 4}),
            last(usage={"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 5}}),
            last(usage={"input_tokens": 4, "output_tokens": 9}),
            STOP,
        ),
    )
    stated = [event.usage for event in found if isinstance(event, UsageStated)]
    assert stated == [
        Usage(15, 4, cached_tokens=10, cache_write_tokens=2),
        Usage(15, 9, cached_tokens=10, cache_write_tokens=2, reasoning_tokens=5),
        Usage(16, 9, cached_tokens=10, cache_write_tokens=2, reasoning_tokens=5),
    ]


def test_usage_that_appears_only_at_the_end_is_read() -> None:
    found = events_from(
        "messages", sse(start(), last(usage={"input_tokens": 0, "output_tokens": 0}))
    )
    assert found[-1] == UsageStated(Usage(0, 0))


def test_calls_are_counted_without_the_other_blocks() -> None:
    found = events_from(
        "messages",
        sse(
            start(),
            begin(0, "text", text="Look: "),
            stop(0),
            begin(1, "server_tool_use", id="s", name="web_search", input={}),
            json_piece(1, '{"query": 1}'),
            stop(1),
            begin(2, "web_search_tool_result", tool_use_id="s", content=[]),
            stop(2),
            begin(3, "tool_use", id="t1", name="f", input={}),
            json_piece(3, ""),
            json_piece(3, '{"a"'),
            json_piece(3, ": 1}"),
            stop(3),
            begin(4, "tool_use", id="t2", name="g", input={}),
            stop(4),
            last("tool_use"),
            STOP,
        ),
    )
    assert found == [
        BEGAN,
        TextDelta("Look: "),
        CallBegan(0, "t1", "f"),
        CallDelta(0, '{"a"'),
        CallDelta(0, ": 1}"),
        CallBegan(1, "t2", "g"),
        CallDelta(1, "{}"),
        Finished("tool_calls"),
        Ended(),
    ]


@pytest.mark.parametrize(
    ("given", "arguments"),
    [({"a": 1}, '{"a":1}'), ('{"a": ', '{"a": '), ({}, "{}"), ("", "{}"), (None, "{}")],
)
def test_arguments_given_at_the_start_are_the_arguments(given: object, arguments: str) -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": given}
    opening = {"type": "content_block_start", "index": 0, "content_block": call}
    found = events_from("messages", sse(start(), opening, last("tool_use"), STOP))
    whole = json.dumps({"type": "message", "content": [call], "stop_reason": "tool_use"})
    assert folded(found).parts == (ToolCall("t", "f", arguments),)
    assert codec("messages").decode_response(whole.encode()).parts == folded(found).parts


def test_first_event_may_be_a_call_and_need_no_start() -> None:
    found = events_from("messages", sse(begin(0, "tool_use", id="t", name="f"), STOP))
    assert found == [CallBegan(0, "t", "f"), CallDelta(0, "{}"), Ended()]


def test_thinking_comes_with_its_proof() -> None:
    found = events_from(
        "messages",
        sse(
            start(),
            begin(0, "thinking", thinking="", signature=""),
            delta(0, "thinking", thinking="hm"),
            delta(0, "signature", signature="sig"),
            stop(0),
            begin(1, "redacted_thinking", data="blob"),
            stop(1),
            begin(2, "thinking", thinking="at once", signature="sig2"),
            stop(2),
        ),
    )
    assert found[1:] == [
        ThinkingDelta("hm"),
        ThinkingDelta("", signature="sig", signer="messages"),
        ThinkingDelta(redacted="blob", signer="messages"),
        ThinkingDelta("at once", signature="sig2", signer="messages"),
    ]


def test_refusal_is_explained() -> None:
    details = {"type": "refusal", "category": None, "explanation": "Not this."}
    found = events_from("messages", sse(start(), last("refusal", stop_details=details), STOP))
    assert found == [BEGAN, Finished("refusal", explanation="Not this."), Ended()]


def test_stop_sequence_is_named() -> None:
    found = events_from("messages", sse(last("stop_sequence", stop_sequence="END")))
    assert found == [Finished("stop_sequence", "END")]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"type": "overloaded_error", "message": "Overloaded"},
            StreamFailed("overloaded_error", "Overloaded"),
        ),
        ({}, StreamFailed(None, "The upstream reported an error.")),
        (None, StreamFailed(None, "The upstream reported an error.")),
    ],
)
def test_error_ends_the_stream(error: Any, expected: StreamFailed) -> None:
    event = {"type": "error", "error": error}
    assert events_from("messages", sse(start(), event, words(0, "late"), STOP)) == [BEGAN, expected]


def test_second_start_begins_no_second_answer() -> None:
    found = events_from("messages", sse(start(), start(), begin(0, "text"), words(0, "a"), STOP))
    assert found == [BEGAN, TextDelta("a"), Ended()]


def test_unknown_events_and_deltas_are_passed_over() -> None:
    odd = sse(
        {"type": "news"},
        {},
        b"junk",
        b"[]",
        {"type": "content_block_delta"},
        {"type": "content_block_start", "index": 0, "content_block": None},
        {"type": "content_block_stop", "index": 99},
        {"type": "message_start"},
        {"type": "message_delta", "usage": "none"},
        delta(0, "citations", citation={}),
        delta(0, "telepathy", thought="x"),
        json_piece(7, "{"),
    )
    found = events_from("messages", [SseEvent(b": hi\n\n", None), *odd, *sse(STOP)])
    assert found == [Began(None, None), Ended()]


def test_event_that_is_not_as_documented_is_read_as_far_as_it_goes() -> None:
    odd = {
        "type": "content_block_delta",
        "index": "0",
        "delta": {"type": "text_delta", "text": "a", "stop_reason": 7},
    }
    half = (
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83d"}}'
    )
    assert events_from("messages", sse(odd, half)) == [TextDelta("a"), TextDelta("\ud83d")]


def test_event_that_is_not_as_documented_belongs_to_its_block_still() -> None:
    odd = json_piece(1, '{"a":1}')
    odd["delta"]["stop_reason"] = 7
    found = events_from("messages", sse(begin(1, "tool_use", id="t", name="f"), odd, stop(1)))
    assert found == [CallBegan(0, "t", "f"), CallDelta(0, '{"a":1}')]


def test_bytes_cut_anywhere_mean_the_same() -> None:
    stream = (
        'event: message_start\r\ndata: {"type":"message_start","message":{"id":"m"}}\r\n\r\n'
        'event: content_block_delta\r\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"é😀"}}\r\n\r\n: hi\r\n\r\n'
        'event: message_stop\r\ndata: {"type":"message_stop"}\r\n\r\n'
    ).encode()
    expected = [Began("m", None), TextDelta("é😀"), Ended()]
    for at in range(len(stream)):
        assert events_in("messages", stream, sizes=[at]) == expected
    assert events_in("messages", stream, sizes=[1] * len(stream)) == expected
