"""The usage that each of three dialects states, in every form it may take."""

import json
from typing import Any

from msgspec.structs import replace

from channels.dialects.token_counts import PartialUsage, Usage, UsageParts
from tests.support.rows import cases, each
from tests.unit.channels.replay import metered, new_meter


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


OPENAI = {"prompt_tokens": 100, "completion_tokens": 9}
OPENAI_DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 80},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
INPUT = {"input_tokens": 100, "output_tokens": 9}
INPUT_DETAILS = {
    "input_tokens_details": {"cached_tokens": 80},
    "output_tokens_details": {"reasoning_tokens": 4},
}
WHOLE = Usage(100, 9)
DETAILED = Usage(100, 9, cached_tokens=80, reasoning_tokens=4)
MESSAGES_CACHE = {"cache_read_input_tokens": 80}
ENVELOPES: dict[str, Any] = {
    "chat": lambda usage: {"choices": [{"delta": {}}], "usage": usage},
    "responses": lambda usage: {
        "type": "response.completed",
        "response": {"status": "completed", "output": [], "usage": usage},
    },
    "messages": lambda usage: {"type": "message_delta", "delta": {}, "usage": usage},
    "native": lambda usage: {"usage": usage, "usageMetadata": {"trafficType": "ON_DEMAND"}},
}
BODIES: dict[str, Any] = {
    **ENVELOPES,
    "responses": lambda usage: {"status": "completed", "output": [], "usage": usage},
    "messages": lambda usage: {"type": "message", "content": [], "usage": usage},
}
UNFILLED = {"prompt_tokens": None, "completion_tokens": 0, "prompt_tokens_details": None}


@cases(
    "protocols, usage, expected",
    (("chat", "native"), INPUT, WHOLE),
    (("chat", "native"), INPUT | INPUT_DETAILS, DETAILED),
    (("chat", "native"), INPUT | INPUT_DETAILS | UNFILLED, DETAILED),
    (("chat", "responses"), INPUT | OPENAI | INPUT_DETAILS | OPENAI_DETAILS, DETAILED),
    # By the names of messages alone the cache is beside the input, unless a total says otherwise.
    (("chat",), INPUT | MESSAGES_CACHE, Usage(180, 9, cached_tokens=80)),
    (("chat",), INPUT | MESSAGES_CACHE | {"total_tokens": 109}, Usage(100, 9, cached_tokens=80)),
    (("chat",), OPENAI | INPUT | MESSAGES_CACHE, Usage(100, 9, cached_tokens=80)),
    (("chat",), INPUT | {"prompt_tokens": -1, "total_tokens": "109"}, WHOLE),
    (("responses", "messages", "native"), OPENAI, WHOLE),
    (("responses", "messages", "native"), OPENAI | OPENAI_DETAILS, DETAILED),
    (("responses", "messages"), OPENAI | {"input_tokens": 0, "output_tokens": 0}, WHOLE),
    (("messages",), OPENAI | MESSAGES_CACHE, Usage(100, 9, cached_tokens=80)),
    (("messages",), OPENAI | INPUT | OPENAI_DETAILS, DETAILED),
    (("messages",), INPUT | INPUT_DETAILS, DETAILED),
    (("messages",), INPUT | INPUT_DETAILS | MESSAGES_CACHE, replace(DETAILED, input_tokens=180)),
    (
        ("messages",),
        OPENAI | {"prompt_tokens": 7} | MESSAGES_CACHE,
        Usage(87, 9, cached_tokens=80),
    ),
)
def test_a_usage_by_the_names_of_another_protocol_is_read(
    protocols: tuple[str, ...], usage: dict[str, Any], expected: Usage
) -> None:
    for protocol in protocols:
        assert metered(protocol, ENVELOPES[protocol](usage)).usage == expected, protocol
        meter = new_meter(protocol)
        meter.take_body(json.dumps(BODIES[protocol](usage)).encode())
        assert meter.usage == expected, protocol


def test_an_input_by_another_name_counts_once_however_it_is_divided() -> None:
    start = {"type": "message_start", "message": {"usage": {"prompt_tokens": 100}}}
    end = {"type": "message_delta", "usage": {"completion_tokens": 9, **MESSAGES_CACHE}}
    assert metered("messages", start, end).usage == Usage(100, 9, cached_tokens=80)
    chunks = map(ENVELOPES["chat"], (OPENAI, INPUT, OPENAI))
    assert metered("chat", *chunks).usage == WHOLE


def test_last_event_without_its_answer_still_ends_a_responses_stream() -> None:
    assert metered("responses", {"type": "response.completed"}).finished
    assert metered("responses", {"type": "response.completed", "response": 7}).malformed_events == 1


def test_cut_messages_stream_tells_its_input() -> None:
    """A messages stream cut early takes its input from its beginning (reference 5.6)."""
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
