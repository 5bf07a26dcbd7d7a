"""The native-content wire: candidates, cumulative usage, both stream forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Client, Reply, ask, auth, body_of, request

TOOLS = [
    {
        "functionDeclarations": [
            {
                "name": name,
                "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
            }
            for name in ("weather", "news")
        ]
    }
]


# What each spelling of a schema's member is sent with.
SPELLINGS = {
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    "parametersJsonSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "parameters_json_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def native(**options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, "native", **options)

    return run(one())


def parts(chunk: Any) -> Any:
    return chunk["candidates"][0]["content"]["parts"]


def test_plain_answer_has_the_shape() -> None:
    body = native(text="the tide is low").json
    (candidate,) = body["candidates"]
    assert candidate["content"]["role"] == "model"
    assert parts(body)[0]["text"].endswith("the tide is low")
    assert (candidate["finishReason"], candidate["index"]) == ("STOP", 0)
    usage = body["usageMetadata"]
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"]
    assert body["modelVersion"] == "model-a"
    assert body["responseId"]


def test_event_stream_ends_with_the_finish_and_grows_its_usage() -> None:
    reply = native(stream=True, text="the tide is low")
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert b"\r\n\r\n" in reply.body
    chunks = reply.data
    assert "".join(parts(chunk)[0]["text"] for chunk in chunks).endswith("the tide is low")
    reasons = [chunk["candidates"][0].get("finishReason") for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["STOP"]
    counts = [chunk["usageMetadata"]["candidatesTokenCount"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == len(chunks) - 1
    assert not any(name for name, _ in reply.events)
    assert len({chunk["responseId"] for chunk in chunks}) == 1


def test_without_alt_sse_the_stream_is_a_json_array() -> None:
    async def one(sim: dict[str, Any]) -> Reply:
        body = body_of("native", stream=True) | {"sim": sim}
        path = "/v1beta/models/model-a:streamGenerateContent"
        async with Simulator() as simulator, Client(simulator) as client:
            client.send(request("POST", path, json.dumps(body).encode(), **auth("native")))
            return await client.reply()

    reply = run(one({"events": 3}))
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.json) == 4
    assert reply.json[-1]["candidates"][0]["finishReason"] == "STOP"
    broken = run(one({"events": 3, "error_event": 2, "message": "gone"}))
    assert broken.json[2] == {"error": {"code": 503, "message": "gone", "status": "UNAVAILABLE"}}
    assert not run(one({"no_done": True})).body.endswith(b"]")


def test_function_calls_come_whole_and_only_the_first_is_signed() -> None:
    body = native(tools=TOOLS).json
    calls = parts(body)
    assert [call["functionCall"]["name"] for call in calls] == ["weather", "news"]
    assert calls[0]["functionCall"]["args"] == {"city": "hello out there"}
    assert ["thoughtSignature" in call for call in calls] == [True, False]
    assert body["candidates"][0]["finishReason"] == "STOP"
    *chunks, last = native(tools=TOOLS, stream=True).data
    assert [parts(chunk)[0]["functionCall"]["name"] for chunk in chunks] == ["weather", "news"]
    assert parts(last) == [{"text": ""}]


def test_calling_mode_is_obeyed() -> None:
    def config(**members: object) -> dict[str, Any]:
        return {"toolConfig": {"functionCallingConfig": members}}

    assert "text" in parts(native(tools=TOOLS, **config(mode="NONE")).json)[0]
    allowed = native(tools=TOOLS, **config(mode="ANY", allowedFunctionNames=["news"])).json
    assert [part["functionCall"]["name"] for part in parts(allowed)] == ["news"]


def test_function_response_gets_a_text_answer() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "rain?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"sky": "wet"}}}],
        },
    ]
    assert "wet" in parts(native(contents=contents, tools=TOOLS).json)[0]["text"]


def test_thoughts_are_counted_apart_and_shown_when_wanted() -> None:
    config = {"thinkingConfig": {"thinkingBudget": 32, "includeThoughts": True}}
    body = native(generationConfig=config).json
    assert parts(body)[0]["thought"] is True
    usage = body["usageMetadata"]
    assert usage["thoughtsTokenCount"] == 32
    assert usage["totalTokenCount"] == (
        usage["promptTokenCount"] + usage["candidatesTokenCount"] + 32
    )


def test_token_maximum_and_cached_content() -> None:
    body = native(text="x" * 100, generationConfig={"maxOutputTokens": 4}).json
    assert body["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert body["usageMetadata"]["candidatesTokenCount"] == 4
    usage = native(cachedContent="cachedContents/a").json["usageMetadata"]
    assert usage["cachedContentTokenCount"] == usage["promptTokenCount"] // 2


def test_inline_images_are_accepted() -> None:
    given = [{"text": "what is this"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]
    body = native(contents=[{"parts": given}]).json
    assert parts(body)[0]["text"].endswith("what is this")


def test_response_schema_is_followed() -> None:
    config = {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}},
    }
    assert json.loads(parts(native(generationConfig=config).json)[0]["text"]) == {"n": 15}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_arguments_follow_the_schema_under_each_of_its_names(spelling: str) -> None:
    function = {"name": "weather", spelling: SPELLINGS[spelling]}
    (part,) = parts(native(tools=[{"functionDeclarations": [function]}]).json)
    assert part["functionCall"]["args"] == {"city": "hello out there"}
