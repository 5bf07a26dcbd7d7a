"""Tools, sampling and the rest of a chat or messages request for upstreams of native-content."""

from __future__ import annotations

from typing import Any

from channels.dialects.gemini.codec import tool_names
from channels.translation.model import Protocol
from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import encoded
from tests.unit.translation.pieces import assistant, call, result, text, user
from tests.unit.translation.wire import decoded, translated

USER = user("hi")
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def function(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


def chat(**members: Any) -> tuple[dict[str, Any], list[str]]:
    return translated("chat", "native", {"model": "m", "messages": [USER], **members})


def messages(**members: Any) -> tuple[dict[str, Any], list[str]]:
    body = {"model": "m", "max_tokens": 9, "messages": [USER], **members}
    return translated("messages", "native", body)


def schema_format(**members: Any) -> dict[str, Any]:
    form = {"name": "n", "schema": OBJECT, **members}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


TITLED = {**OBJECT, "title": "n"}

# name: members of a chat request, the generation config but for its maximum, and what was dropped.
CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "nothing said": ({}, {}, []),
    "sampling": (
        {"temperature": 0, "top_p": 0.5, "top_k": 3},
        {"temperature": 0, "topP": 0.5, "topK": 3},
        [],
    ),
    "penalties": (
        {"presence_penalty": -1, "frequency_penalty": 0.5},
        {"presencePenalty": -1, "frequencyPenalty": 0.5},
        [],
    ),
    "seed": ({"seed": 0}, {"seed": 0}, []),
    "a seed that is too long": ({"seed": 2**31}, {}, ["seed"]),
    "one answer": ({"n": 1}, {}, []),
    "several answers": ({"n": 2}, {}, ["n"]),
    "stop as text": ({"stop": "END"}, {"stopSequences": ["END"]}, []),
    "stop as a list": ({"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}, []),
    "text": ({"response_format": {"type": "text"}}, {"responseMimeType": "text/plain"}, []),
    "json": (
        {"response_format": {"type": "json_object"}},
        {"responseMimeType": "application/json"},
        [],
    ),
    "a schema": (
        schema_format(strict=True),
        {"responseMimeType": "application/json", "responseSchema": TITLED},
        [],
    ),
    "a schema with a title of its own": (
        schema_format(schema={**OBJECT, "title": "t"}),
        {"responseMimeType": "application/json", "responseSchema": {**OBJECT, "title": "t"}},
        ["response_format.json_schema.name"],
    ),
    "a schema is enforced, asked or not": (
        schema_format(strict=False, description="d"),
        {
            "responseMimeType": "application/json",
            "responseSchema": {**TITLED, "description": "d"},
        },
        ["response_format.json_schema.strict"],
    ),
    "a schema that says more": (
        schema_format(schema={**OBJECT, "additionalProperties": False}),
        {"responseMimeType": "application/json", "responseSchema": TITLED},
        ["response_format.json_schema.schema.additionalProperties"],
    ),
    "effort": ({"reasoning_effort": "low"}, {"thinkingConfig": {"thinkingLevel": "LOW"}}, []),
    "no effort": ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingBudget": 0}}, []),
    "more effort than there is": (
        {"reasoning_effort": "max"},
        {"thinkingConfig": {"thinkingLevel": "XHIGH"}},
        ["reasoning_effort"],
    ),
    "images to be made": (
        {"modalities": ["text", "image"]},
        {"responseModalities": ["TEXT", "IMAGE"]},
        [],
    ),
    "speech to be made": ({"modalities": ["text", "audio"]}, {}, ["modalities"]),
    "who asks": ({"user": "u"}, {}, ["user"]),
    "what only chat knows": (
        {"store": True, "logit_bias": {"1": 2}, "logprobs": True},
        {},
        ["store", "logit_bias", "logprobs"],
    ),
    "what happens anyway": (
        {"store": False, "logprobs": False, "parallel_tool_calls": True},
        {},
        [],
    ),
}


@each("name", CONFIGS)
def test_config_of_chat_arrives(name: str) -> None:
    members, config, dropped = CONFIGS[name]
    body, found = chat(**members)
    assert body["generationConfig"] == {"maxOutputTokens": 4000, **config}
    assert found == dropped
    assert body.keys() == {"contents", "generationConfig"}


# name: members of a messages request, the thinking config, and what was dropped.
THINKING: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[str]]] = {
    "a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"thinkingBudget": 2000, "includeThoughts": True},
        [],
    ),
    "as the model sees fit": (
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"thinkingBudget": -1, "includeThoughts": False},
        [],
    ),
    "off": ({"thinking": {"type": "disabled"}}, {"thinkingBudget": 0}, []),
    "effort": ({"output_config": {"effort": "medium"}}, {"thinkingLevel": "MEDIUM"}, []),
    "effort and a budget": (
        {
            "output_config": {"effort": "high"},
            "thinking": {"type": "enabled", "budget_tokens": 2000},
        },
        {"thinkingLevel": "HIGH", "includeThoughts": True},
        ["thinking.budget_tokens"],
    ),
    "not said": ({}, None, []),
}


@each("name", THINKING)
def test_thinking_of_messages_arrives(name: str) -> None:
    members, thinking, dropped = THINKING[name]
    body, found = messages(**members)
    assert body["generationConfig"].get("thinkingConfig") == thinking
    assert found == dropped


