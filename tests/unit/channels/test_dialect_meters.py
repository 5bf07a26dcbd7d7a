"""What the meters of all dialects have in common."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.meter import ResponseMeter
from channels.dialects.table import CHAT_DIALECTS
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from tests.support.rows import cases, each
from tests.unit.channels.replay import metered, new_meter

NAMES = sorted(CHAT_DIALECTS)


def of_body(name: str, value: object) -> ResponseMeter[Any]:
    meter = new_meter(name)
    meter.take_body(json.dumps(value).encode())
    return meter


@each("name", NAMES)
@each("body", [b"", b"null", b"7", b'"text"', b"[]", b"<html>", b"\xff", b"[7]"])
def test_body_that_is_no_object_is_malformed(name: str, body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        new_meter(name).take_body(body)


# Names that the meters look at, with values of any type.
READ = """
    type delta text thinking partial_json stop_reason usage message content_block error id model
    response item output output_index status incomplete_details reason code arguments summary name
    input_tokens output_tokens cache_read_input_tokens cache_creation total_tokens candidates parts
    input_tokens_details output_tokens_details content finishReason index usageMetadata args
    promptFeedback blockReason promptTokenCount candidatesTokenCount thoughtsTokenCount functionCall
    partialArgs executableCode choices response.completed response.output_item.done message_stop
    response.failed message_start content_block_delta message tool_calls function usage
    prompt_tokens completion_tokens finish_reason reasoning reasoning_content
"""
WORDS = st.sampled_from(READ.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.parametrize("name", NAMES)
@given(events=st.lists(VALUES, max_size=4), tail=st.binary(max_size=20))
def test_no_event_raises(name: str, events: list[Any], tail: bytes) -> None:
    meter = new_meter(name)
    for event in events:
        data = json.dumps(event).encode()
        meter.take_event(meter.read_event(data))
        meter.take_event(meter.read_event(data[:-1]))
        CHAT_DIALECTS[name].ends(data)
    meter.take_event(meter.read_event(tail))
    CHAT_DIALECTS[name].ends(tail)
    assert repr(meter).startswith("<")
    assert meter.partial_usage is None or meter.usage is None


@pytest.mark.parametrize("name", NAMES)
@given(body=VALUES.map(json.dumps))
def test_body_is_read_or_malformed(name: str, body: str) -> None:
    meter = new_meter(name)
    try:
        meter.take_body(body.encode())
    except UpstreamMalformed:
        assert not meter.finished
    else:
        assert meter.finished


@cases(
    "name, event",
    ("messages", {"type": "message_start", "message": {"id": "a\x00b", "model": "m" * 999}}),
    ("responses", {"type": "response.created", "response": {"id": "a\x00b", "model": "m" * 999}}),
    ("native", {"responseId": "a\x00b", "modelVersion": "m" * 999}),
)
def test_names_for_the_log_are_bounded_and_printable(name: str, event: dict[str, Any]) -> None:
    meter = metered(name, event, {"type": "message_start", "message": {"id": "later"}})
    assert meter.response_id == "a b"
    assert len(meter.response_model or "") == 256


PICTURE = "A" * 4_000_000
DRAWN = {"type": "image_generation_call", "result": PICTURE}
BESIDE = {"content": {"parts": [{"inlineData": {"data": PICTURE}}]}}


@cases(
    "name, event",
    ("messages", {"type": "content_block_start", "content_block": {"type": "x", "data": PICTURE}}),
    ("responses", {"type": "response.output_item.done", "output_index": 0, "item": DRAWN}),
    (
        "responses",
        {"type": "response.image_generation_call.partial_image", "partial_image_b64": PICTURE},
    ),
    ("native", {"candidates": [BESIDE]}),
)
def test_image_of_megabytes_costs_no_characters(name: str, event: dict[str, Any]) -> None:
    data = json.dumps(event).encode()
    meter = new_meter(name)
    meter.take_event(meter.read_event(data))
    assert (meter.characters, meter.malformed_events) == (0, 0)


@cases(
    "name, body, usage, characters, reason",
    (
        "messages",
        {
            "id": "a",
            "model": "x",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "Hello"},
                {"type": "tool_use", "name": "f", "input": {"a": [1, 2]}},
                {"type": "web_search_tool_result", "content": [{"title": "not output"}]},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 2,
                "output_tokens": 9,
            },
        },
        Usage(10, 9, cached_tokens=3, cache_write_tokens=2),
        3 + 5 + 1 + len('{"a":[1,2]}'),
        "tool_use",
    ),
    (
        "responses",
        {
            "id": "a",
            "model": "x",
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "image_generation_call", "result": "iVBORw0KGgo"},
                {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]},
                {"type": "message", "content": [{"type": "refusal", "refusal": "No"}]},
                {"type": "function_call", "name": "f", "arguments": '{"a": 1}'},
            ],
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 6},
            },
        },
        Usage(10, 9, cached_tokens=4, cache_write_tokens=1, reasoning_tokens=6),
        3 + 5 + 2 + 1 + 8,
        "completed",
    ),
    (
        "native",
        {
            "responseId": "a",
            "modelVersion": "x",
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "Hm.", "thought": True},
                            {"text": "Hello"},
                            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo"}},
                            {"functionCall": {"name": "f", "args": {"a": 1.50}}},
                        ]
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 10,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 3,
                "thoughtsTokenCount": 6,
                "toolUsePromptTokenCount": 2,
            },
        },
        Usage(12, 9, cached_tokens=4, reasoning_tokens=6),
        3 + 5 + 1 + len('{"a":1.5}'),
        "STOP",
    ),
)
def test_whole_answer_is_read(
    name: str, body: dict[str, Any], usage: Usage, characters: int, reason: str
) -> None:
    meter = of_body(name, body)
    assert (meter.usage, meter.characters, meter.finish_reason) == (usage, characters, reason)
    assert (meter.response_id, meter.response_model) == ("a", "x")
    assert meter.finished
    assert meter.error_seen is None


@cases(
    "name, body, code, message",
    ("messages", {"type": "error", "error": {"type": "t", "message": "It broke."}}, "t", None),
    ("responses", {"error": {"code": "c", "type": "t", "message": "It broke."}}, "c", None),
    ("responses", {"status": "failed", "error": None, "output": []}, "failed", "none"),
    ("native", {"error": {"code": 5, "status": "S", "message": "It broke."}}, "S", None),
    ("native", [{"error": {"code": 5, "message": "It broke."}}], "5", None),
    ("chat", {"error": {"code": 5, "message": "It broke."}}, "5", None),
)
def test_error_in_a_body_is_noted(name: str, body: object, code: str, message: str | None) -> None:
    if name == "chat":
        assert isinstance(body, dict)
    meter = of_body(name, body)
    assert meter.error_seen is not None
    assert meter.error_seen.code == code
    assert meter.error_seen.message == (None if message == "none" else "It broke.")
