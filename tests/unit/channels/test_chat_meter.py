"""The chat-completions meter, event by event; whole streams are in test_transcripts.py."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.chat.meter import ChatMeter
from channels.dialects.meter import ErrorEvent
from channels.dialects.token_counts import PartialUsage, Usage
from tests.support.nesting import BOTTOMLESS
from tests.support.rows import cases, each
from tests.unit.channels.chat_bodies import metered


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
    assert meter.take_event(meter.read_event(mark))
    assert meter.finished
    assert meter.malformed_events == 0


COUNTS = {"prompt_tokens": 1, "completion_tokens": 2}


@cases(
    "event, is_forwarded",
    ({"choices": [], "usage": COUNTS}, False),
    ({"choices": None, "usage": COUNTS}, False),
    ({"usage": COUNTS}, False),
    ({"choices": [], "usage": {**COUNTS, "prompt_tokens": -1}}, False),
    ({"choices": [], "usage": None}, True),
    ({"choices": []}, True),
    ({}, True),
    ({"choices": [{"delta": {}}], "usage": COUNTS}, True),
    ({"error": {"message": "x"}, "choices": [], "usage": COUNTS}, True),
    ({"id": 7, "choices": [], "usage": COUNTS}, False),
    ({"id": 7, "choices": [{}], "usage": COUNTS}, True),
)
def test_only_the_chunk_of_usage_alone_is_withheld(event: object, is_forwarded: bool) -> None:
    assert ChatMeter().take_event(ChatMeter.read_event(json.dumps(event).encode())) is is_forwarded


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
    assert meter.take_event(meter.read_event(json.dumps({"error": error}).encode()))
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
    assert meter.take_event(meter.read_event(json.dumps(event).encode()))
    assert meter.error_seen == expected
    loosely = ChatMeter()
    assert loosely.take_event(loosely.read_event(json.dumps(event | {"id": 7}).encode()))
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
    whole.take_body(json.dumps({"choices": [last, {"message": {"content": "ef"}}]}).encode())
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
    assert meter.take_event(meter.read_event(event))
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
    deep = b"[" * BOTTOMLESS + b"]" * BOTTOMLESS
    meter = metered(b'{"choices":[{"delta":{"content":"ab","x":' + deep + b"}}]}")
    assert meter.malformed_events == 1


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), max_size=5))
def test_characters_are_code_points(texts: list[str]) -> None:
    meter = metered(*({"choices": [{"delta": {"content": text}}]} for text in texts))
    assert meter.characters == sum(map(len, texts))


def response_of(message: object, **more: object) -> ChatMeter:
    meter = ChatMeter()
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    meter.take_body(json.dumps({"id": "a", "model": "m", "choices": [choice], **more}).encode())
    return meter


def test_whole_answer_is_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "fn", "arguments": '{"a":1}'}}
    meter = response_of(
        {"role": "assistant", "content": "Grüße", "tool_calls": [call], "reasoning_content": "hm"},
        usage={"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12},
    )
    assert meter.characters == 5 + 2 + 7 + 2
    assert meter.usage == Usage(3, 9)
    assert (meter.finished, meter.finish_reason, meter.characters > 0) == (True, "stop", True)
    assert "finished" in repr(meter)


def test_whole_answer_in_odd_shapes_is_read_loosely() -> None:
    meter = response_of({"content": [{"type": "text", "text": "abc"}]}, id=7, usage={})
    assert (meter.characters, meter.finished, meter.malformed_events) == (3, True, 1)


def usage_of(usage: object) -> Usage | None:
    return metered({"choices": [], "usage": usage}).usage


def stated(prompt: object, completion: object, **more: object) -> dict[str, object]:
    """A usage; `cached`, `written` and `reasoning` are members of its details."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    inner = {"cached": "cached_tokens", "written": "cache_write_tokens"}
    details = {inner[name]: more.pop(name) for name in inner.keys() & more.keys()}
    if details:
        usage["prompt_tokens_details"] = details
    if "reasoning" in more:
        usage["completion_tokens_details"] = {"reasoning_tokens": more.pop("reasoning")}
    return usage | more


