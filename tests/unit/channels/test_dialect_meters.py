"""What the meters of all dialects have in common, and the usage that each states."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.meter import ResponseMeter
from channels.dialects.table import CHAT_DIALECTS
from channels.dialects.token_counts import PartialUsage, Usage, UsageParts
from channels.errors import UpstreamMalformed
from tests.support.rows import cases, each
from tests.unit.channels.replay import metered, new_meter

NAMES = sorted(CHAT_DIALECTS)


def of_body(name: str, value: object) -> ResponseMeter[Any]:
    meter = new_meter(name)
    meter.body(json.dumps(value).encode())
    return meter


@each("name", NAMES)
@each("body", [b"", b"null", b"7", b'"text"', b"[]", b"<html>", b"\xff", b"[7]"])
def test_body_that_is_no_object_is_malformed(name: str, body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        new_meter(name).body(body)


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
        meter.take(meter.read(data))
        meter.take(meter.read(data[:-1]))
        CHAT_DIALECTS[name].ends(data)
    meter.take(meter.read(tail))
    CHAT_DIALECTS[name].ends(tail)
    assert repr(meter).startswith("<")
    assert meter.partial_usage is None or meter.usage is None


@pytest.mark.parametrize("name", NAMES)
@given(body=VALUES.map(json.dumps))
def test_body_is_read_or_malformed(name: str, body: str) -> None:
    meter = new_meter(name)
    try:
        meter.body(body.encode())
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
    meter.take(meter.read(data))
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


# --- The usage that each of the other three dialects states, in every form it may take ---


def test_running_counts_of_a_gemini_stream_replace_each_other() -> None:
    chunks = [{"usageMetadata": counts(5, count)} for count in (1, 4, 9)]
    assert metered("native", *chunks).usage == Usage(5, 9)


def counts(prompt: object, candidates: int | None = None, **more: int) -> dict[str, Any]:
    """A gemini usage; further counts by the beginnings of their names."""
    found = {"prompt": prompt, "candidates": candidates, **more}
    return {f"{name}TokenCount": count for name, count in found.items() if count is not None}


@cases(
    "metadata, expected",
    (counts(5, 0), Usage(5, 0)),
    (counts(5, 2, total=99), Usage(5, 2)),
    # More thoughts than candidates, and the total says that they are among them.
    (counts(5, 7, thoughts=9, total=12), Usage(5, 7, reasoning_tokens=7)),
    (counts(5, 2, thoughts=7), Usage(5, 9, reasoning_tokens=7)),
    (counts(5, 9, thoughts=7, total=14), Usage(5, 9, reasoning_tokens=7)),
    (counts(5, 9, toolUsePrompt=10, thoughts=7, total=24), Usage(15, 9, reasoning_tokens=7)),
    (counts(5, thoughts=7, total=12), Usage(5, 7, reasoning_tokens=7)),
    (counts(5, total=9), Usage(5, 4)),
    (counts(5, 1) | {"cachedContentTokenCount": 50}, Usage(55, 1, cached_tokens=50)),
    ({"trafficType": "ON_DEMAND"}, None),
    ({}, None),
    (counts("5", 1), Usage(5, 1)),
    (counts(5, -1), None),
)
def test_gemini_counts_are_made_into_a_usage(
    metadata: dict[str, Any], expected: Usage | None
) -> None:
    assert metered("native", {"usageMetadata": metadata}).usage == expected


def counted(taken: object, given: object, **more: Any) -> dict[str, Any]:
    """A usage of responses; what is None is not stated."""
    found = {"input_tokens": taken, "output_tokens": given, **more}
    return {name: count for name, count in found.items() if count is not None}


WRITTEN = {"cached_tokens": 9, "cache_write_tokens": 9}


@cases(
    "usage, expected",
    (counted(5, 0), Usage(5, 0)),
    (counted(5, None, total_tokens=7), Usage(5, 2)),
    (counted(None, 2, total_tokens=7), Usage(5, 2)),
    (
        counted(5, 2, total_tokens=11, output_tokens_details={"reasoning_tokens": 4}),
        Usage(5, 6, reasoning_tokens=4),
    ),
    (
        counted(5, 2, input_tokens_details=WRITTEN),
        Usage(23, 2, cached_tokens=9, cache_write_tokens=9),
    ),
    (counted(5, "2"), Usage(5, 2)),
    (counted(5, -2), None),
    (None, None),
)
@each("end", ["completed", "incomplete", "failed"])
def test_responses_usage_is_read_from_every_last_event(
    end: str, usage: object, expected: Usage | None
) -> None:
    response = {"status": end, "usage": usage}
    meter = metered("responses", {"type": f"response.{end}", "response": response})
    assert (meter.usage, meter.finished) == (expected, True)
    assert meter.malformed_events == (expected is None and usage is not None)
    assert (meter.error_seen is not None) == (end == "failed")


def test_last_event_without_its_answer_still_ends_a_responses_stream() -> None:
    assert metered("responses", {"type": "response.completed"}).finished
    assert metered("responses", {"type": "response.completed", "response": 7}).malformed_events == 1


def test_cut_messages_stream_tells_its_input() -> None:
    """Contract §7: a messages stream cut early takes its input from its beginning."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}
    start = {"type": "message_start", "message": {"usage": usage}}
    meter = metered("messages", start, {"delta": {"text": "abc"}})
    assert meter.usage is None
    assert meter.partial_usage == PartialUsage(Usage(12, 0, cached_tokens=7), None)


@each("name", ["server_tool_use", "service_tier", "speed", "inference_geo", "iterations", "other"])
@each("broken", ["x", 5, [5], {"web_search_requests": "x"}])
def test_a_malformed_member_of_a_usage_hides_no_other(name: str, broken: Any) -> None:
    stated = {
        "input_tokens": 10,
        "output_tokens": 9,
        "server_tool_use": {"web_search_requests": 3},
        "service_tier": "priority",
        "inference_geo": "us",
        "iterations": [{"type": "advisor_message", "output_tokens": 7}],
    }
    parts: dict[str, dict[str, Any]] = {
        "server_tool_use": {"web_searches": 3},
        "service_tier": {"service_tier": "priority"},
        "inference_geo": {"region": "us"},
        "iterations": {"advisor_tokens": 7},
    }
    is_text = broken == "x" and name in ("service_tier", "speed", "inference_geo")
    if is_text:
        broken = "global"  # a text is no fault there
    left = {key: value for one, read in parts.items() if one != name for key, value in read.items()}
    meter = metered("messages", {"type": "message_delta", "usage": {**stated, name: broken}})
    assert meter.usage == Usage(10, 9, parts=UsageParts(**left))
    assert meter.malformed_events == int(not is_text and name != "other")


def test_the_region_and_the_adviser_of_a_stream_may_come_with_its_end() -> None:
    advised = {"input_tokens": 800, "cache_read_input_tokens": 7, "output_tokens": 531}
    start = {"input_tokens": 10, "output_tokens": 1, "inference_geo": "not_available"}
    iterations = [
        {"type": "message", "input_tokens": 10, "output_tokens": 9},
        {"type": "advisor_message", "model": "a", **advised},
    ]
    end = {"output_tokens": 9, "inference_geo": "us", "iterations": iterations}
    meter = metered(
        "messages",
        {"type": "message_start", "message": {"id": "m", "model": "m", "usage": start}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end},
    )
    assert meter.usage == Usage(10, 9, parts=UsageParts(region="us", advisor_tokens=1338))
