"""The usage a chat-completions answer states: what counts as stated, and what it adds up to."""

from __future__ import annotations

import json

from channels.dialects.chat import ChatMeter
from channels.dialects.meter import PartialUsage, Usage
from tests.support.rows import cases, each
from tests.unit.channels.chat_bodies import metered


def usage_of(usage: object) -> Usage | None:
    return metered({"choices": [], "usage": usage}).usage


@cases(
    "stated, expected",
    ({"prompt_tokens": 3, "completion_tokens": 2}, Usage(3, 2)),
    ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
    (
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
        Usage(100, 50, cached_tokens=64, reasoning_tokens=40),
    ),
    (
        {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": None,
            "completion_tokens_details": {"reasoning_tokens": None},
        },
        Usage(3, 2),
    ),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 0},
            "prompt_cache_hit_tokens": 5,
        },
        Usage(9, 2),
    ),
    (
        {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 5},
        Usage(9, 2, cached_tokens=5),
    ),
    # A cache part larger than the whole cannot be priced as stated.
    (
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}},
        Usage(5, 2, cached_tokens=5),
    ),
    (
        {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5},
        },
        Usage(10, 2, cached_tokens=4, cache_write_tokens=5),
    ),
    (
        {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 9},
        },
        Usage(10, 2, cached_tokens=4, cache_write_tokens=6),
    ),
    # Cached tokens at the top: they count like those in the details, which come first.
    (
        {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "cached_tokens": 5},
        Usage(9, 2, cached_tokens=5),
    ),
    (
        {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "cached_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
        Usage(9, 2, cached_tokens=3),
    ),
    ({"prompt_tokens": 5, "total_tokens": 5}, Usage(5, 0)),
    ({"completion_tokens": 5, "total_tokens": 7}, Usage(2, 5)),
)
def test_usage_is_read_as_stated(stated: object, expected: Usage) -> None:
    assert usage_of(stated) == expected


@cases(
    "stated",
    {},
    [],
    7,
    "many",
    True,
    {"total_tokens": 0},
    {"total_tokens": -9},
    {"prompt_tokens": 3},
    {"completion_tokens": 3},
    {"prompt_tokens": None, "completion_tokens": None},
    {"prompt_tokens": -1, "completion_tokens": 2},
    {"prompt_tokens": 1, "completion_tokens": -2},
    {"prompt_tokens": 1.5, "completion_tokens": 2},
    {"prompt_tokens": "1", "completion_tokens": 2},
    {"prompt_tokens": True, "completion_tokens": 2},
    {"prompt_tokens": 10, "total_tokens": 5},
    {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": -1}},
    {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cache_write_tokens": -1},
    },
    {
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": -1},
    },
)
def test_malformed_usage_is_ignored_and_counted(stated: object) -> None:
    good = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    meter = metered(good, {"choices": [], "usage": stated})
    assert meter.usage == Usage(1, 1)
    assert meter.malformed_events == 1


def test_total_alone_is_a_part_of_a_usage() -> None:
    meter = metered({"choices": [], "usage": {"total_tokens": 9, "total_characters": 0}})
    assert (meter.usage, meter.partial_usage) == (None, PartialUsage(None, None, total_tokens=9))
    assert meter.malformed_events == 0


def test_number_too_large_to_read_is_no_usage() -> None:
    meter = metered(
        b'{"choices":[],"usage":{"prompt_tokens":1' + b"0" * 5000 + b',"completion_tokens":1}}',
        b'{"choices":[],"usage":{"prompt_tokens":1e400,"completion_tokens":1}}',
        b'{"choices":[],"usage":{"prompt_tokens":NaN,"completion_tokens":1}}',
    )
    assert meter.usage is None
    assert meter.malformed_events == 3


# How providers state reasoning: prompt, completion, reasoning, total, and what is billed as output.
CONVENTIONS = {
    "openai: inside the completion": (20, 300, 256, 320, 300),
    "deepseek: inside the completion": (15, 120, 100, 135, 120),
    "xai: beside the completion, in the total": (14, 9, 151, 174, 160),
    "more reasoning than completion, and the total says it is inside": (39, 1066, 1138, 1105, 1066),
    "without a total: nothing is added": (5, 3, 20, None, 3),
    "without a total, less reasoning than completion": (5, 30, 20, None, 30),
    "a total with less room than the reasoning": (5, 30, 20, 50, 30),
    "a total with more room than the reasoning": (5, 30, 20, 60, 50),
    "a total of the completion alone": (5, 30, 20, 30, 30),
}


@each("convention", CONVENTIONS.values())
def test_reasoning_is_added_only_where_the_total_says_it_comes_on_top(
    convention: tuple[int, int, int, int | None, int],
) -> None:
    prompt, completion, reasoning, total, output = convention
    stated: dict[str, object] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    if total is not None:
        stated["total_tokens"] = total
    assert usage_of(stated) == Usage(prompt, output, reasoning_tokens=min(reasoning, output))


STATED = {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}
OTHER = {"prompt_tokens": 80, "completion_tokens": 40, "total_tokens": 120}
LAST = {"index": 0, "delta": {}, "finish_reason": "stop"}


@cases(
    "last",
    {"choices": [{**LAST, "usage": STATED}]},
    {"choices": [LAST], "x_groq": {"id": "req_1", "usage": STATED}},
    {"choices": [LAST], "usage": None, "x_groq": {"id": "req_1", "usage": STATED}},
    # An id that is a number has the whole chunk read loosely.
    {"id": 7, "choices": [{**LAST, "usage": STATED}]},
    {"id": 7, "choices": [LAST], "x_groq": {"usage": STATED}},
)
def test_usage_elsewhere_counts_where_the_protocols_member_says_nothing(last: object) -> None:
    said = {"choices": [{"index": 0, "delta": {"content": "Hi"}}], "x_groq": {"id": "req_1"}}
    assert metered(said, last).usage == Usage(8, 4)
    own = {"choices": [], "usage": OTHER}
    assert metered(said, last, own).usage == Usage(80, 40)
    assert metered(said, own, last).usage == Usage(80, 40)


def test_whole_answer_may_state_its_usage_in_a_choice() -> None:
    meter = ChatMeter()
    choice = {"index": 0, "message": {"content": "Hi"}, "usage": STATED}
    meter.body(json.dumps({"choices": [choice]}).encode())
    assert meter.usage == Usage(8, 4)