@cases(
    "usage, expected",
    (stated(3, 2), Usage(3, 2)),
    (stated(0, 0), Usage(0, 0)),
    (
        stated(100, 50, total_tokens=150, cached=64, reasoning=40),
        Usage(100, 50, cached_tokens=64, reasoning_tokens=40),
    ),
    (stated(3, 2, prompt_tokens_details=None, reasoning=None), Usage(3, 2)),
    (stated(9, 2, cached=0, prompt_cache_hit_tokens=5), Usage(9, 2)),
    (stated(9, 2, prompt_cache_hit_tokens=5), Usage(9, 2, cached_tokens=5)),
    (stated(10, 2, cached=4, written=5), Usage(10, 2, cached_tokens=4, cache_write_tokens=5)),
    (stated(10, 2, cached=4, written=9), Usage(10, 2, cached_tokens=4, cache_write_tokens=6)),
    # Cached tokens at the top: they count like those in the details, which come first.
    (stated(9, 2, total_tokens=11, cached_tokens=5), Usage(9, 2, cached_tokens=5)),
    (stated(9, 2, cached_tokens=5, cached=3), Usage(9, 2, cached_tokens=3)),
    ({"prompt_tokens": 5, "total_tokens": 5}, Usage(5, 0)),
    ({"completion_tokens": 5, "total_tokens": 7}, Usage(2, 5)),
)
def test_usage_is_read_as_stated(usage: object, expected: Usage) -> None:
    assert usage_of(usage) == expected


@cases(
    "usage",
    *({}, [], 7, "many", True),
    {"total_tokens": 0},
    {"total_tokens": -9},
    stated(None, None),
)
def test_malformed_usage_is_ignored_and_counted(usage: object) -> None:
    meter = metered({"choices": [], "usage": stated(1, 1)}, {"choices": [], "usage": usage})
    assert meter.usage == Usage(1, 1)
    assert meter.malformed_events == 1


@cases(
    "usage, is_malformed, expected",
    ({"prompt_tokens": 3}, False, Usage(3, 1)),
    ({"completion_tokens": 3}, False, Usage(1, 3)),
    ({"prompt_tokens": 10, "total_tokens": 5}, False, Usage(10, 1)),
    (stated("1", 2.0), False, Usage(1, 2)),
    (stated(-1, 2), True, Usage(1, 2)),
    (stated(1, -2), True, Usage(1, 1)),
    (stated(1.5, 2), True, Usage(1, 2)),
    (stated(True, 2), True, Usage(1, 2)),
    (stated(1, 2, cached=-1), True, Usage(1, 2)),
    (stated(1, 2, written=-1), True, Usage(1, 2)),
    (stated(1, 2, reasoning=-1), True, Usage(1, 2)),
)
def test_what_can_be_read_of_a_usage_counts(
    usage: object, is_malformed: bool, expected: Usage
) -> None:
    meter = metered({"choices": [], "usage": stated(1, 1)}, {"choices": [], "usage": usage})
    assert meter.usage == expected
    assert meter.malformed_events == is_malformed


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
    assert (meter.usage, meter.partial_usage) == (None, PartialUsage(None, 1))
    assert meter.malformed_events == 2  # NaN is null


# How providers state reasoning: prompt, completion, reasoning, total, and what is billed as output.
CONVENTIONS = {
    "openai: inside the completion": (20, 300, 256, 320, 300),
    "deepseek: inside the completion": (15, 120, 100, 135, 120),
    "xai: beside the completion, in the total": (14, 9, 151, 174, 160),
    "more reasoning than completion, and the total says it is inside": (39, 1066, 1138, 1105, 1066),
    "without a total, more reasoning than completion": (5, 3, 20, None, 23),
    "without a total, less reasoning than completion": (5, 30, 20, None, 30),
    "a total with less room than the reasoning": (5, 30, 20, 50, 30),
    "a total with more room than the reasoning": (5, 30, 20, 60, 50),
    "a total of the completion alone": (5, 30, 20, 30, 30),
}


@each("convention", CONVENTIONS.values())
def test_reasoning_is_added_where_the_total_or_its_size_says_it_comes_on_top(
    convention: tuple[int, int, int, int | None, int],
) -> None:
    prompt, completion, reasoning, total, output = convention
    more = {} if total is None else {"total_tokens": total}
    usage = stated(prompt, completion, reasoning=reasoning, **more)
    assert usage_of(usage) == Usage(prompt, output, reasoning_tokens=min(reasoning, output))


STATED, OTHER = stated(8, 4, total_tokens=12), stated(80, 40, total_tokens=120)
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
    output = {"choices": [{"index": 0, "delta": {"content": "Hi"}}], "x_groq": {"id": "req_1"}}
    assert metered(output, last).usage == Usage(8, 4)
    own = {"choices": [], "usage": OTHER}
    assert metered(output, last, own).usage == Usage(80, 40)
    assert metered(output, own, last).usage == Usage(80, 40)


def test_whole_answer_may_state_its_usage_in_a_choice() -> None:
    meter = ChatMeter()
    choice = {"index": 0, "message": {"content": "Hi"}, "usage": STATED}
    meter.take_body(json.dumps({"choices": [choice]}).encode())
    assert meter.usage == Usage(8, 4)
