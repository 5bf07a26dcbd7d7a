"""Streams of messages upstreams, as documented and as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.dialects.meter import Usage
from channels.http.sse import SseEvent
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    UsageStated,
)
from channels.translation.session import codec
from tests.unit.translators.wire import events_from, folded, sse

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
UNKNOWN = "The upstream reported an error."
CACHED = {"cache_read_input_tokens": 10, "cache_creation_input_tokens": 2}
DETAILS = {"type": "refusal", "category": None, "explanation": "Not this."}
ODD_TEXT = {"type": "text_delta", "text": "a", "stop_reason": 7}
ODD_JSON = {"type": "input_json_delta", "partial_json": '{"a":1}', "stop_reason": 7}
HALF = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83d"}}'


def of_block(index: object, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


# name: the data of an upstream's events, and the events they are.
STREAMS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": (
        [
            *(start(input_tokens=3, output_tokens=1), PING, begin(0, "text", text="")),
            *(words(0, "a"), PING, words(0, "b"), stop(0), last(usage={"output_tokens": 4}), STOP),
        ],
        [
            *(BEGAN, TextDelta("a"), TextDelta("b"), Finished("stop")),
            *(UsageStated(Usage(input_tokens=3, output_tokens=4)), Ended()),
        ],
    ),
    "a cut": (
        [start(), begin(0, "text"), words(0, "a"), last()],
        [BEGAN, TextDelta("a"), Finished("stop")],
    ),
    "running totals replace, what is left out stays": (
        [
            start(input_tokens=3, output_tokens=1, **CACHED),
            last(usage={"output_tokens": 4}),
            last(usage={"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 5}}),
            last(usage={"input_tokens": 4, "output_tokens": 9}),
        ],
        [
            *(BEGAN, Finished("stop")),
            UsageStated(Usage(15, 4, cached_tokens=10, cache_write_tokens=2)),
            Finished("stop"),
            UsageStated(Usage(15, 9, cached_tokens=10, cache_write_tokens=2, reasoning_tokens=5)),
            Finished("stop"),
            UsageStated(Usage(16, 9, cached_tokens=10, cache_write_tokens=2, reasoning_tokens=5)),
        ],
    ),
    "usage at the end only": (
        [start(), last(usage={"input_tokens": 0, "output_tokens": 0})],
        [BEGAN, Finished("stop"), UsageStated(Usage(0, 0))],
    ),
    "calls are counted without the other blocks": (
        [
            *(start(), begin(0, "text", text="Look: "), stop(0)),
            begin(1, "server_tool_use", id="s", name="web_search", input={}),
            *(json_piece(1, '{"query": 1}'), stop(1)),
            *(begin(2, "web_search_tool_result", tool_use_id="s", content=[]), stop(2)),
            begin(3, "tool_use", id="t1", name="f", input={}),
            *(json_piece(3, ""), json_piece(3, '{"a"'), json_piece(3, ": 1}"), stop(3)),
            *(begin(4, "tool_use", id="t2", name="g", input={}), stop(4)),
            *(last("tool_use"), STOP),
        ],
        [
            *(BEGAN, TextDelta("Look: ")),
            *(CallBegan(0, "t1", "f"), CallDelta(0, '{"a"'), CallDelta(0, ": 1}")),
            *(CallBegan(1, "t2", "g"), CallDelta(1, "{}"), Finished("tool_calls"), Ended()),
        ],
    ),
    "a call first, and no start": (
        [begin(0, "tool_use", id="t", name="f"), STOP],
        [CallBegan(0, "t", "f"), CallDelta(0, "{}"), Ended()],
    ),
    "thinking and its proof": (
        [
            *(start(), begin(0, "thinking", thinking="", signature="")),
            *(delta(0, "thinking", thinking="hm"), delta(0, "signature", signature="sig"), stop(0)),
            *(begin(1, "redacted_thinking", data="blob"), stop(1)),
            *(begin(2, "thinking", thinking="at once", signature="sig2"), stop(2)),
        ],
        [
            *(BEGAN, ThinkingDelta("hm"), ThinkingDelta("", signature="sig", signer="messages")),
            ThinkingDelta(redacted="blob", signer="messages"),
            ThinkingDelta("at once", signature="sig2", signer="messages"),
        ],
    ),
    "a refusal that is explained": (
        [start(), last("refusal", stop_details=DETAILS), STOP],
        [BEGAN, Finished("refusal", explanation="Not this."), Ended()],
    ),
    "a stop sequence is named": (
        [last("stop_sequence", stop_sequence="END")],
        [Finished("stop_sequence", "END")],
    ),
    "an error ends the stream": (
        [
            *(start(), {"type": "error", "error": {"type": "overloaded_error", "message": "Full"}}),
            *(words(0, "late"), STOP),
        ],
        [BEGAN, StreamFailed("overloaded_error", "Full")],
    ),
    "an empty error": ([{"type": "error", "error": {}}, STOP], [StreamFailed(None, UNKNOWN)]),
    "an error that is null": (
        [{"type": "error", "error": None}, STOP],
        [StreamFailed(None, UNKNOWN)],
    ),
    "a second start": (
        [start(), start(), begin(0, "text"), words(0, "a"), STOP],
        [BEGAN, TextDelta("a"), Ended()],
    ),
    "unknown events and deltas": (
        [
            *({"type": "news"}, {}, b"junk", b"[]", {"type": "content_block_delta"}),
            {"type": "content_block_start", "index": 0, "content_block": None},
            *({"type": "content_block_stop", "index": 99}, {"type": "message_start"}),
            {"type": "message_delta", "usage": "none"},
            *(delta(0, "citations", citation={}), delta(0, "telepathy", thought="x")),
            *(json_piece(7, "{"), STOP),
        ],
        [Began(None, None), Ended()],
    ),
    "events that are not as documented": (
        [of_block("0", ODD_TEXT), HALF],
        [TextDelta("a"), TextDelta("\ud83d")],
    ),
    "one that is not belongs to its block still": (
        [begin(1, "tool_use", id="t", name="f"), of_block(1, ODD_JSON), stop(1)],
        [CallBegan(0, "t", "f"), CallDelta(0, '{"a":1}')],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_read(name: str) -> None:
    datas, expected = STREAMS[name]
    assert events_from("messages", [SseEvent(b": hi\n\n", None), *sse(*datas)]) == expected


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
