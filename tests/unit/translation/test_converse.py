"""Messages as Converse has them, there and back; Amazon's own model of the service agrees."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from channels.dialects.hosting import hosting_for
from channels.dialects.messages.converse_request import converse_body
from channels.dialects.messages.converse_response import ConverseStream, messages_body
from channels.dialects.messages.hostings import HOSTINGS
from channels.dialects.messages.meter import MessagesMeter
from channels.dialects.token_counts import Usage
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.http.sse import EventStreamDecoder
from channels.json.lenient import read_json
from loadtests.simulator.cloud import bedrock
from tests.support.rows import cases, each
from tests.unit.translation.pieces import assistant, use, user
from tests.unit.translation.translated import translated

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
MARK = {"type": "ephemeral"}
TOOL = {"name": "weather", "description": "Tells it", "input_schema": {"type": "object"}}
CALL = use("t-1", {"city": "Zürich"}, name="weather")
RESULT = {"type": "tool_result", "tool_use_id": "t-1", "content": "rain", "is_error": True}


@cache
def shape(name: str) -> Any:
    service = Loader().load_service_model("bedrock-runtime", "service-2")
    return ServiceModel(service).shape_for(name)


def request(**members: Any) -> dict[str, Any]:
    hello = [user("Hello")]
    return {"model": "m", "max_tokens": 9, "messages": hello, **members}


@each("tier", ["priority", "flex", "default"])
def test_a_tier_goes_where_the_service_takes_it_and_the_one_served_is_metered(tier: str) -> None:
    assert sent(request(service_tier=tier))["serviceTier"] == {"type": tier}
    hosting = HOSTINGS["bedrock"]
    body = json.dumps(request(service_tier=tier)).encode()
    assert "service_tier" not in json.loads(hosting.body(body, ()))
    ((name, word),) = hosting.headers((), {"service_tier": tier})
    for one in ("InvokeModel", "InvokeModelWithResponseStream"):
        for member in (
            shape(f"{one}Request").members["serviceTier"],
            shape(f"{one}Response").members["serviceTier"],
        ):
            assert (member.serialization["name"], word in member.enum) == (name, True)

    usage: dict[str, Any] = {"input_tokens": 7, "output_tokens": 2}
    for told in (usage, {**usage, "service_tier": "standard"}):
        whole, meter = json.dumps({"type": "message", "usage": told}).encode(), MessagesMeter()
        assert hosting.tier is not None
        meter.body(hosting.tier.stated(whole, tier))
        started, begun = MessagesMeter(), {"type": "message_start", "message": {"usage": told}}
        assert hosting.new_render is not None
        render = hosting.new_render("id", "m", tier)
        for event in (begun, {"type": "message_delta", "usage": {"output_tokens": 2}}):
            payload = {"bytes": b64encode(json.dumps(event).encode()).decode()}
            chunk = bedrock.stream_event("chunk", json.dumps(payload).encode())
            (frame,) = EventStreamDecoder(render).feed(chunk).split(b"data: ")[1:]
            started.take(started.read(frame.strip()))
        for metered in (meter.usage, started.usage):
            assert metered is not None
            assert (metered.input_tokens, metered.output_tokens) == (7, 2)
            served = metered.parts and metered.parts.service_tier
            assert served == (None if tier == "default" else tier)


@each("tier", ["priority", "flex", "default"])
@each("client, turns", [("chat", "messages"), ("responses", "input")])
def test_a_tier_is_translated_for_the_service(client: str, turns: str, tier: str) -> None:
    stated = {"model": "m", turns: [user("Hello")], "service_tier": tier}
    body, dropped = translated(client, "messages", stated, takes_tiers=True)
    assert (sent(body)["serviceTier"], dropped) == ({"type": tier}, [])


@each("tier", [5, "reserved", {"type": "priority"}, "Priority"])
def test_a_word_that_is_no_tier_is_left_to_the_upstream(tier: Any) -> None:
    body = json.dumps(request(service_tier=tier)).encode()
    assert json.loads(HOSTINGS["bedrock"].body(body, ()))["service_tier"] == tier


def said(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return request(messages=[{"role": role, "content": list(blocks)}])


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """The body for Converse, which Amazon's model of the service takes."""
    written = converse_body(body)
    report = ParamValidator().validate({"modelId": "m", **written}, shape("ConverseRequest"))
    assert not report.has_errors(), report.generate_report()
    return written


