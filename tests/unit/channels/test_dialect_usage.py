"""The usage that each of the other three dialects states, in every form it may take."""

from __future__ import annotations

from typing import Any

from channels.dialects.meter import PartialUsage, Usage
from tests.support.rows import cases, each
from tests.unit.channels.replay import metered


def test_running_counts_of_a_gemini_stream_replace_each_other() -> None:
    chunks = [
        {"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": count}}
        for count in (1, 4, 9)
    ]
    assert metered("native", *chunks).usage == Usage(5, 9)


@cases(
    "metadata, expected",
    ({"promptTokenCount": 5, "candidatesTokenCount": 0}, Usage(5, 0)),
    ({"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 99}, Usage(5, 2)),
    # More thoughts than candidates, and the total says that they are among them.
    (
        {
            "promptTokenCount": 5,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 9,
            "totalTokenCount": 12,
        },
        Usage(5, 7, reasoning_tokens=7),
    ),
    (
        {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 7},
        Usage(5, 9, reasoning_tokens=7),
    ),
    (
        {
            "promptTokenCount": 5,
            "candidatesTokenCount": 9,
            "thoughtsTokenCount": 7,
            "totalTokenCount": 14,
        },
        Usage(5, 9, reasoning_tokens=7),
    ),
    (
        {
            "promptTokenCount": 5,
            "toolUsePromptTokenCount": 10,
            "candidatesTokenCount": 9,
            "thoughtsTokenCount": 7,
            "totalTokenCount": 24,
        },
        Usage(15, 9, reasoning_tokens=7),
    ),
    (
        {"promptTokenCount": 5, "thoughtsTokenCount": 7, "totalTokenCount": 12},
        Usage(5, 7, reasoning_tokens=7),
    ),
    ({"promptTokenCount": 5, "totalTokenCount": 9}, Usage(5, 4)),
    (
        {"promptTokenCount": 5, "cachedContentTokenCount": 50, "candidatesTokenCount": 1},
        Usage(5, 1, cached_tokens=5),
    ),
    ({"trafficType": "ON_DEMAND"}, None),
    ({}, None),
    ({"promptTokenCount": "5", "candidatesTokenCount": 1}, None),
    ({"promptTokenCount": 5, "candidatesTokenCount": -1}, None),
)
def test_gemini_counts_are_made_into_a_usage(
    metadata: dict[str, Any], expected: Usage | None
) -> None:
    assert metered("native", {"usageMetadata": metadata}).usage == expected


@each(
    "usage, expected",
    [
        ({"input_tokens": 5, "output_tokens": 0}, Usage(5, 0)),
        ({"input_tokens": 5, "total_tokens": 7}, Usage(5, 2)),
        ({"output_tokens": 2, "total_tokens": 7}, Usage(5, 2)),
        (
            {
                "input_tokens": 5,
                "output_tokens": 2,
                "total_tokens": 11,
                "output_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(5, 6, reasoning_tokens=4),
        ),
        (
            {
                "input_tokens": 5,
                "output_tokens": 2,
                "input_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
            },
            Usage(5, 2, cached_tokens=5),
        ),
        ({"input_tokens": 5}, None),
        ({"input_tokens": 5, "output_tokens": "2"}, None),
        ({"input_tokens": 5, "output_tokens": -2}, None),
        (None, None),
    ],
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
