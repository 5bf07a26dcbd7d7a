"""Built-in tools on chat-completions, run over a channel's responses protocol."""

import base64
import json
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

TOOLS = ["web_search", "image_generation"]
USAGE = {"input": 1000, "output": 100, "cached": 400}
# 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million.
COST_NANO_USD = 1_640_000
SEARCH: Any = {"type": "web_search", "search_context_size": "low"}
DRAW: Any = {"type": "image_generation", "size": "512x512", "partial_images": 2}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}

RUNS: dict[str, Any] = {"protocols": ["chat", "responses"], "tools": TOOLS}
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("runs", **RUNS, priority=1),
        channel("spare", **RUNS, priority=2),
        channel("plain", protocols=["chat", "responses"]),
        channel("searches", protocols=["responses"], tools=["web_search"]),
        channel("tight", **RUNS, max_concurrency=1),
        channel("claims", protocols=["chat"], tools=TOOLS),
        channel("messages", protocols=["messages"], tools=TOOLS),
    ],
    "models": [
        model("gpt-5", "runs", "plain", "spare", capabilities=["web_search", "image_gen"]),
        model("unsaid", "runs"),
        model("no-drawing", "runs", capabilities=["tools", "web_search"]),
        model("plain", "plain"),
        model("searches", "searches"),
        model("tight", "tight"),
        model("claims", "claims"),
        model("claude", "messages"),
    ],
}


def message_of(text: str = "Hello", **directive: Any) -> list[Any]:
    """One user message, with a directive for the simulator in it."""
    sim = f"[[sim {json.dumps(directive)}]] " if directive else ""
    return [{"role": "user", "content": sim + text}]


def request_of(h: Deployment, tenant: Tenant, *tools: Any, **members: Any) -> Response:
    """A streamed call with these tools."""
    body = {
        "model": "gpt-5",
        "messages": message_of(),
        "stream": True,
        "tools": list(tools),
        **members,
    }
    return tenant.client.chat(**body)


def content_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def charged(tenant: Tenant) -> int:
    return 10**9 - tenant.client.remaining_nano_usd()


def test_sdk_streams_a_web_search_with_its_source(
    h: Deployment, sdk: OpenAI, tenant: Tenant
) -> None:
    raw = sdk.chat.completions.with_raw_response.create(
        model="gpt-5",
        messages=[
            {"role": "system", "content": "Be brief."},
            *message_of(text="Who won?", usage=USAGE),
        ],
        tools=[SEARCH],
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=300,
        reasoning_effort="low",
    )
    chunks = list(raw.parse())
    text = content_of(chunks)
    assert text.endswith("Who won?")
    cited = [one for c in chunks if c.choices for one in _annotations(c)]
    (source,) = [one["url_citation"] for one in cited]
    assert text[source["start_index"] : source["end_index"]] == text
    assert source["url"].startswith("https://")
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (1000, 100)
    assert charged(tenant) == COST_NANO_USD
    assert "x-protocol-translation" not in raw.headers
    assert "x-protocol-warning" not in raw.headers
    assert h.upstream.last_request()["path"] == "/v1/responses"
    body = h.upstream.last_body()
    assert body["tools"] == [SEARCH]
    assert body["instructions"] == "Be brief."
    assert (body["max_output_tokens"], body["reasoning"]) == (300, {"effort": "low"})
    assert body["store"] is False
    row = h.row(raw.headers["x-gateway-trace"])
    assert (row["status"], row["model"], row["input_tokens"]) == ("success", "gpt-5", 1000)
    samples = h.metrics("gw_calls_total")
    assert any('protocol="chat"' in labels for labels in samples)


def _annotations(chunk: ChatCompletionChunk) -> list[Any]:
    return (chunk.choices[0].delta.model_extra or {}).get("annotations") or []


@pytest.mark.parametrize("size", [0, 3_000_000], ids=["small", "three megabytes"])
def test_sdk_streams_an_image_as_markdown(
    h: Deployment, sdk: OpenAI, tenant: Tenant, size: int
) -> None:
    stream = sdk.chat.completions.create(
        model="gpt-5",
        messages=message_of(text="A cat", image_bytes=size, usage=USAGE),
        tools=[DRAW],
        stream=True,
    )
    chunks = list(stream)
    (image,) = [text for c in chunks if (text := c.choices[0].delta.content or "").startswith("![")]
    assert image.startswith("![image](data:image/png;base64,")
    assert image.endswith(")")
    png = base64.b64decode(image.partition(",")[2][:-1], validate=True)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) >= size
    assert content_of(chunks).endswith("A cat")
    assert all(chunk.usage is None for chunk in chunks)
    assert charged(tenant) == COST_NANO_USD
    assert h.upstream.last_body()["tools"] == [DRAW]


def test_what_cannot_be_translated_is_listed_or_refused(h: Deployment, tenant: Tenant) -> None:
    reply = request_of(h, tenant, SEARCH, seed=7, stop=["END"], n=2)
    assert reply.status == 200
    assert reply.headers["x-protocol-warning"] == "stop; seed; n"
    assert "x-protocol-translation" not in reply.headers
    body = {
        "model": "gpt-5",
        "messages": message_of(),
        "stream": True,
        "tools": [SEARCH],
        "seed": 7,
    }
    strict = tenant.client.send(
        "POST", "/v1/chat/completions", body, headers={"X-Protocol-Strict": "1"}
    )
    assert strict.refusal == (400, "invalid_request_error", "invalid_request")
    assert "seed" in strict.error["message"]


@each("tool", [SEARCH, DRAW])
@each("stream", [False, None])
@each("of_model", ["gpt-5", "plain"])
def test_tool_needs_a_stream(
    h: Deployment, tenant: Tenant, tool: Any, stream: bool | None, of_model: str
) -> None:
    reply = request_of(h, tenant, WEATHER, tool, stream=stream, model=of_model)
    assert reply.refusal == (400, "invalid_request_error", "invalid_request")
    assert "stream" in reply.error["message"]
    alone = request_of(h, tenant, WEATHER, stream=stream, model=of_model)
    assert alone.status == 200
    assert alone.json["choices"][0]["finish_reason"] == "tool_calls"
