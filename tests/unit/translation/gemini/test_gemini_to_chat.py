"""Requests of native-content clients for upstreams that speak chat, trap by trap."""

from typing import Any

import pytest

from channels.errors import InvalidRequest
from channels.translation.identifiers import made_id
from channels.translation.model import (
    Format,
    Media,
    Reasoning,
    Text,
    Thinking,
    ToolChoice,
    ToolResult,
)
from channels.translation.session import codec
from channels.translation.turns import EMPTY
from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import (
    ESCAPE,
    HI,
    call,
    called,
    file,
    inline,
    model,
    request_of,
    result,
    text,
    thought,
    user,
)
from tests.unit.translation.pieces import JPEG, PNG, USER, assistant, system
from tests.unit.translation.pieces import image_url as image
from tests.unit.translation.pieces import result as tool
from tests.unit.translation.translated import translated

FIRST = made_id("native", "1", "f")
SECOND = made_id("native", "2", "f")


# name: contents of a native-content client, the messages of chat, and what was dropped.
CONVERSATIONS: dict[str, tuple[Any, ...]] = {
    "a turn without a role is the user's": ([{"parts": [{"text": "hi"}]}], [USER]),
    "neighbours of one role are one turn": (
        [HI, HI, model("a"), model("b")],
        [
            {"role": "user", "content": [{"type": "text", "text": "hi"}] * 2},
            assistant([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ],
    ),
    "a turn that says nothing": ([HI, model(), model({})], [USER, assistant("")]),
    "a call without an id gets one, and its result the same": (
        [HI, model(call()), user(result(response={"output": "42"}))],
        [USER, called((FIRST, "f", "{}")), tool(FIRST, "42")],
    ),
    "a tool that failed is named by what said so": (
        [HI, model(call()), user(result(response={"error": "broke"}))],
        [USER, called((FIRST, "f", "{}")), tool(FIRST, "broke")],
        "contents.parts.functionResponse.response.error",
    ),
    "the role of functions is the user's": (
        [HI, model(call()), {"role": "function", "parts": [result(response={"output": "42"})]}],
        [USER, called((FIRST, "f", "{}")), tool(FIRST, "42")],
    ),
    "parallel calls of one name, first in first out": (
        [
            HI,
            model(call(args={"x": 1}), call(args={"x": 2})),
            user(result(response={"output": "1"}), result(response={"output": "2"})),
        ],
        [
            USER,
            called((FIRST, "f", '{"x":1}'), (SECOND, "f", '{"x":2}')),
            tool(FIRST, "1"),
            tool(SECOND, "2"),
        ],
    ),
    "results are matched by name": (
        [
            HI,
            model(call("f"), call("g")),
            user(result("g", {"output": "g"}), result("f", {"output": "f"})),
        ],
        [
            USER,
            called((FIRST, "f", "{}"), (made_id("native", "2", "g"), "g", "{}")),
            tool(made_id("native", "2", "g"), "g"),
            tool(FIRST, "f"),
        ],
    ),
    "an id that came is kept, and results may leave it out": (
        [
            HI,
            model(call(id="x"), call(id="y")),
            user(result(id="y", response={"output": "y"}), result(response={"output": "x"})),
        ],
        [USER, called(("x", "f", "{}"), ("y", "f", "{}")), tool("y", "y"), tool("x", "x")],
    ),
    "an empty result": (
        [HI, model(call(id="x")), user(result(id="x", response={"output": ""}))],
        [USER, called(("x", "f", "{}")), tool("x", "")],
    ),
    "a call without arguments": (
        [HI, model({"functionCall": {"name": "f", "id": "x"}})],
        [USER, called(("x", "f", "{}"))],
    ),
    "the signature of a call is dropped, the value that skips it is not missed": (
        [HI, model(call(id="x", signature="sig")), model(call(id="y", signature=ESCAPE))],
        [USER, called(("x", "f", "{}"), ("y", "f", "{}"))],
        "contents.parts.thoughtSignature",
    ),
    "inline data of the other base64, with the type of its bytes": (
        [user(inline("image/png", JPEG.replace("/", "_")))],
        [{"role": "user", "content": [image(f"data:image/jpeg;base64,{JPEG}")]}],
    ),
    "a file that the provider stores": (
        [user("see", file("gs://bucket/cat.png", mimeType="image/png"))],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "text", "text": "[gs://bucket/cat.png]"},
                ],
            }
        ],
        "contents.parts.fileData",
    ),
    "a video": (
        [user("see", file("https://www.youtube.com/watch?v=x"))],
        [{"role": "user", "content": "see"}],
        "contents.parts.fileData",
    ),
    "code that the provider ran": (
        [
            HI,
            model(
                "so",
                {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
            ),
        ],
        [
            USER,
            assistant(
                [
                    {"type": "text", "text": "so"},
                    {"type": "text", "text": "\n```python\nprint(1)\n```\n"},
                    {"type": "text", "text": "\n```\n1\n```\n"},
                ]
            ),
        ],
        "contents.parts.executableCode",
        "contents.parts.codeExecutionResult",
    ),
    "the other spelling of members": (
        [
            HI,
            model({"function_call": {"name": "f", "id": "x", "args": {"my_key": 1}}}),
            user({"function_response": {"name": "f", "response": {"out_put": "1"}}}),
            model("a"),
            user({"inline_data": {"mime_type": "image/png", "data": PNG}}),
        ],
        [
            USER,
            called(("x", "f", '{"my_key":1}')),
            tool("x", '{"out_put":"1"}'),
            assistant("a"),
            {"role": "user", "content": [image(f"data:image/png;base64,{PNG}")]},
        ],
    ),
}


