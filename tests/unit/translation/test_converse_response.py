"""Responses of Bedrock's Converse as messages, whole and in streams."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from channels.dialects.messages import converse_decoder
from channels.dialects.messages.converse_response import ConverseStream, messages_body
from channels.dialects.messages.meter import MessagesMeter
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventStreamDecoder
from channels.json.lenient import read_json
from loadtests.simulator.cloud import bedrock
from tests.support.rows import cases
from tests.unit.translation.odd_values import ODD, places, replaced
from tests.unit.translation.pieces import assistant, use
from tests.unit.translation.test_converse_request import shape

USAGE = {
    "inputTokens": 5,
    "outputTokens": 7,
    "totalTokens": 22,
    "cacheReadInputTokens": 8,
    "cacheWriteInputTokens": 2,
}
WHOLE = {
    "output": {
        "message": assistant(
            [
                {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}},
                {"text": "Grüße"},
                {"toolUse": {"toolUseId": "t-1", "name": "weather", "input": {"city": "Z"}}},
                {"reasoningContent": {"redactedContent": "ZA=="}},
                {"citationsContent": {}},
            ]
        )
    },
    "stopReason": "tool_use",
    "usage": USAGE,
    "metrics": {"latencyMs": 5},
}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("messageStart", {"role": "assistant"}),
    *[
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": thought}})
        for thought in ({"text": "H"}, {"text": "m"}, {"signature": "s"})
    ],
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Grü"}}),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "ße"}}),
    ("contentBlockStop", {"contentBlockIndex": 1}),
    (
        "contentBlockStart",
        {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t-1", "name": "weather"}}},
    ),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"city":'}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '"Z"}'}}}),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    (
        "contentBlockDelta",
        {"contentBlockIndex": 3, "delta": {"reasoningContent": {"redactedContent": "ZA=="}}},
    ),
    ("contentBlockStop", {"contentBlockIndex": 3}),
    ("later", {"what": "is not known yet"}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}}),
]
BLOCKS = [
    {"type": "thinking", "thinking": "Hm", "signature": "s"},
    {"type": "text", "text": "Grüße"},
    use("t-1", {"city": "Z"}, name="weather"),
    {"type": "redacted_thinking", "data": "ZA=="},
]
STATED = Usage(15, 7, cached_tokens=8, cache_write_tokens=2)


def streamed(events: Sequence[tuple[str, Any]], *, size: int = 10_000) -> list[dict[str, Any]]:
    """The data of the server-sent events that a stream becomes."""
    stream = b"".join(bedrock.stream_event(kind, json.dumps(one).encode()) for kind, one in events)
    decoder = EventStreamDecoder(ConverseStream("1", "nova"))
    found = [decoder.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    if decoder.fault is not None:
        raise decoder.fault
    lines = b"".join([*found, decoder.end()]).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]


def rebuilt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of a stream; each is begun, added to and stopped in this order."""
    blocks: list[dict[str, Any]] = []
    is_open = False
    for event in events:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
            is_open = True
        elif event["type"] == "content_block_delta":
            assert is_open
            assert event["index"] == len(blocks) - 1
            delta = {name: value for name, value in event["delta"].items() if name != "type"}
            ((name, value),) = delta.items()
            name = "input_text" if name == "partial_json" else name
            blocks[-1][name] = blocks[-1].get(name, "") + value
        elif event["type"] == "content_block_stop":
            assert is_open
            is_open = False
    for block in blocks:
        if "input_text" in block:
            block["input"] = json.loads(block.pop("input_text"))
    assert not is_open
    return blocks


def test_whole_response_is_a_message() -> None:
    body = messages_body(json.dumps(WHOLE).encode(), "nova")
    message = json.loads(body)
    assert message["content"] == BLOCKS
    assert (message["model"], message["role"], message["stop_reason"]) == (
        "nova",
        "assistant",
        "tool_use",
    )
    assert message["id"].startswith("msg_bdrk_")
    meter = MessagesMeter()
    meter.take_body(body)
    assert meter.usage == STATED