@cases(
    "effort, thinking",
    ("minimal", {"thinkingBudget": 1024}),
    ("low", {"thinkingBudget": 1024}),
    ("medium", {"thinkingBudget": 8192}),
    ("high", {"thinkingBudget": 24576}),
)
def test_effort_for_an_older_model_is_a_number_and_told(
    effort: str, thinking: dict[str, int]
) -> None:
    request = decoded("chat", {"model": "m", "messages": [USER], "reasoning_effort": effort})
    body, dropped = encoded(request, upstream_model="gemini-2.5-flash")
    assert body["generationConfig"]["thinkingConfig"] == thinking
    assert dropped == ["reasoning_effort"]


# name: members of a chat request, `functionCallingConfig`, the functions' names, what was dropped.
NAMED = {"type": "function", "function": {"name": "g"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
REQUIRED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
TWO = [function("f"), function("g")]
CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[str], list[str]]] = {
    "none said": ({"tools": TWO}, None, ["f", "g"], []),
    "auto": ({"tools": TWO, "tool_choice": "auto"}, {"mode": "AUTO"}, ["f", "g"], []),
    "none": ({"tools": TWO, "tool_choice": "none"}, {"mode": "NONE"}, ["f", "g"], []),
    "required": ({"tools": TWO, "tool_choice": "required"}, {"mode": "ANY"}, ["f", "g"], []),
    "named": (
        {"tools": TWO, "tool_choice": NAMED},
        {"mode": "ANY", "allowedFunctionNames": ["g"]},
        ["f", "g"],
        [],
    ),
    "some of them required": (
        {"tools": TWO, "tool_choice": REQUIRED},
        {"mode": "ANY", "allowedFunctionNames": ["g"]},
        ["f", "g"],
        [],
    ),
    "some of them allowed": ({"tools": TWO, "tool_choice": ALLOWED}, {"mode": "AUTO"}, ["g"], []),
    "one at a time": (
        {"tools": TWO, "parallel_tool_calls": False},
        None,
        ["f", "g"],
        ["parallel_tool_calls"],
    ),
    "required without tools": ({"tool_choice": "required"}, None, [], ["tool_choice"]),
    "none without tools": ({"tool_choice": "none"}, None, [], []),
    "a tool of the provider's": (
        {"tools": [{"type": "web_search"}]},
        None,
        [],
        ["tools.web_search"],
    ),
    "a strict one": (
        {"tools": [function(strict=True)]},
        None,
        ["f"],
        ["tools.function.strict"],
    ),
}


@each("name", CHOICES)
def test_choice_of_tools_arrives(name: str) -> None:
    members, calling, functions, dropped = CHOICES[name]
    body, found = chat(**members)
    declared = [
        one["name"] for tool in body.get("tools", ()) for one in tool["functionDeclarations"]
    ]
    assert declared == functions
    assert body.get("toolConfig", {}).get("functionCallingConfig") == calling
    assert found == dropped


def test_changed_names_are_mapped_back_and_used_everywhere() -> None:
    body = {
        "model": "m",
        "messages": [
            USER,
            {"role": "assistant", "tool_calls": [call("c", "{}", name="3d")]},
            result("c", "x"),
        ],
        "tools": [function("3d"), function("a.b"), function("x" * 70), function("ok")],
        "tool_choice": {"type": "function", "function": {"name": "3d"}},
    }
    request = decoded("chat", body)
    names = tool_names(request)
    assert sorted(names.values()) == ["3d", "a.b", "x" * 70]
    back = {client: upstream for upstream, client in names.items()}
    sent, _ = encoded(request)
    declared = [one["name"] for one in sent["tools"][0]["functionDeclarations"]]
    assert declared == [back["3d"], back["a.b"], back["x" * 70], "ok"]
    assert all(len(name) <= 64 and (name[0].isalpha() or name[0] == "_") for name in declared)
    calling = sent["toolConfig"]["functionCallingConfig"]
    assert calling["allowedFunctionNames"] == [back["3d"]]
    assert sent["contents"][1]["parts"][0]["functionCall"]["name"] == back["3d"]
    assert sent["contents"][2]["parts"][0]["functionResponse"]["name"] == back["3d"]


@cases("parameters", None, {}, {"type": "object"}, {**OBJECT, "properties": {}})
def test_function_without_parameters_has_no_empty_object(parameters: Any) -> None:
    members = {} if parameters is None else {"parameters": parameters}
    body, _ = chat(tools=[function(description="d", **members)])
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert "parameters" not in declared
    assert declared["description"] == "d"


@cases(
    "client, body, dropped",
    (
        "messages",
        {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
        ["system.cache_control"],
    ),
    (
        "messages",
        {
            "messages": [
                assistant([text("x")]),
                user(
                    [
                        {
                            "type": "tool_result",
                            "tool_use_id": "gone",
                            "content": "e",
                            "is_error": True,
                        }
                    ]
                ),
            ]
        },
        ["messages.role"],
    ),
    ("messages", {"metadata": {"user_id": "u"}}, ["metadata.user_id"]),
    (
        "messages",
        {
            "messages": [
                USER,
                assistant(
                    [
                        {"type": "thinking", "thinking": "hm", "signature": "theirs"},
                        {"type": "redacted_thinking", "data": "x"},
                        text("hello"),
                    ]
                ),
                USER,
            ]
        },
        ["messages.thinking"],
    ),
)
def test_member_that_cannot_be_said_is_listed(
    client: Protocol, body: dict[str, Any], dropped: list[str]
) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [USER], **body}
    assert translated(client, "native", body)[1] == dropped


def test_error_of_a_tool_is_an_error() -> None:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    given = {"type": "tool_result", "tool_use_id": "t", "content": "broke", "is_error": True}
    body, dropped = messages(messages=[USER, assistant([use]), user([given])])
    (part,) = body["contents"][2]["parts"]
    assert part["functionResponse"]["response"] == {"error": "broke"}
    assert dropped == []