@each("name", CONVERSATIONS)
def test_conversation_of_gemini_arrives(name: str) -> None:
    contents, messages, *dropped = CONVERSATIONS[name]
    body, found = translated("native", "chat", request_of(*contents))
    assert body["messages"] == messages
    assert found == dropped


def parts_of(*parts: Any, role: str = "model") -> tuple[Any, ...]:
    """The canonical parts of one turn."""
    request = codec("native").decode_request(
        request_of({"role": role, "parts": [text(one) for one in parts]})
    )
    return request.turns[0].parts


@cases(
    "parts, expected",
    ([thought("a"), thought("b", "s")], (Thinking("ab", "s", "native"),)),
    ([thought("a"), thought("b")], (Thinking("ab"),)),
    ([thought("a", "s"), thought("b")], (Thinking("a", "s", "native"), Thinking("b"))),
    ([thought("a"), thought("", "s")], (Thinking("a", "s", "native"),)),
    ([thought("a"), "x", thought("b")], (Thinking("a"), Text("x"), Thinking("b"))),
    ([{"text": "x", "thoughtSignature": "s"}], (Text("x"), Thinking("", "s", "native"))),
    ([thought("a", ESCAPE)], (Thinking("a"),)),
    ([thought("")], (EMPTY,)),
)
def test_thoughts_come_in_pieces_and_are_signed_at_their_end(
    parts: list[Any], expected: tuple[Any, ...]
) -> None:
    assert parts_of(*parts) == expected


def test_media_in_a_result_and_an_error_are_read() -> None:
    stated = result(id="x", response={"error": "broke"}, parts=[inline("image/png", PNG)])
    (read,) = parts_of(stated, role="user")
    assert read == ToolResult(
        "x", "f", (Text("broke"), Media("image", "image/png", data=PNG)), is_error=True
    )


def test_system_instruction_is_read_in_both_spellings_and_forms() -> None:
    for name in ("systemInstruction", "system_instruction"):
        for stated in (user({"text": "s"}), {"parts": [{"text": "s"}]}):
            body, dropped = translated("native", "chat", request_of(**{name: stated}))
            assert body["messages"][0] == system("s")
            assert dropped == []


F = {"functionDeclarations": [{"name": "f"}, {"name": "g"}]}
OBJECT = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@cases(
    "calling, choice, left_over",
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
)
def test_choice_of_tools_is_read(
    calling: dict[str, Any], choice: ToolChoice | None, left_over: dict[str, Any]
) -> None:
    body = request_of(tools=[F], toolConfig={"functionCallingConfig": calling})
    request = codec("native").decode_request(body)
    assert request.tool_choice == choice
    assert request.extras == left_over


@cases(
    "config, form, left_over",
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
)
def test_form_of_the_answer_is_read(
    config: dict[str, Any], form: Format | None, left_over: dict[str, Any]
) -> None:
    request = codec("native").decode_request(request_of(generationConfig=config))
    assert request.format == form
    assert request.extras == left_over


@cases(
    "thinking, reasoning",
    ({}, None),
    ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, None),
    ({"thinkingLevel": "low"}, Reasoning(effort="low")),
    ({"thinking_level": "HIGH"}, Reasoning(effort="high")),
    ({"thinkingBudget": 0}, Reasoning(is_enabled=False)),
    ({"thinkingBudget": -1}, Reasoning(is_enabled=True)),
    ({"thinkingBudget": 512}, Reasoning(budget_tokens=512)),
    ({"includeThoughts": True}, Reasoning(shows_thoughts=True)),
)
def test_thinking_is_read(thinking: dict[str, Any], reasoning: Reasoning | None) -> None:
    request = codec("native").decode_request(
        request_of(generationConfig={"thinkingConfig": thinking})
    )
    assert request.reasoning == reasoning


@cases(
    "members, param",
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
)
def test_wrong_member_is_refused_by_its_name(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        codec("native").decode_request(request_of(**members))
    assert refused.value.param == param
