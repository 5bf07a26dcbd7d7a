"""Requests of chat and messages clients for upstreams of native-content, trap by trap."""

from typing import Any

from channels.dialects.gemini.encode import tool_names
from channels.dialects.gemini.function_responses import write_response
from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import (
    ESCAPE,
    HI,
    call,
    called,
    encoded,
    file,
    inline,
    model,
    result,
    thought,
    user,
)
from tests.unit.translation.pieces import ASSISTANT, PNG, USER, developer, image_url
from tests.unit.translation.pieces import result as tool
from tests.unit.translation.pieces import tool as function
from tests.unit.translation.pieces import user as chat_user
from tests.unit.translation.translated import decoded, translated


def image(url: str, **members: Any) -> dict[str, Any]:
    return chat_user([image_url(url, **members)])


def signed_call(format_name: str = "google") -> dict[str, Any]:
    message = called(("c", "f", "{}"))
    message["tool_calls"][0]["extra_content"] = {format_name: {"thought_signature": "sig"}}
    return message


def details(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "reasoning.text", "format": "google-gemini-v1", **one} for one in entries]


F = ("c", "f", "{}")

# name: content of a tool's message, and the response that it is.
RESULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a call and its result, by name and id": ("42", {"output": "42"}),
    "a result that is an object stays one": ('{"a": [1, 2]}', {"a": [1, 2]}),
    "a result that is any other JSON is wrapped": ("[1]", {"output": "[1]"}),
    "an empty result": ("", {"output": ""}),
    "a result in parts": ([{"type": "text", "text": t} for t in ("a", "b")], {"output": "a\nb"}),
}
# name: messages of chat, then systemInstruction's texts, contents, and what was dropped.
CONVERSATIONS: dict[str, tuple[Any, ...]] = {
    "system and developer are instructions": (
        [{"role": "system", "content": "a"}, developer("b"), USER],
        ["a", "b"],
        [HI],
    ),
    "system in the middle stays where it was, in the user's turn": (
        [USER, ASSISTANT, {"role": "system", "content": "rhyme"}, USER],
        [],
        [HI, model("hello"), user("rhyme", "hi")],
        "messages.role",
    ),
    "instructions alone are what is asked": (
        [{"role": "system", "content": "a"}],
        [],
        [user("a")],
        "messages.role",
    ),
    "neighbours of one role are one turn": (
        [USER, USER, ASSISTANT, ASSISTANT],
        [],
        [user("hi", "hi"), model("hello", "hello")],
    ),
    "empty texts are left out": (
        [{"role": "user", "content": [{"type": "text", "text": text} for text in ("", "hi")]}],
        [],
        [HI],
    ),
    **{
        name: (
            [USER, called(F), tool("c", content)],
            [],
            [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", response, id="c"))],
        )
        for name, (content, response) in RESULTS.items()
    },
    "an image in a result follows all results": (
        [
            USER,
            called(F, ("d", "g", "{}")),
            tool("c", image(f"data:image/png;base64,{PNG}")["content"]),
            tool("d", "x"),
        ],
        [],
        [
            HI,
            model(call("f", {}, ESCAPE, id="c"), call("g", {}, id="d")),
            user(
                result("f", {"output": ""}, id="c"),
                result("g", {"output": "x"}, id="d"),
            ),
            user(inline("image/png", PNG)),
        ],
    ),
    "parallel calls of one name stay apart, results in the order of the calls": (
        [USER, called(F, ("d", "f", '{"x":1}')), tool("d", "2"), tool("c", "1"), USER],
        [],
        [
            HI,
            model(call("f", {}, ESCAPE, id="c"), call("f", {"x": 1}, id="d")),
            user(result("f", {"output": "1"}, id="c"), result("f", {"output": "2"}, id="d")),
            HI,
        ],
    ),
    "a result of no call is what the user says": (
        [USER, ASSISTANT, tool("gone", "42")],
        [],
        [HI, model("hello"), user("42")],
        "messages.role",
    ),
    "arguments that are no object are kept and told": (
        [USER, called(("c", "f", "{nonsense")), tool("c", "x")],
        [],
        [
            HI,
            model(call("f", {"raw_arguments": "{nonsense"}, ESCAPE, id="c")),
            user(result("f", {"output": "x"}, id="c")),
        ],
        "messages.tool_calls.function.arguments",
    ),
    "a conversation that begins with a call": (
        [called(F), tool("c", "x")],
        [],
        [
            user("."),
            model(call("f", {}, ESCAPE, id="c")),
            user(result("f", {"output": "x"}, id="c")),
        ],
        "messages.role",
    ),
    "the provider's own signature comes back on its call, and nothing is made up": (
        [USER, signed_call(), tool("c", "x")],
        [],
        [HI, model(call("f", {}, "sig", id="c")), user(result("f", {"output": "x"}, id="c"))],
    ),
    "another provider's signature is dropped": (
        [USER, signed_call("anthropic"), tool("c", "x")],
        [],
        [HI, model(call("f", {}, ESCAPE, id="c")), user(result("f", {"output": "x"}, id="c"))],
        "messages.tool_calls.extra_content",
    ),
    "every step of calls has its own first": (
        [USER, called(F), tool("c", "x"), called(("d", "f", "{}"), ("e", "f", "{}"))],
        [],
        [
            HI,
            model(call("f", {}, ESCAPE, id="c")),
            user(result("f", {"output": "x"}, id="c")),
            model(call("f", {}, ESCAPE, id="d"), call("f", {}, id="e")),
        ],
    ),
    "a thought with its proof": (
        [USER, {**ASSISTANT, "reasoning_details": details({"text": "hm", "signature": "s"})}, USER],
        [],
        [HI, model(thought("hm", "s"), "hello"), HI],
    ),
    "the signature of a text comes back on the text": (
        [USER, {**ASSISTANT, "reasoning_details": details({"text": "", "signature": "s"})}, USER],
        [],
        [HI, model({"text": "hello", "thoughtSignature": "s"}), HI],
    ),
    "an address is a file": (
        [image("https://a.example/cat.webp?x=1")],
        [],
        [user(file("https://a.example/cat.webp?x=1", mimeType="image/webp"))],
    ),
    "an address that tells no type is most likely a photo": (
        [image("https://a.example/cat")],
        [],
        [user(file("https://a.example/cat", mimeType="image/jpeg"))],
    ),
}


@each("name", CONVERSATIONS)
def test_conversation_of_chat_arrives(name: str) -> None:
    messages, system, contents, *dropped = CONVERSATIONS[name]
    body, found = translated("chat", "native", {"model": "m", "messages": messages})
    assert body["contents"] == contents
    assert [
        part["text"] for part in body.get("systemInstruction", {"parts": []})["parts"]
    ] == system
    assert found == dropped


@cases(
    "details, resolution, dropped",
    (["low"], "MEDIA_RESOLUTION_LOW", []),
    (["high", "high"], "MEDIA_RESOLUTION_HIGH", []),
    (["auto"], None, []),
    (["low", "auto"], None, ["messages.image_url.detail"]),
    (["low", "high"], "MEDIA_RESOLUTION_HIGH", ["messages.image_url.detail"]),
    (["original"], None, ["messages.image_url.detail"]),
)
def test_detail_of_images_is_the_resolution_of_all(
    details: list[str], resolution: str | None, dropped: list[str]
) -> None:
    messages = [image(f"data:image/png;base64,{PNG}", detail=detail) for detail in details]
    body, found = translated("chat", "native", {"model": "m", "messages": messages})
    assert body["generationConfig"].get("mediaResolution") == resolution
    assert found == dropped


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


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
CONFIGS: dict[str, tuple[Any, ...]] = {
    "nothing said": ({}, {}),
    "seed": ({"seed": 0}, {"seed": 0}),
    "a seed that is too long": ({"seed": 2**31}, {}, "seed"),
    "one answer": ({"n": 1}, {}),
    "text": ({"response_format": {"type": "text"}}, {"responseMimeType": "text/plain"}),
    "a schema": (
        schema_format(strict=True),
        {"responseMimeType": "application/json", "responseSchema": TITLED},
    ),
    "a schema with a title of its own": (
        schema_format(schema={**OBJECT, "title": "t"}),
        {"responseMimeType": "application/json", "responseSchema": {**OBJECT, "title": "t"}},
        "response_format.json_schema.name",
    ),
    "a schema is enforced, asked or not": (
        schema_format(strict=False, description="d"),
        {"responseMimeType": "application/json", "responseSchema": {**TITLED, "description": "d"}},
        "response_format.json_schema.strict",
    ),
    "a schema that says more": (
        schema_format(schema={**OBJECT, "additionalProperties": False}),
        {"responseMimeType": "application/json", "responseSchema": TITLED},
        "response_format.json_schema.schema.additionalProperties",
    ),
    "no effort": ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingBudget": 0}}),
    "more effort than there is": (
        {"reasoning_effort": "max"},
        {"thinkingConfig": {"thinkingLevel": "XHIGH"}},
        "reasoning_effort",
    ),
    "images to be made": (
        {"modalities": ["text", "image"]},
        {"responseModalities": ["TEXT", "IMAGE"]},
    ),
    "what happens anyway": ({"store": False, "logprobs": False, "parallel_tool_calls": True}, {}),
}


@each("name", CONFIGS)
def test_config_of_chat_arrives(name: str) -> None:
    members, config, *dropped = CONFIGS[name]
    body, found = chat(**members)
    assert body["generationConfig"] == {"maxOutputTokens": 4000, **config}
    assert found == dropped
    assert body.keys() == {"contents", "generationConfig"}


# name: members of a messages request, the thinking config, and what was dropped.
THINKING: dict[str, tuple[Any, ...]] = {
    "a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"thinkingBudget": 2000, "includeThoughts": True},
    ),
    "as the model sees fit": (
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"thinkingBudget": -1, "includeThoughts": False},
    ),
    "off": ({"thinking": {"type": "disabled"}}, {"thinkingBudget": 0}),
    "effort and a budget": (
        {
            "output_config": {"effort": "high"},
            "thinking": {"type": "enabled", "budget_tokens": 2000},
        },
        {"thinkingLevel": "HIGH", "includeThoughts": True},
        "thinking.budget_tokens",
    ),
    "not said": ({}, None),
}


