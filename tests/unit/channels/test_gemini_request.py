"""What a native-content request may be, and what becomes of it on the way to a channel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.dialects.gemini import GeminiRequest, read_request, upstream_body
from channels.dialects.gemini.schema import ALLOWED, GeminiBody
from tests.unit.channels.dialect_bodies import GEMINI, encoded, read_gemini, refused

CONTENTS = b'"contents":[{"role":"user","parts":[{"text":"Hi"}]}]'


def read(body: bytes, *, model: str = "m", stream: bool = False) -> GeminiRequest:
    return read_request(body, model=model, stream=stream)


def forwarded(body: bytes, *, model: str = "m", most: int | None = None) -> bytes:
    return upstream_body(read(body), upstream_model=model, default_max_tokens=most)


def test_model_and_stream_come_with_the_path() -> None:
    request = read(encoded(GEMINI), model="gemini", stream=True)
    assert (request.model, request.stream, request.max_tokens) == ("gemini", True, None)
    assert request.builtin_tools == ()
    assert request.content_bytes == len(json.dumps(GEMINI["contents"]))


EVERYTHING: dict[str, Any] = {
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "What is this?"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
            ],
        },
        {
            "role": "function",
            "parts": [{"functionResponse": {"name": "f", "response": {"output": "42"}}}],
        },
        {"role": "tool", "parts": [{"functionResponse": {"name": "f"}}]},
        {"parts": [{"text": "Go on."}, {"part_of_the_future": 1}]},
    ],
    "systemInstruction": {"role": "system", "parts": [{"text": "Be brief."}]},
    "generationConfig": {
        "maxOutputTokens": 100,
        "temperature": 0.5,
        "topP": 1,
        "topK": 40,
        "candidateCount": 1,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT"},
        "thinkingConfig": {"thinkingBudget": 0},
    },
    "tools": [
        {"functionDeclarations": [{"name": "f", "description": "F.", "parameters": {}}]},
        {"googleSearch": {}},
        {"google_search_retrieval": {}},
        {"codeExecution": {}, "urlContext": {}},
        {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
        {"googleMaps": None},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "safetySettings": [{"category": "C", "threshold": "T"}],
    "cachedContent": "cachedContents/1",
}


def test_every_documented_member_is_read_and_forwarded() -> None:
    request = read(encoded(EVERYTHING))
    assert request.max_tokens == 100
    assert request.builtin_tools == ("web_search", "code_execution", "url_context")
    assert forwarded(encoded(EVERYTHING), model="n", most=5) == encoded(EVERYTHING)


def test_every_member_that_is_read_has_its_words() -> None:
    assert set(GeminiBody.__struct_encode_fields__) - {"model"} == {
        name for name in ALLOWED if "." not in name and "[" not in name
    }


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (b"", b',"generationConfig":{"maxOutputTokens":10}'),
        (b',"generationConfig":null', b',"generationConfig":{"maxOutputTokens":10}'),
        (b',"generationConfig":{ }', b',"generationConfig":{ "maxOutputTokens":10}'),
        (
            b',"generationConfig" : {"topK" : 1.0,\n"x":"\\u00e9"} ',
            b',"generationConfig" : {"topK" : 1.0,\n"x":"\\u00e9","maxOutputTokens":10} ',
        ),
        (
            b',"generationConfig":{"maxOutputTokens": null ,"topK":1}',
            b',"generationConfig":{"maxOutputTokens": 10 ,"topK":1}',
        ),
        (
            b',"generation_config":{"max_output_tokens":null}',
            b',"generation_config":{"max_output_tokens":10}',
        ),
        (b',"generation_config":{}', b',"generation_config":{"maxOutputTokens":10}'),
        (
            b',"generationConfig":{"maxOutputTokens":7}',
            b',"generationConfig":{"maxOutputTokens":7}',
        ),
        (
            b',"generation_config":{"max_output_tokens":70000}',
            b',"generation_config":{"max_output_tokens":70000}',
        ),
    ],
)
def test_omitted_maximum_is_spliced_into_the_generation_config(
    members: bytes, expected: bytes
) -> None:
    body = b"{" + CONTENTS + b"%b}"
    assert forwarded(body % members, most=10) == body % expected
    assert forwarded(body % members) == body % members


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"generationConfig": {"maxOutputTokens": 7}}, 7),
        ({"generationConfig": {"max_output_tokens": 7}}, 7),
        ({"generation_config": {"maxOutputTokens": 7}}, 7),
        ({"generation_config": {"max_output_tokens": 7}}, 7),
        ({"generationConfig": {"maxOutputTokens": None}}, None),
        ({"generationConfig": {}}, None),
        ({"generationConfig": None}, None),
    ],
)
def test_maximum_is_read_in_either_spelling(config: dict[str, Any], most: int | None) -> None:
    assert read_gemini(**config).max_tokens == most


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"generationConfig": {}, "generation_config": {}}, "generation_config"),
        (
            {"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 2}},
            "generationConfig.max_output_tokens",
        ),
        (
            {"generation_config": {"maxOutputTokens": 1, "max_output_tokens": None}},
            "generation_config.max_output_tokens",
        ),
        (
            {"systemInstruction": {"parts": []}, "system_instruction": {"parts": []}},
            "system_instruction",
        ),
    ],
)
def test_both_spellings_of_one_member_are_refused(changes: dict[str, Any], param: str) -> None:
    assert refused(lambda: read_gemini(**changes)).param == param


@pytest.mark.parametrize(
    "config",
    [
        b'{"maxOutputTokens":1,"maxOutputTokens":2}',
        b'{"maxOutputTokens":1,"maxOutputToken\\u0073":2}',
    ],
)
def test_maximum_that_is_there_twice_is_refused(config: bytes) -> None:
    body = b"{" + CONTENTS + b',"generationConfig":' + config + b"}"
    assert refused(lambda: read(body)).param == "generationConfig.maxOutputTokens"


@pytest.mark.parametrize("named", ["m", "models/m"])
def test_model_in_the_body_follows_the_one_in_the_path(named: str) -> None:
    body = b'{"model" : %b,' % encoded(named) + CONTENTS + b"}"
    assert forwarded(body) == body
    assert forwarded(body, model="n") == body.replace(encoded(named), encoded(named[:-1] + "n"))


@pytest.mark.parametrize("named", ["other", "models/other", "", 7, {}])
def test_another_model_in_the_body_is_refused(named: object) -> None:
    assert refused(lambda: read_gemini(model=named)).param == "model"


@pytest.mark.parametrize("model", ["", "m" * 257, "a\nb"])
def test_path_must_name_a_model(model: str) -> None:
    assert refused(lambda: read(encoded(GEMINI), model=model)).param == "model"


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"contents": None}, "contents"),
    ({"contents": []}, "contents"),
    ({"contents": "Hi"}, "contents"),
    ({"contents": {}}, "contents.parts"),
    ({"contents": {"parts": [], "role": "robot"}}, "contents.role"),
    ({"contents": ["Hi"]}, "contents[0]"),
    ({"contents": [{}]}, "contents[0].parts"),
    ({"contents": [{"parts": "Hi"}]}, "contents[0].parts"),
    ({"contents": [{"parts": [], "role": "assistant"}]}, "contents[0].role"),
    ({"contents": [{"parts": [], "role": 7}]}, "contents[0].role"),
    ({"systemInstruction": "Be brief."}, "systemInstruction"),
    ({"generationConfig": []}, "generationConfig"),
    ({"generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
    ({"generationConfig": {"maxOutputTokens": "5"}}, "generationConfig.maxOutputTokens"),
    ({"generation_config": {"max_output_tokens": 1.5}}, "generation_config.max_output_tokens"),
    ({"generationConfig": {"temperature": "1"}}, "generationConfig.temperature"),
    ({"tools": ["googleSearch"]}, "tools[0]"),
]

# Faults that only an upstream can judge: forwarded to one of this protocol.
JUDGED_UPSTREAM: list[tuple[dict[str, Any], str]] = [
    ({"contents": [{"parts": ["Hi"]}]}, "contents[0].parts[0]"),
    ({"contents": [{"parts": [{"text": 7}]}]}, "contents[0].parts[0].text"),
    (
        {"contents": [{"parts": [{"inlineData": {"data": 7}}]}]},
        "contents[0].parts[0].inlineData.data",
    ),
    (
        {"contents": [{"parts": [{"functionCall": {"name": "f", "args": "{}"}}]}]},
        "contents[0].parts[0].functionCall.args",
    ),
    (
        {"contents": [{"parts": [{"functionResponse": {"response": "42"}}]}]},
        "contents[0].parts[0].functionResponse.response",
    ),
    ({"systemInstruction": {}}, "systemInstruction.parts"),
    ({"system_instruction": {"parts": [{"text": 7}]}}, "system_instruction.parts[0].text"),
    ({"generationConfig": {"stopSequences": "END"}}, "generationConfig.stopSequences"),
    ({"tools": {}}, "tools"),
    ({"tools": [{"functionDeclarations": {}}]}, "tools[0].functionDeclarations"),
    ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
    ({"tools": [{"function_declarations": [7]}]}, "tools[0].function_declarations[0]"),
    ({"toolConfig": []}, "toolConfig"),
    (
        {"toolConfig": {"functionCallingConfig": {"mode": 1}}},
        "toolConfig.functionCallingConfig.mode",
    ),
]


@pytest.mark.parametrize(("changes", "param"), JUDGED_UPSTREAM, ids=str)
def test_what_only_an_upstream_can_judge_is_forwarded(changes: dict[str, Any], param: str) -> None:
    body = encoded({**GEMINI, **changes})
    request = read(body)
    assert request.fault is not None
    assert request.fault.param == param
    assert request.fault.message.startswith(param)
    assert upstream_body(request, upstream_model="m", default_max_tokens=None) == body


@pytest.mark.parametrize(("changes", "param"), FAULTS, ids=str)
def test_fault_is_named(changes: dict[str, Any], param: str) -> None:
    fault = refused(lambda: read_gemini(**changes))
    assert fault.param == param
    assert "expected" in fault.message


def test_missing_contents_are_named() -> None:
    assert refused(lambda: read(b"{}")).param == "contents"


@pytest.mark.parametrize("name", ["Contents", "generationconfig", "Generation_Config"])
def test_name_that_an_upstream_may_take_for_another_is_refused(name: str) -> None:
    assert refused(lambda: read_gemini(**{name: {}})).param == name


SINGLE: dict[str, Any] = {
    "contents": {"role": "user", "parts": {"text": "Hi"}},
    "systemInstruction": {"parts": {"text": "Be brief."}},
    "tools": {"functionDeclarations": {"name": "f"}, "googleSearch": {}},
}


def test_one_object_in_place_of_an_array_is_forwarded() -> None:
    body = encoded(SINGLE)
    request = read(body)
    assert request.builtin_tools == ("web_search",)
    assert request.content_bytes == len(encoded(SINGLE["contents"]))
    assert request.parameters == {"contents": "1"}
    assert upstream_body(request, upstream_model="m", default_max_tokens=None) == body
    assert request.fault is not None
    assert request.fault.param == "contents"
    longer = upstream_body(request, upstream_model="m", default_max_tokens=7)
    assert json.loads(longer) == {**SINGLE, "generationConfig": {"maxOutputTokens": 7}}
