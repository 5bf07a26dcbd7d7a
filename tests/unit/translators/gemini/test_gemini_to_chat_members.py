"""Tools, config and the rest of a native-content request, read and for upstreams of chat."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.gemini import codec as gemini
from channels.errors import InvalidRequest
from channels.translation.model import Format, Reasoning, ToolChoice
from tests.unit.translators.gemini.pieces import asked
from tests.unit.translators.wire import translated

F = {"functionDeclarations": [{"name": "f"}, {"name": "g"}]}
OBJECT = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("calling", "choice", "left_over"),
    [
        ({"mode": "AUTO"}, ToolChoice("auto"), {}),
        ({"mode": "auto"}, ToolChoice("auto"), {}),
        ({"mode": "NONE"}, ToolChoice("none"), {}),
        ({"mode": "ANY"}, ToolChoice("required"), {}),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ToolChoice("named", "f"), {}),
        (
            {"mode": "ANY", "allowed_function_names": ["f", "g"]},
            ToolChoice("required", allowed=("f", "g")),
            {},
        ),
        ({"mode": "MODE_UNSPECIFIED"}, None, {}),
        ({}, None, {}),
        (
            {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
            ToolChoice("auto", allowed=("f",)),
            {"toolConfig.functionCallingConfig.mode": "VALIDATED"},
        ),
        (
            {"mode": "AUTO", "streamFunctionCallArguments": True},
            ToolChoice("auto"),
            {"toolConfig.functionCallingConfig.streamFunctionCallArguments": True},
        ),
    ],
)
def test_choice_of_tools_is_read(
    calling: dict[str, Any], choice: ToolChoice | None, left_over: dict[str, Any]
) -> None:
    body = asked(tools=[F], toolConfig={"functionCallingConfig": calling})
    request = gemini.decode_request(body)
    assert request.tool_choice == choice
    assert request.extras == left_over


@pytest.mark.parametrize(
    ("config", "form", "left_over"),
    [
        ({}, None, {}),
        ({"responseMimeType": "text/plain"}, Format("text"), {}),
        ({"responseMimeType": "application/json"}, Format("json"), {}),
        (
            {"responseMimeType": "application/json", "responseSchema": OBJECT},
            Format("schema", schema=CLOSED, is_strict=True),
            {},
        ),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "string"}},
            Format("schema", schema={"type": "string"}, is_strict=True),
            {},
        ),
        (
            {"_responseJsonSchema": {"type": "string"}},
            Format("schema", schema={"type": "string"}, is_strict=True),
            {},
        ),
        (
            {"response_mime_type": "text/x.enum", "responseSchema": {"enum": ["a"]}},
            None,
            {
                "generationConfig.responseMimeType": "text/x.enum",
                "generationConfig.responseSchema": {"enum": ["a"]},
            },
        ),
    ],
)
def test_form_of_the_answer_is_read(
    config: dict[str, Any], form: Format | None, left_over: dict[str, Any]
) -> None:
    request = gemini.decode_request(asked(generationConfig=config))
    assert request.format == form
    assert request.extras == left_over


@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        ({}, None),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, None),
        ({"thinkingLevel": "low"}, Reasoning(effort="low")),
        ({"thinking_level": "HIGH"}, Reasoning(effort="high")),
        ({"thinkingBudget": 0}, Reasoning(is_enabled=False)),
        ({"thinkingBudget": -1}, Reasoning(is_enabled=True)),
        ({"thinkingBudget": 512}, Reasoning(budget_tokens=512)),
        ({"includeThoughts": True}, Reasoning(shows_thoughts=True)),
    ],
)
def test_thinking_is_read(thinking: dict[str, Any], reasoning: Reasoning | None) -> None:
    request = gemini.decode_request(asked(generationConfig={"thinkingConfig": thinking}))
    assert request.reasoning == reasoning


@pytest.mark.parametrize(
    ("members", "param"),
    [
        (
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}},
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": -5}}},
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
        ({"generationConfig": {"stopSequences": [1]}}, "generationConfig.stopSequences"),
        ({"generationConfig": {"seed": "x"}}, "generationConfig.seed"),
        ({"generationConfig": {"topK": 0.5}}, "generationConfig.topK"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
        (
            {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": [1]}}},
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
    ],
)
def test_wrong_member_is_refused_by_its_name(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        gemini.decode_request(asked(**members))
    assert refused.value.param == param


def test_sampling_arrives() -> None:
    config = {
        "maxOutputTokens": 7,
        "temperature": 0.5,
        "topP": 0.25,
        "topK": 40.0,
        "stopSequences": ["a"],
        "seed": 3,
        "presencePenalty": 1,
        "frequencyPenalty": -1,
        "candidateCount": 1,
    }
    assert gemini.decode_request(asked(generationConfig=config)).max_tokens == 7
    body, dropped = translated("native", "chat", asked(generation_config=config))
    assert {name: body[name] for name in ("temperature", "top_p", "stop", "seed")} == {
        "temperature": 0.5,
        "top_p": 0.25,
        "stop": ["a"],
        "seed": 3,
    }
    assert (body["presence_penalty"], body["frequency_penalty"]) == (1, -1)
    assert dropped == ["generationConfig.topK"]


def test_functions_arrive_with_json_schemas() -> None:
    declared = [
        {"name": "f", "description": "d", "parameters": OBJECT},
        {"name": "g", "parametersJsonSchema": {"type": "object", "properties": {}}},
        {"name": "h"},
    ]
    body, dropped = translated(
        "native", "chat", asked(tools=[{"functionDeclarations": declared}, {"googleSearch": {}}])
    )
    schema = {name: value for name, value in CLOSED.items() if name != "additionalProperties"}
    assert [tool["function"] for tool in body["tools"]] == [
        {"name": "f", "description": "d", "parameters": schema},
        {"name": "g", "parameters": {"type": "object", "properties": {}}},
        {"name": "h"},
    ]
    assert dropped == ["tools.googleSearch"]


def test_schema_of_an_answer_is_enforced_where_chat_can() -> None:
    config = {"responseMimeType": "application/json", "responseSchema": OBJECT}
    body, dropped = translated("native", "chat", asked(generationConfig=config))
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"] == CLOSED
    assert dropped == []
    open_config = {**config, "responseSchema": {**OBJECT, "required": []}}
    body, dropped = translated("native", "chat", asked(generationConfig=open_config))
    assert body["response_format"]["json_schema"]["strict"] is False
    assert dropped == ["generationConfig.responseSchema"]
