"""The meter, event by event; whole streams are in test_transcripts.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.chat import ChatMeter, ErrorEvent
from channels.dialects.meter import Usage
from channels.errors import UpstreamMalformed
from tests.support.rows import cases
from tests.unit.channels.chat_bodies import metered


def test_new_meter_has_read_nothing() -> None:
    meter = ChatMeter()
    assert (meter.usage, meter.characters, meter.finished) == (None, 0, False)
    assert (meter.finish_reason, meter.response_id, meter.response_model) == (None, None, None)
    assert (meter.error_seen, meter.malformed_events, meter.saw_content) == (None, 0, False)


def test_first_id_and_model_and_last_finish_reason_are_kept() -> None:
    meter = metered(
        {"id": "a", "model": "x", "choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"id": "b", "model": "y", "choices": [{"delta": {}, "finish_reason": "length"}]},
        {"choices": [{"delta": {}, "finish_reason": None}]},
    )
    assert (meter.response_id, meter.response_model) == ("a", "x")
    assert meter.finish_reason == "length"


def test_names_for_the_log_are_bounded_and_printable() -> None:
    meter = metered(
        {
            "id": "a\x00b",
            "model": "m" * 1000,
            "choices": [{"delta": {}, "finish_reason": "stop\n\x1b"}],
        }
    )
    assert meter.response_id == "a b"
    assert meter.response_model is not None
    assert len(meter.response_model) == 256
    assert "\x1b" not in (meter.finish_reason or "")


@cases("mark", b"[DONE]", b" [DONE]", b"[DONE] ")
def test_terminator_finishes(mark: bytes) -> None:
    meter = ChatMeter()
    assert meter.event(mark)
    assert meter.finished
    assert meter.malformed_events == 0


@cases(
    "event, is_forwarded",
    ({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, False),
    ({"choices": None, "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, False),
    ({"usage": {"prompt_tokens": 1, "completion_tokens": 2}}, False),
    ({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": 2}}, False),
    ({"choices": [], "usage": None}, True),
    ({"choices": []}, True),
    ({}, True),
    ({"choices": [{"delta": {}}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, True),
    (
        {
            "error": {"message": "x"},
            "choices": [],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        },
        True,
    ),
    ({"id": 7, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, False),
    ({"id": 7, "choices": [{}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, True),
)
def test_only_the_chunk_of_usage_alone_is_withheld(event: object, is_forwarded: bool) -> None:
    assert ChatMeter().event(json.dumps(event).encode()) is is_forwarded


@cases(
    "error, expected",
    ({"message": "m", "code": "c", "type": "t"}, ErrorEvent("c", "m")),
    ({"message": "m", "type": "t", "code": None}, ErrorEvent("t", "m")),
    ({"message": "m", "code": 502}, ErrorEvent("502", "m")),
    ({"code": {"a": 1}}, ErrorEvent(None, None)),
    ("m", ErrorEvent(None, "m")),
    ({"message": "x" * 5000}, ErrorEvent(None, "x" * 499 + "…")),
    (True, ErrorEvent(None, None)),
    (None, None),
    ("", None),
    ({}, None),
)
def test_error_event_is_noted_and_forwarded(error: object, expected: ErrorEvent | None) -> None:
    meter = ChatMeter()
    assert meter.event(json.dumps({"error": error}).encode())
    assert meter.error_seen == expected


@cases(
    "base_resp, expected",
    ({"status_code": 1008, "status_msg": "No balance."}, ErrorEvent("1008", "No balance.")),
    ({"status_code": "1026"}, ErrorEvent("1026", None)),
    ({"status_code": 0, "status_msg": "success"}, None),
    ({"status_code": None}, None),
    ({}, None),
    ([1008], None),
    ("No balance.", None),
    (None, None),
)
@cases("choices", None, [])
def test_error_in_base_resp_is_noted(
    choices: object, base_resp: object, expected: ErrorEvent | None
) -> None:
    event = {"id": "1", "model": "m", "choices": choices, "base_resp": base_resp}
    meter = ChatMeter()
    assert meter.event(json.dumps(event).encode())
    assert meter.error_seen == expected
    loosely = ChatMeter()
    assert loosely.event(json.dumps(event | {"id": 7}).encode())
    assert loosely.error_seen == expected


BARE = {"object": "error", "message": "Service unavailable.", "type": "x", "code": "1100"}


@cases(
    "event, expected",
    (BARE, ErrorEvent("1100", "Service unavailable.")),
    ({**BARE, "id": 7}, ErrorEvent("1100", "Service unavailable.")),
    ({"code": 50505, "message": "Busy.", "data": None}, ErrorEvent("50505", "Busy.")),
    ({"code": 0, "message": None}, None),
    ({"message": "Hello."}, None),
    ({"code": 20012}, None),
    ({"code": 1, "message": "m", "choices": [{"delta": {"content": "a"}}]}, None),
)
def test_error_with_nothing_around_it_is_noted(
    event: dict[str, Any], expected: ErrorEvent | None
) -> None:
    assert metered(event).error_seen == expected


def test_base_resp_beside_choices_is_no_error_of_the_response() -> None:
    choice = {"delta": {"content": "ab"}, "finish_reason": "content_filter"}
    meter = metered({"choices": [choice], "base_resp": {"status_code": 1027}})
    assert (meter.characters, meter.error_seen) == (2, None)


def test_what_a_stream_says_once_more_is_counted_once() -> None:
    """MiniMax ends a stream with the whole message, others repeat it as far as it has come."""
    first = {"delta": {"content": "ab"}, "message": {"content": "ab"}}
    second = {"delta": {"content": "cd"}, "message": {"content": "abcd"}}
    last = {"message": {"content": "abcd"}, "finish_reason": "stop"}
    chunks = [{"choices": [one]} for one in (first, second, last)]
    assert metered(*chunks).characters == 4
    assert metered(chunks[2]).characters == 4
    whole = ChatMeter()
    whole.body(json.dumps({"choices": [last, {"message": {"content": "ef"}}]}).encode())
    assert whole.characters == 6


def test_error_beside_choices_counts_both() -> None:
    meter = metered(
        {"choices": [{"delta": {"content": "ab"}, "finish_reason": "error"}], "error": {"code": 5}}
    )
    assert (meter.characters, meter.finish_reason) == (2, "error")
    assert meter.error_seen == ErrorEvent("5", None)


@cases(
    "event", b"", b" ", b"[]", b"null", b"1", b'"x"', b"\xff", b'{"a":', b"[" * 100_000, b"data: {}"
)
def test_event_that_is_no_object_is_passed_on_and_counted(event: bytes) -> None:
    meter = ChatMeter()
    assert meter.event(event)
    assert meter.malformed_events == 1
    assert (meter.characters, meter.usage, meter.finished) == (0, None, False)


def test_text_that_cannot_be_decoded_still_counts() -> None:
    meter = metered(
        b'{"choices":[{"delta":{"content":"ab\xff"}}]}',
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"tab\tbed"}}]}',
        b'{"choices":[{"delta":{"content":"its brackets are not closed"}}',
    )
    assert meter.characters == 3 + 1 + 7 + 27
    assert meter.malformed_events == 0


def test_thought_is_counted_under_either_name_once() -> None:
    both = {"reasoning_content": "hm", "reasoning": "hm"}
    empty = {"reasoning_content": "", "reasoning": "hmm"}
    assert metered({"choices": [{"delta": both}, {"delta": empty}]}).characters == 2 + 3


def test_deep_nesting_beside_the_text_does_not_raise() -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    meter = metered(b'{"choices":[{"delta":{"content":"ab","x":' + deep + b"}}]}")
    assert meter.malformed_events == 1


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "message",
                        "content",
                        "tool_calls",
                        "function",
                        "arguments",
                        "usage",
                        "error",
                        "id",
                        "prompt_tokens",
                        "completion_tokens",
                        "finish_reason",
                        "reasoning",
                        "total_tokens",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_event_raises(value: Any) -> None:
    meter = ChatMeter()
    meter.event(json.dumps(value).encode())
    assert meter.characters >= 0
    for wrapped in ({"choices": value}, {"choices": [value]}, {"usage": value}, {"error": value}):
        meter.event(json.dumps(wrapped).encode())
    repr(meter)


@settings(deadline=None)
@given(st.binary(max_size=50))
def test_no_bytes_raise(data: bytes) -> None:
    ChatMeter().event(data)


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), max_size=5))
def test_characters_are_code_points(texts: list[str]) -> None:
    meter = metered(*({"choices": [{"delta": {"content": text}}]} for text in texts))
    assert meter.characters == sum(map(len, texts))


# Whole answers.


def answer(message: object, **more: object) -> ChatMeter:
    meter = ChatMeter()
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    meter.body(json.dumps({"id": "a", "model": "m", "choices": [choice], **more}).encode())
    return meter


def test_whole_answer_is_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "fn", "arguments": '{"a":1}'}}
    meter = answer(
        {"role": "assistant", "content": "Grüße", "tool_calls": [call], "reasoning_content": "hm"},
        usage={"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12},
    )
    assert meter.characters == 5 + 2 + 7 + 2
    assert meter.usage == Usage(3, 9)
    assert (meter.finished, meter.finish_reason, meter.saw_content) == (True, "stop", True)
    assert "finished" in repr(meter)


def test_whole_answer_without_usage_is_still_finished() -> None:
    meter = answer({"role": "assistant", "content": None})
    assert (meter.finished, meter.usage, meter.characters) == (True, None, 0)


def test_whole_answer_in_odd_shapes_is_read_loosely() -> None:
    meter = answer({"content": [{"type": "text", "text": "abc"}]}, id=7, usage={})
    assert (meter.characters, meter.finished, meter.malformed_events) == (3, True, 1)


@cases(
    "body",
    b"",
    b"<html></html>",
    b"[]",
    b"null",
    b'"text"',
    b"data: {}\n\n",
    b'{"id":',
    b"\x1f\x8b",
)
def test_whole_answer_that_is_no_object_is_malformed(body: bytes) -> None:
    meter = ChatMeter()
    with pytest.raises(UpstreamMalformed):
        meter.body(body)
    assert not meter.finished
