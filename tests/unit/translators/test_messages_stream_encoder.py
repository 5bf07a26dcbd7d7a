"""Streams that messages clients get: order and indices, one block at a time, what is held back."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.messages.codec import StreamEncoder
from channels.dialects.meter import Usage
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    Media,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from tests.unit.translators.wire import data_of, names_of, written


def blocks(*events: Event) -> list[Any]:
    """Each block: its start, its deltas, its stop. Asserts that they follow one another."""
    found: list[Any] = []
    is_open = False
    for data in data_of(written("messages", events)):
        if data["type"] == "content_block_start":
            assert not is_open, "one block at a time"
            assert data["index"] == len(found), "numbered in order"
            is_open = True
            found.append([data["content_block"]])
        elif data["type"] == "content_block_delta":
            assert is_open, "deltas within a block"
            assert data["index"] == len(found) - 1, "deltas of the open block"
            found[-1].append(data["delta"])
        elif data["type"] == "content_block_stop":
            assert is_open, "one stop for a start"
            assert data["index"] == len(found) - 1, "the stop of the open block"
            is_open = False
    return found


def text(*pieces: str) -> list[Any]:
    start = {"type": "text", "text": ""}
    return [start, *({"type": "text_delta", "text": piece} for piece in pieces)]


def call(call_id: str, name: str, *pieces: str) -> list[Any]:
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return [start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces)]


def last(*events: Event) -> Any:
    """The message_delta."""
    return data_of(written("messages", events))[-2]


def test_stream_is_start_blocks_delta_stop() -> None:
    stream = written(
        "messages",
        [
            Began("x", "up"),
            TextDelta("Hi"),
            TextDelta("!"),
            Finished("stop"),
            UsageStated(Usage(30, 4, cached_tokens=20, cache_write_tokens=5)),
            Ended(),
        ],
    )
    assert names_of(stream) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start, *_, delta, _ = data_of(stream)
    assert start["message"] == {
        "id": "answer-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert delta == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {
            "input_tokens": 5,
            "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 20,
            "output_tokens": 4,
        },
    }


def test_usage_known_at_the_start_is_stated_there() -> None:
    start = data_of(written("messages", [UsageStated(Usage(3, 1)), TextDelta("a")]))[0]
    assert start["message"]["usage"]["input_tokens"] == 3


def test_nothing_is_written_before_there_is_something_to_say() -> None:
    one = StreamEncoder(id="a", created=1, model="m", include_usage=False)
    assert one.encode(Began("x", "up")) == b""
    assert one.encode(ThinkingDelta("hm")) == b""
    assert one.encode(Finished("stop")) == b""
    assert one.encode(TextDelta("")) == b""
    assert one.encode(TextDelta("a")) != b""


def test_cut_stream_has_no_stop() -> None:
    stream = written("messages", [TextDelta("a"), Finished("stop"), UsageStated(Usage(1, 1))])
    assert names_of(stream) == ["message_start", "content_block_start", "content_block_delta"]


def test_nothing_follows_the_end() -> None:
    stream = written("messages", [TextDelta("a"), Ended(), TextDelta("late"), Ended()])
    assert names_of(stream)[-1] == "message_stop"
    assert b"late" not in stream


def test_empty_answer_is_a_whole_stream() -> None:
    stream = written("messages", [Began(None, None), Finished("length"), Ended()])
    assert names_of(stream) == ["message_start", "message_delta", "message_stop"]


def test_calls_one_after_the_other_are_streamed_as_they_come() -> None:
    one = StreamEncoder(id="a", created=1, model="m", include_usage=False)
    one.encode(CallBegan(0, "c1", "f"))
    one.encode(CallDelta(0, '{"a": {}'))
    one.encode(CallDelta(0, "}"))
    began = one.encode(CallBegan(1, "c2", "g"))
    assert names_of(began) == ["content_block_stop", "content_block_start"]
    assert names_of(one.encode(CallDelta(1, "{}"))) == ["content_block_delta"]


THINKING = [
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "ab"},
    {"type": "signature_delta", "signature": "s"},
]
IMAGE = Media("image", None, url="https://a.example/x.png")

# name: events but for the last, and the blocks of their stream.
BLOCKS: dict[str, tuple[list[Event], list[Any]]] = {
    "a block ends where the kind changes": (
        [TextDelta("a"), CallBegan(0, "c1", "f"), CallDelta(0, "{}"), TextDelta("b")],
        [text("a"), call("c1", "f", "{}"), text("b")],
    ),
    "a call first": ([CallBegan(0, "c1", "f"), CallDelta(0, "{}")], [call("c1", "f", "{}")]),
    "the delta that caused the change is not lost": (
        [RefusalDelta("No"), RefusalDelta("."), TextDelta("Sorry")],
        [text("No", "."), text("Sorry")],
    ),
    "interleaved calls come one after the other": (
        [
            *(CallBegan(0, "c1", "f"), CallDelta(0, '{"a"')),
            *(CallBegan(1, "c2", "g"), CallDelta(1, '{"b"'), CallBegan(2, "c3", "h")),
            *(CallDelta(0, ":1}"), CallDelta(2, "{}"), CallDelta(1, ":2}"), Finished("tool_calls")),
        ],
        [
            *(call("c1", "f", '{"a"', ":1}"), call("c2", "g", '{"b"', ":2}")),
            call("c3", "h", "{}"),
        ],
    ),
    "text amid a call waits for its end": (
        [
            *(CallBegan(0, "c1", "f"), CallDelta(0, "{"), TextDelta("a"), TextDelta("b")),
            *(CallDelta(0, "}"), TextDelta("c")),
        ],
        [call("c1", "f", "{", "}"), text("a", "b", "c")],
    ),
    "calls without arguments": (
        [CallBegan(0, "c1", "f"), CallBegan(1, "c2", "g")],
        [call("c1", "f", "{}"), call("c2", "g", "{}")],
    ),
    "arguments that never become JSON still end": (
        [CallBegan(0, "c1", "f"), CallDelta(0, "{oops"), CallBegan(1, "c2", "g")],
        [call("c1", "f", "{oops"), call("c2", "g", "{}")],
    ),
    "a second start of a call is none": (
        [CallBegan(0, "c1", "f"), CallBegan(0, "c1", "f"), CallDelta(0, "{}")],
        [call("c1", "f", "{}")],
    ),
    "thinking with its proof only": (
        [
            *(ThinkingDelta("a"), ThinkingDelta("b")),
            ThinkingDelta(signature="s", signer="messages"),
            ThinkingDelta(redacted="blob", signer="messages"),
            *(ThinkingDelta("unproven"), TextDelta("x")),
        ],
        [THINKING, [{"type": "redacted_thinking", "data": "blob"}], text("x")],
    ),
    "an image is a link": (
        [TextDelta("See "), MediaDelta(IMAGE)],
        [text("See ", "![image](https://a.example/x.png)")],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_events_are_written_as_blocks(name: str) -> None:
    events, expected = BLOCKS[name]
    assert blocks(*events, Ended()) == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([Finished("length")], {"stop_reason": "max_tokens", "stop_sequence": None}),
        (
            [Finished("stop_sequence", "END")],
            {"stop_reason": "stop_sequence", "stop_sequence": "END"},
        ),
        (
            [CallBegan(0, "c", "f"), Finished("stop")],
            {"stop_reason": "tool_use", "stop_sequence": None},
        ),
        (
            [RefusalDelta("No."), Finished("stop")],
            {"stop_reason": "refusal", "stop_sequence": None},
        ),
        (
            [Finished("refusal", explanation="Not this.")],
            {
                "stop_reason": "refusal",
                "stop_sequence": None,
                "stop_details": {
                    "type": "refusal",
                    "category": None,
                    "explanation": "Not this.",
                },
            },
        ),
        ([], {"stop_reason": "end_turn", "stop_sequence": None}),
    ],
)
def test_finish_is_said_in_the_protocols_words(
    events: list[Event], expected: dict[str, Any]
) -> None:
    assert last(*events, Ended())["delta"] == expected


def test_error_is_the_protocols_own_and_ends_without_stop() -> None:
    stream = written("messages", [TextDelta("a"), StreamFailed("503", "Busy."), Ended()])
    assert names_of(stream)[-1] == "error"
    assert data_of(stream)[-1]["error"] == {"type": "overloaded_error", "message": "Busy."}