def test_conversation_is_the_same_under_other_names() -> None:
    body = request(
        stream=True,
        system=[{"type": "text", "text": "Be brief", "cache_control": {**MARK, "ttl": "1h"}}],
        messages=[
            user([{"type": "image", "source": PNG}, text("What?")]),
            assistant(
                [
                    {"type": "thinking", "thinking": "Hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "ZA=="},
                    CALL,
                ]
            ),
            user([RESULT, {**text("And?"), "cache_control": MARK}]),
        ],
        temperature=0.5,
        top_p=0.9,
        stop_sequences=["END"],
        tools=[{**TOOL, "strict": True, "cache_control": MARK}],
        tool_choice={"type": "tool", "name": "weather"},
        metadata={"user_id": "user-1"},
        service_tier="standard_only",
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"a": 1}}},
        top_k=5,
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    assert sent(body) == {
        "system": [{"text": "Be brief"}, {"cachePoint": {"type": "default", "ttl": "1h"}}],
        "messages": [
            user([{"image": {"format": "png", "source": {"bytes": "aGk="}}}, {"text": "What?"}]),
            assistant(
                [
                    {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}},
                    {"reasoningContent": {"redactedContent": "ZA=="}},
                    {
                        "toolUse": {
                            "toolUseId": "t-1",
                            "name": "weather",
                            "input": {"city": "Zürich"},
                        }
                    },
                ]
            ),
            user(
                [
                    {
                        "toolResult": {
                            "toolUseId": "t-1",
                            "content": [{"text": "rain"}],
                            "status": "error",
                        }
                    },
                    {"text": "And?"},
                    {"cachePoint": {"type": "default"}},
                ]
            ),
        ],
        "inferenceConfig": {
            "maxTokens": 9,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
        },
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "weather",
                        "description": "Tells it",
                        "inputSchema": {"json": {"type": "object"}},
                        "strict": True,
                    }
                },
                {"cachePoint": {"type": "default"}},
            ],
            "toolChoice": {"tool": {"name": "weather"}},
        },
        "requestMetadata": {"user_id": "user-1"},
        "serviceTier": {"type": "default"},
        "outputConfig": {
            "effort": "high",
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": '{"a":1}'}},
            },
        },
        "additionalModelRequestFields": {
            "top_k": 5,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
        },
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@cases(
    "source, form, data",
    ({"type": "base64", "media_type": "application/pdf", "data": "aGk="}, "pdf", "aGk="),
    ({"type": "text", "media_type": "text/plain", "data": "hi"}, "txt", "aGk="),
)
@cases("title, name", (None, "document 0-0"), ("a/b: ü (1)", "a b (1) 0-0"))
def test_documents_have_a_name_that_the_service_takes(
    source: dict[str, Any], form: str, data: str, title: str | None, name: str
) -> None:
    body = said({"type": "document", "source": source, "title": title})
    (block,) = sent(body)["messages"][0]["content"]
    assert block == {"document": {"format": form, "name": name, "source": {"bytes": data}}}


@cases(
    "choice, written",
    ({"type": "auto"}, {"auto": {}}),
    ({"type": "any"}, {"any": {}}),
    (None, None),
)
def test_choices_of_tools(choice: Any, written: Any) -> None:
    config = sent(request(tools=[TOOL], tool_choice=choice))["toolConfig"]
    assert config.get("toolChoice") == written


