"""Messages as Converse has them; Amazon's own model of the service agrees."""

import json
from base64 import b64encode
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from channels.dialects.hosting import hosting_for
from channels.dialects.messages import converse_request
from channels.dialects.messages.converse_request import converse_body
from channels.dialects.messages.hostings import HOSTINGS
from channels.dialects.messages.meter import MessagesMeter
from channels.errors import InvalidRequest
from channels.http.event_stream import EventStreamDecoder
from loadtests.simulator.cloud import bedrock
from tests.support.rows import cases, each
from tests.unit.translation.odd_values import ODD, places, replaced
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
    for result in (usage, {**usage, "service_tier": "standard"}):
        whole, meter = json.dumps({"type": "message", "usage": result}).encode(), MessagesMeter()
        assert hosting.tier is not None
        meter.take_body(hosting.tier.stated(whole, tier))
        started, begun = MessagesMeter(), {"type": "message_start", "message": {"usage": result}}
        assert hosting.new_render is not None
        render = hosting.new_render("id", "m", tier)
        for event in (begun, {"type": "message_delta", "usage": {"output_tokens": 2}}):
            payload = {"bytes": b64encode(json.dumps(event).encode()).decode()}
            chunk = bedrock.stream_event("chunk", json.dumps(payload).encode())
            (frame,) = EventStreamDecoder(render).feed(chunk).split(b"data: ")[1:]
            started.take_event(started.read_event(frame.strip()))
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


def message_of(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return request(messages=[{"role": role, "content": list(blocks)}])


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """The body for Converse, which Amazon's model of the service takes."""
    written = converse_body(body)
    report = ParamValidator().validate({"modelId": "m", **written}, shape("ConverseRequest"))
    assert not report.has_errors(), report.generate_report()
    return written


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


CONVERSATION = request(
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


def test_conversation_is_the_same_under_other_names() -> None:
    assert sent(CONVERSATION) == {
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


@cases(
    "source, form, data",
    ({"type": "base64", "media_type": "application/pdf", "data": "aGk="}, "pdf", "aGk="),
    ({"type": "text", "media_type": "text/plain", "data": "hi"}, "txt", "aGk="),
)
@cases("title, name", (None, "document 0-0"), ("a/b: ü (1)", "a b (1) 0-0"))
def test_documents_have_a_name_that_the_service_takes(
    source: dict[str, Any], form: str, data: str, title: str | None, name: str
) -> None:
    body = message_of({"type": "document", "source": source, "title": title})
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
        converse_body({**message_of(CALL, role="assistant"), "tools": [TOOL], "tool_choice": none})


UNSAYABLE = [
    (
        message_of({"type": "image", "source": {"type": "url", "url": "u"}}),
        "messages[0].content[0].source",
    ),
    (
        message_of({"type": "image", "source": {**PNG, "media_type": "image/tiff"}}),
        "messages[0].content[0].source.media_type",
    ),
    (message_of(text("a"), {"type": "search_result"}), "messages[0].content[1].type"),
    (message_of({"type": None}), "messages[0].content[0].type"),
    (request(tools=[{"type": "web_search_20250305", "name": "w"}]), "tools[0].type"),
    (
        request(tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
        "tool_choice.disable_parallel_tool_use",
    ),
    (request(metadata={"user_id": "ü"}), "metadata.user_id"),
    (request(service_tier="batch"), "service_tier"),
]


@each("body, param", UNSAYABLE)
def test_what_cannot_be_written_is_refused_with_its_place(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        converse_body(body)
    assert raised.value.param == param


@cases(
    "body, param",
    (request(messages=[{"role": "user"}]), "messages[0].content"),
    (request(messages=[7]), "messages[0]"),
    (request(messages=[user([7])]), "messages[0].content[0]"),
    (message_of({"type": "text"}), "messages[0].content[0].text"),
    (
        message_of({**RESULT, "content": [{**text("a"), "text": 7}]}),
        "messages[0].content[0].content[0].text",
    ),
    (request(tools=[7]), "tools[0]"),
    (request(tools=[{"name": "a"}]), "tools[0].input_schema"),
    (request(tools=[TOOL], tool_choice={"type": "other"}), "tool_choice.type"),
    (request(tools=[TOOL], tool_choice={"type": "tool"}), "tool_choice.name"),
    (request(metadata=7), "metadata"),
    (request(output_config=7), "output_config"),
)
def test_value_of_another_type_is_refused_with_its_place(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        HOSTINGS["converse"].body(json.dumps(body).encode(), ())
    assert raised.value.param == param
    assert raised.value.message.startswith(f"{param}")
    assert "other" not in raised.value.message


def test_odd_value_in_any_place_is_carried_or_refused() -> None:
    count = 0
    for place in places(CONVERSATION):
        for odd in ODD:
            body = json.dumps(replaced(CONVERSATION, place, odd)).encode()
            with suppress(InvalidRequest):
                assert json.loads(HOSTINGS["converse"].body(body, ()))
                count += 1
    assert count > 500


def test_slip_in_the_conversion_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def slip(marked: object) -> None:
        raise KeyError("ttl")

    monkeypatch.setattr(converse_request, "_cache_point", slip)
    with pytest.raises(KeyError):
        HOSTINGS["converse"].body(json.dumps(CONVERSATION).encode(), ())


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