@cases("size", 1, 7, 10_000)
def test_stream_is_the_same_message(size: int) -> None:
    events = streamed(EVENTS, size=size)
    assert rebuilt(events) == BLOCKS
    assert [one["type"] for one in (events[0], *events[-2:])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert [one["type"] for one in events].count("message_stop") == 1
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    meter = MessagesMeter()
    for event in events:
        meter.take_event(meter.read_event(json.dumps(event).encode()))
    assert (meter.usage, meter.finished, meter.malformed_events) == (STATED, True, 0)
    assert (meter.response_model, meter.finish_reason) == ("nova", "tool_use")


def test_stream_that_states_no_usage_ends_all_the_same_and_one_that_was_cut_does_not() -> None:
    assert streamed(EVENTS[:-1])[-1] == {"type": "message_stop"}
    for count in range(len(EVENTS) - 1):
        if EVENTS[count - 1][0] != "messageStop":
            assert all(one["type"] != "message_stop" for one in streamed(EVENTS[:count]))


@cases(
    "theirs, ours",
    ("end_turn", "end_turn"),
    ("max_tokens", "max_tokens"),
    ("stop_sequence", "stop_sequence"),
    ("guardrail_intervened", "refusal"),
    ("content_filtered", "refusal"),
    ("model_context_window_exceeded", "model_context_window_exceeded"),
)
def test_reasons_to_stop(theirs: str, ours: str) -> None:
    whole = json.loads(messages_body(json.dumps({**WHOLE, "stopReason": theirs}).encode(), "m"))
    last = streamed([("messageStart", {}), ("messageStop", {"stopReason": theirs})])[-2]
    assert (whole["stop_reason"], last["delta"]["stop_reason"]) == (ours, ours)
    assert theirs in shape("StopReason").enum


@cases("body", b"", b"[]", b"{}", b'{"output":{"message":{"content":7}}}', b'{"output":7}', b"{")
def test_body_that_is_no_response_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        messages_body(body, "m")


@cases(
    "event",
    ("contentBlockStart", {}),
    ("contentBlockDelta", {"delta": {"text": "x"}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": 7}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {}}}),
    ("messageStop", {}),
)
def test_event_that_cannot_be_read_breaks_the_stream(event: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(UpstreamMalformed):
        streamed([EVENTS[0], event])


def test_odd_counts_are_no_usage() -> None:
    odd = {**WHOLE, "usage": {"inputTokens": -1, "outputTokens": "x"}}
    body = messages_body(json.dumps(odd).encode(), "m")
    assert read_json(body)["stop_reason"] == "tool_use"
    meter = MessagesMeter()
    meter.take_body(body)
    assert meter.usage is None


def test_what_states_no_usage_has_the_member_all_the_same_and_is_estimated() -> None:
    endings: list[list[tuple[str, dict[str, Any]]]] = [
        [],
        [("metadata", {"metrics": {}})],
        [("metadata", {"usage": {}})],
    ]
    for ending in endings:
        meter, events = MessagesMeter(), streamed([*EVENTS[:-1], *ending])
        for event in events:
            meter.take_event(meter.read_event(json.dumps(event).encode()))
        assert events[-2]["usage"] == {"output_tokens": 0}
        assert (meter.usage, meter.partial_usage) == (None, None)
        assert meter.characters
    meter = MessagesMeter()
    whole = {name: value for name, value in WHOLE.items() if name != "usage"}
    body = messages_body(json.dumps(whole).encode(), "nova")
    meter.take_body(body)
    assert json.loads(body)["usage"] == {"output_tokens": 0}
    assert (meter.usage, meter.partial_usage) == (None, None)


def test_odd_value_in_any_place_of_a_response_is_converted_or_malformed() -> None:
    count = 0
    for place in places(WHOLE):
        for odd in ODD:
            count += 1
            with suppress(UpstreamMalformed):
                assert json.loads(
                    messages_body(json.dumps(replaced(WHOLE, place, odd)).encode(), "m")
                )
    for index, (kind, event) in enumerate(EVENTS):
        for place in places(event):
            for odd in ODD:
                count += 1
                with suppress(UpstreamMalformed):
                    assert streamed([*EVENTS[:index], (kind, replaced(event, place, odd))])
    assert count > 1000


def test_slip_in_the_conversion_is_no_fault_of_the_upstream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slip(stated: object) -> None:
        raise AttributeError("get")

    monkeypatch.setattr(converse_decoder, "write_usage", slip)
    with pytest.raises(AttributeError):
        messages_body(json.dumps(WHOLE).encode(), "m")
    with pytest.raises(AttributeError):
        streamed(EVENTS)