def test_tools_that_must_not_be_called_are_left_out_unless_there_were_calls() -> None:
    none = {"type": "none"}
    assert "toolConfig" not in sent(request(tools=[TOOL], tool_choice=none))
    with pytest.raises(InvalidRequest):
        converse_body({**said(CALL, role="assistant"), "tools": [TOOL], "tool_choice": none})


UNSAYABLE = [
    (
        said({"type": "image", "source": {"type": "url", "url": "u"}}),
        "messages[0].content[0].source",
    ),
    (
        said({"type": "image", "source": {**PNG, "media_type": "image/tiff"}}),
        "messages[0].content[0].source.media_type",
    ),
    (said(text("a"), {"type": "search_result"}), "messages[0].content[1].type"),
    (said({"type": None}), "messages[0].content[0].type"),
    (request(tools=[{"type": "web_search_20250305", "name": "w"}]), "tools[0].type"),
    (
        request(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
        "tool_choice.disable_parallel_tool_use",
    ),
    (request(metadata={"user_id": "ü"}), "metadata.user_id"),
    (request(service_tier="batch"), "service_tier"),
]


@each("body, param", UNSAYABLE)
def test_what_cannot_be_said_is_refused_with_its_place(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        converse_body(body)
    assert raised.value.param == param


@cases(
    "body",
    request(messages=[{"role": "user"}]),
    request(messages=[7]),
    request(messages=[user([7])]),
    request(messages=[user([{"type": "text"}])]),
    request(tools=[7]),
    request(tools=[{"name": "a"}]),
    request(tools=[TOOL], tool_choice={"type": "other"}),
    request(metadata=7),
    request(output_config=7),
)
def test_body_of_any_shape_is_a_refusal_and_no_fault(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        HOSTINGS["converse"].body(json.dumps(body).encode(), ())


def test_betas_go_to_the_model() -> None:
    body = json.dumps(request()).encode()
    written = json.loads(HOSTINGS["converse"].body(body, (("anthropic-beta", "a, b"),)))
    assert written["additionalModelRequestFields"] == {"anthropic_beta": ["a", "b"]}


def test_claude_is_invoked_and_all_others_are_conversed_with() -> None:
    for model, wire in (
        ("us.anthropic.Claude-sonnet-4-v1:0", "bedrock"),
        ("amazon.nova-pro-v1:0", "converse"),
        ("arn:aws:bedrock:r:1:application-inference-profile/abc", "converse"),
    ):
        assert hosting_for(HOSTINGS, "bedrock", model) == (wire, HOSTINGS[wire])
    assert hosting_for(HOSTINGS, "converse", "anthropic.claude-1")[0] == "converse"
    assert hosting_for(HOSTINGS, "vertex", "claude-1")[0] == "vertex"


# --- Responses ---

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
    meter.body(body)
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
        meter.take(meter.read(json.dumps(event).encode()))
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
    meter.body(body)
    assert meter.usage is None


# --- What Converse states no usage for ---


def test_what_states_no_usage_has_the_member_all_the_same_and_is_estimated() -> None:
    endings: list[list[tuple[str, dict[str, Any]]]] = [
        [],
        [("metadata", {"metrics": {}})],
        [("metadata", {"usage": {}})],
    ]
    for ending in endings:
        meter, events = MessagesMeter(), streamed([*EVENTS[:-1], *ending])
        for event in events:
            meter.take(meter.read(json.dumps(event).encode()))
        assert events[-2]["usage"] == {"output_tokens": 0}
        assert (meter.usage, meter.partial_usage) == (None, None)
        assert meter.characters
    meter = MessagesMeter()
    whole = {name: value for name, value in WHOLE.items() if name != "usage"}
    body = messages_body(json.dumps(whole).encode(), "nova")
    meter.body(body)
    assert json.loads(body)["usage"] == {"output_tokens": 0}
    assert (meter.usage, meter.partial_usage) == (None, None)
