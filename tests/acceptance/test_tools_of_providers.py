"""Tools that a provider runs, in every protocol: where they pass, and where they are refused.

The responses protocol's own promises stand beside them: pictures as items, nothing stored.
"""

import base64
from typing import Any

import openai
import pytest
from openai import OpenAI

from channels.translation.paths import TRANSLATIONS
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

TOOLS = ["web_search", "image_generation"]
PROTOCOLS = ["chat", "messages", "responses", "native"]
USAGE = {"input": 1000, "output": 100, "cached": 400}
# 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million.
COST_NANO_USD = 1_640_000
SETTINGS: dict[str, Any] = {
    "translations": [row.setting for row in TRANSLATIONS.values()],
    "channels": [
        channel("has", protocols=PROTOCOLS, tools=TOOLS),
        channel("lacks", protocols=PROTOCOLS),
        channel("speaks-chat", protocols=["chat"], tools=TOOLS),
        channel("speaks-messages", protocols=["messages"], tools=TOOLS),
        channel("speaks-native", protocols=["native"], tools=TOOLS),
    ],
    "models": [
        model("has", "has"),
        model("lacks", "lacks"),
        model("either", "lacks", "has"),
        model("chat", "speaks-chat"),
        model("messages", "speaks-messages"),
        model("native", "speaks-native"),
    ],
}
# What the protocols call a web search, and what else there is that a provider runs.
SEARCHES: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "web_search_preview"},
        {"type": "web_search_2025_08_26"},
    ],
    "messages": [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
        {"type": "web_search_20260209", "name": "web_search"},
    ],
    "responses": [
        {"type": "web_search"},
        {"type": "web_search_preview"},
        {"type": "web_search_preview_2025_03_11"},
        {"type": "web_search_2025_08_26"},
    ],
    "native": [
        {"googleSearch": {}},
        {"google_search": {}},
        {"googleSearchRetrieval": {"dynamicRetrievalConfig": {}}},
        {"enterpriseWebSearch": {}},
    ],
}
REFUSED: dict[str, dict[str, Any]] = {
    "chat": {"type": "invalid_request_error", "code": "tool_not_supported"},
    "messages": {"type": "invalid_request_error"},
    "responses": {"type": "invalid_request_error", "code": "tool_not_supported"},
    "native": {"code": 400, "status": "INVALID_ARGUMENT"},
}
CASES = [(protocol, tool) for protocol in PROTOCOLS for tool in SEARCHES[protocol]]
CASES.append(("responses", {"type": "image_generation", "size": "auto"}))
CASES.append(("chat", {"type": "image_generation"}))


def request_of(
    tenant: Tenant, protocol: str, of_model: str, *tools: Any, **members: Any
) -> Response:
    """One call with tools; on chat-completions it is streamed, as they need it there."""
    turns = [{"role": "user", "content": "Hello"}]
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "chat": ("/v1/chat/completions", {"messages": turns, "stream": True}),
        "messages": ("/v1/messages", {"messages": turns, "max_tokens": 100}),
        "responses": ("/v1/responses", {"input": turns, "instructions": "Be brief."}),
        "native": (
            f"/v1beta/models/{of_model}:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
        ),
    }
    path, body = calls[protocol]
    named = {} if protocol == "native" else {"model": of_model}
    return tenant.client.send("POST", path, {**named, **body, "tools": list(tools), **members})


def assert_refused(h: Deployment, tenant: Tenant, reply: Response, protocol: str) -> None:
    assert reply.status == 400, reply.body
    assert REFUSED[protocol].items() <= reply.json["error"].items()
    message = reply.json["error"]["message"]
    assert "not supported by the channels" in message
    is_codex = protocol == "responses" and "`web_search`" in message
    assert ('`web_search = "disabled"`' in message) is is_codex
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("rejected", "tool_not_supported")
    assert tenant.client.remaining_nano_usd() == 10**9
    assert h.upstream.stats()["requests"] == 0


@each("protocol, tool", CASES)
def test_tool_that_the_channel_lacks_is_refused(
    h: Deployment, protocol: str, tool: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    assert_refused(h, tenant, request_of(tenant, protocol, "lacks", tool), protocol)


@each("protocol, tool", CASES)
def test_tool_goes_to_the_channel_that_has_it_as_it_was_described(
    h: Deployment, protocol: str, tool: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = request_of(tenant, protocol, "either", tool)
    assert reply.status == 200, reply.body
    assert h.upstream.last_body()["tools"] == [tool]
    assert h.upstream.requested("lacks", "has") == [0, 1]


DRAW: Any = {"type": "image_generation", "size": "1024x1024", "partial_images": 1}


def test_picture_is_an_item_of_a_stream_with_rising_numbers(sdk: OpenAI, tenant: Tenant) -> None:
    stream = sdk.responses.create(
        model="has",
        input="A cat",
        tools=[DRAW],
        stream=True,
        extra_body={"sim": {"usage": USAGE, "image_bytes": 2_000_000}},
    )
    events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert (
        sum(event.type == "response.image_generation_call.partial_image" for event in events) == 1
    )
    last = events[-1]
    assert last.type == "response.completed"
    picture = last.response.output[0]
    assert picture.type == "image_generation_call"
    assert len(base64.b64decode(picture.result or "")) >= 2_000_000
    assert tenant.client.remaining_nano_usd() == 10**9 - COST_NANO_USD


@each(
    "members, param",
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
    ],
)
def test_what_needs_something_stored_is_refused_by_name(
    h: Deployment, sdk: OpenAI, members: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.responses.create(**{"model": "has", "input": "Hello", **members})
    assert refused.value.code == "invalid_request"
    assert param in refused.value.message
    assert "not stored" in refused.value.message
    assert h.upstream.stats()["requests"] == 0
