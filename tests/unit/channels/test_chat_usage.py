"""The usage a chat-completions answer states: what counts as stated, and what it adds up to."""

from __future__ import annotations

import pytest

from channels.usage import Usage
from tests.unit.channels.chat_bodies import metered


def usage_of(usage: object) -> Usage | None:
    return metered({"choices": [], "usage": usage}).usage


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
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
            {
                "prompt_tokens": 5,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 9},
            },
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
        # Thinking beside the completion, told by the total or by being more than all of it.
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 30,
                "total_tokens": 55,
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(5, 50, reasoning_tokens=20),
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 3,
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(5, 23, reasoning_tokens=20),
        ),
        ({"prompt_tokens": 5, "total_tokens": 5}, Usage(5, 0)),
        ({"completion_tokens": 5, "total_tokens": 7}, Usage(2, 5)),
    ],
)
def test_usage_is_read_as_stated(stated: object, expected: Usage) -> None:
    assert usage_of(stated) == expected


@pytest.mark.parametrize(
    "stated",
    [
        {},
        [],
        7,
        "many",
        True,
        {"total_tokens": 9},
        {"prompt_tokens": 3},
        {"completion_tokens": 3},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": 1, "completion_tokens": -2},
        {"prompt_tokens": 1.5, "completion_tokens": 2},
        {"prompt_tokens": "1", "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
        {"prompt_tokens": 10, "total_tokens": 5},
        {
            "prompt_tokens": 1,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": -1},
        },
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
    ],
)
def test_malformed_usage_is_ignored_and_counted(stated: object) -> None:
    good = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    meter = metered(good, {"choices": [], "usage": stated})
    assert meter.usage == Usage(1, 1)
    assert meter.malformed_events == 1


def test_number_too_large_to_read_is_no_usage() -> None:
    meter = metered(
        b'{"choices":[],"usage":{"prompt_tokens":1' + b"0" * 5000 + b',"completion_tokens":1}}',
        b'{"choices":[],"usage":{"prompt_tokens":1e400,"completion_tokens":1}}',
        b'{"choices":[],"usage":{"prompt_tokens":NaN,"completion_tokens":1}}',
    )
    assert meter.usage is None
    assert meter.malformed_events == 3