@each("name", THINKING)
def test_thinking_of_messages_arrives(name: str) -> None:
    members, thinking, *dropped = THINKING[name]
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
def test_effort_for_an_older_model_is_a_number_and_reported(
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
CHOICES: dict[str, tuple[Any, ...]] = {
    "none said": ({"tools": TWO}, None, ["f", "g"]),
    "auto": ({"tools": TWO, "tool_choice": "auto"}, {"mode": "AUTO"}, ["f", "g"]),
    "none": ({"tools": TWO, "tool_choice": "none"}, {"mode": "NONE"}, ["f", "g"]),
    "required": ({"tools": TWO, "tool_choice": "required"}, {"mode": "ANY"}, ["f", "g"]),
    "named": (
        {"tools": TWO, "tool_choice": NAMED},
        {"mode": "ANY", "allowedFunctionNames": ["g"]},
        ["f", "g"],
    ),
    "some of them required": (
        {"tools": TWO, "tool_choice": REQUIRED},
        {"mode": "ANY", "allowedFunctionNames": ["g"]},
        ["f", "g"],
    ),
    "some of them allowed": ({"tools": TWO, "tool_choice": ALLOWED}, {"mode": "AUTO"}, ["g"]),
    "one at a time": (
        {"tools": TWO, "parallel_tool_calls": False},
        None,
        ["f", "g"],
        "parallel_tool_calls",
    ),
    "required without tools": ({"tool_choice": "required"}, None, [], "tool_choice"),
    "none without tools": ({"tool_choice": "none"}, None, []),
    "a tool of the provider's": ({"tools": [{"type": "web_search"}]}, None, [], "tools.web_search"),
    "a strict one": ({"tools": [function(strict=True)]}, None, ["f"], "tools.function.strict"),
}


@each("name", CHOICES)
def test_choice_of_tools_arrives(name: str) -> None:
    members, calling, functions, *dropped = CHOICES[name]
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
        "messages": [USER, called(("c", "3d", "{}")), tool("c", "x")],
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
    "text, written",
    ('{"a":1}', {"a": 1}),
    ('{"a": 1}', {"a": 1}),
    ('{"output":"x"}', {"output": '{"output":"x"}'}),
)
def test_result_that_is_an_object_becomes_that_object(text: str, written: Any) -> None:
    assert write_response([text], is_error=False) == written
