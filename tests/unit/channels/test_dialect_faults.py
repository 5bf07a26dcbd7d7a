"""What is wrong with a request of any dialect is named by its member, or left to its upstream."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from channels.dialects.gemini import request as gemini
from channels.dialects.messages import request as messages
from channels.dialects.responses import request as responses
from channels.errors import InvalidRequest
from tests.support.rows import each
from tests.unit.channels.dialect_bodies import GEMINI, MESSAGES, RESPONSES, encoded, refused

Faults = list[tuple[dict[str, Any], str]]  # members, and the one that is named


class Dialect(NamedTuple):
    """The smallest request of a dialect, and how its bodies are read and forwarded."""

    smallest: dict[str, Any]
    read: Callable[[bytes], Any]
    forwarded: Callable[[Any], bytes]


DIALECTS = {
    "messages": Dialect(
        MESSAGES,
        messages.read_request,
        lambda request: messages.upstream_body(request, upstream_model="m"),
    ),
    "responses": Dialect(
        RESPONSES,
        responses.read_request,
        lambda request: responses.upstream_body(
            request, upstream_model="m", default_max_tokens=None
        ),
    ),
    "gemini": Dialect(
        GEMINI,
        lambda body: gemini.read_request(body, model="m", stream=False),
        lambda request: gemini.upstream_body(request, upstream_model="m", default_max_tokens=None),
    ),
}

# Members that stand at the top, and values that none of them may have.
VALUES: dict[str, dict[str, list[Any]]] = {
    "messages": {
        "model": [None, "", 7, "m" * 257, "a\nb"],
        "max_tokens": [None, 0, -1, 1.5, "5", True, 2**60],
        "messages": [[], "Hi"],
        "system": [7],
        "stream": ["true", 1],
        "tools": [{}],
        "tool_choice": ["auto"],
        "temperature": ["1"],
        "inference_geo": [7, ["us"], {"type": "us"}],
    },
    "responses": {
        "model": [None, "", "a\x7fb"],
        "input": [None, [], {}, 7],
        "instructions": [["Hi"]],
        "stream": ["yes"],
        "max_output_tokens": [0, 1.5, "5"],
        "reasoning": ["low"],
        "temperature": ["1"],
        "top_p": [[]],
        "frequency_penalty": ["0"],
        "presence_penalty": [{}],
        "tools": [{}],
        "tool_choice": [7],
        "parallel_tool_calls": ["no"],
        "background": ["no"],
    },
    "gemini": {
        "contents": [None, [], "Hi"],
        "systemInstruction": ["Be brief."],
        "generationConfig": [[]],
    },
}

FAULTS: dict[str, Faults] = {
    "messages": [
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"tools": ["f"]}, "tools[0]"),
        ({"tools": [{"type": "", "name": "f"}]}, "tools[0].type"),
        ({"tools": [{"type": 7, "name": "f"}]}, "tools[0].type"),
    ],
    "responses": [
        ({"input": ["Hi"]}, "input[0]"),
        ({"input": [{}]}, "input[0].role"),
        ({"input": [{"content": "Hi"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": [{"type": 7}]}, "input[0].type"),
    ],
    "gemini": [
        ({"contents": {}}, "contents.parts"),
        ({"contents": {"parts": [], "role": "robot"}}, "contents.role"),
        ({"contents": ["Hi"]}, "contents[0]"),
        ({"contents": [{}]}, "contents[0].parts"),
        ({"contents": [{"parts": "Hi"}]}, "contents[0].parts"),
        ({"contents": [{"parts": [], "role": "assistant"}]}, "contents[0].role"),
        ({"contents": [{"parts": [], "role": 7}]}, "contents[0].role"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"maxOutputTokens": "5"}}, "generationConfig.maxOutputTokens"),
        ({"generation_config": {"max_output_tokens": 1.5}}, "generation_config.max_output_tokens"),
        ({"generationConfig": {"temperature": "1"}}, "generationConfig.temperature"),
        ({"tools": ["googleSearch"]}, "tools[0]"),
    ],
}


def message_of(part: Any) -> dict[str, Any]:
    """Members of a messages request with this block in its content."""
    return {"messages": [{"role": "user", "content": [part]}]}


def request_of(item: Any) -> dict[str, Any]:
    """Members of a responses request with this piece in its content."""
    return {"input": [{"role": "user", "content": [item]}]}


def put(part: Any) -> dict[str, Any]:
    """Members of a gemini request with this part."""
    return {"contents": [{"parts": [part]}]}


# Faults that only an upstream can judge: forwarded to one of this protocol.
JUDGED_UPSTREAM: dict[str, Faults] = {
    "messages": [
        (message_of("Hi"), "messages[0].content[0]"),
        (message_of({}), "messages[0].content[0].type"),
        (message_of({"type": "text", "text": 7}), "messages[0].content[0].text"),
        (message_of({"type": "tool_use", "input": "{}"}), "messages[0].content[0].input"),
        (message_of({"type": "image", "source": "a.png"}), "messages[0].content[0].source"),
        (message_of({"type": "search_result", "source": 7}), "messages[0].content[0].source"),
        ({"system": [{"text": "Hi"}]}, "system[0].type"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "f", "input_schema": "{}"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "f", "description": 7, "input_schema": {}}]}, "tools[0].description"),
        ({"tool_choice": {}}, "tool_choice.type"),
        ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "tool", "name": 7}}, "tool_choice.name"),
        ({"thinking": True}, "thinking"),
        ({"thinking": {"budget_tokens": 5}}, "thinking.type"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"stop_sequences": [7]}, "stop_sequences[0]"),
        ({"metadata": "u"}, "metadata"),
    ],
    "responses": [
        ({"input": [{"role": "tool", "content": "Hi"}]}, "input[0].role"),
        (request_of("Hi"), "input[0].content[0]"),
        (request_of({"type": 7}), "input[0].content[0].type"),
        (request_of({"type": "input_text", "text": 7}), "input[0].content[0].text"),
        (request_of({"image_url": {"url": "x"}}), "input[0].content[0].image_url"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": "f", "parameters": "{}"}]}, "tools[0].parameters"),
        ({"tool_choice": {"type": 7}}, "tool_choice.type"),
    ],
    "gemini": [
        (put("Hi"), "contents[0].parts[0]"),
        (put({"text": 7}), "contents[0].parts[0].text"),
        (put({"inlineData": {"data": 7}}), "contents[0].parts[0].inlineData.data"),
        (
            put({"functionCall": {"name": "f", "args": "{}"}}),
            "contents[0].parts[0].functionCall.args",
        ),
        (
            put({"functionResponse": {"response": "42"}}),
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
    ],
}


def of_each(tables: dict[str, Faults]) -> Iterator[Any]:
    """The rows of every dialect."""
    for name, rows in tables.items():
        for changes, param in rows:
            yield pytest.param(DIALECTS[name], changes, param, id=f"{name}-{changes}"[:90])


AT_THE_TOP = {
    name: [({member: value}, member) for member, values in members.items() for value in values]
    for name, members in VALUES.items()
}


@each("dialect, changes, param", [*of_each(AT_THE_TOP), *of_each(FAULTS)])
def test_fault_is_named(dialect: Dialect, changes: dict[str, Any], param: str) -> None:
    fault = refused(lambda: dialect.read(encoded({**dialect.smallest, **changes})))
    assert fault.param == param


@each("dialect, changes, param", of_each(JUDGED_UPSTREAM))
def test_what_only_an_upstream_can_judge_is_forwarded(
    dialect: Dialect, changes: dict[str, Any], param: str
) -> None:
    body = encoded({**dialect.smallest, **changes})
    request = dialect.read(body)
    assert request.fault is not None
    assert request.fault.param == param
    assert request.fault.message.startswith(param)
    assert dialect.forwarded(request) == body


@each("dialect", DIALECTS.values())
def test_missing_member_is_named(dialect: Dialect) -> None:
    for name in dialect.smallest:
        left = {member: value for member, value in dialect.smallest.items() if member != name}
        fault = refused(lambda left=left: dialect.read(encoded(left)))  # type: ignore[misc]
        assert fault.param == name
        assert "missing" in fault.message


# What an upstream may take for a member, and that member.
ODD_NAMES = {
    "messages": {"Model": "model", "MAX_TOKENS": "max_tokens", "Stream": "stream"},
    "responses": {"INPUT": "input", "Previous_Response_Id": "previous_response_id"},
    "gemini": {"generationconfig": "generationConfig", "Generation_Config": "generation_config"},
}


@each("dialect", DIALECTS)
def test_name_that_an_upstream_may_take_for_another_is_refused(dialect: str) -> None:
    one = DIALECTS[dialect]
    for name, meant in ODD_NAMES[dialect].items():
        body = encoded({**one.smallest, name: {}})
        fault = refused(lambda body=body: one.read(body))  # type: ignore[misc]
        assert fault.param == name
        assert meant in fault.message


PRIVATE = "what-a-person-wrote"


def with_private(value: Any) -> Iterator[Any]:
    """The value with a private text in place of each of its parts in turn, and of itself."""
    yield PRIVATE
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: changed} for changed in with_private(inner))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from ([*value[:index], one, *value[index + 1 :]] for one in with_private(inner))


@each("dialect", DIALECTS)
def test_no_fault_quotes_what_was_sent(dialect: str) -> None:
    one, faults = DIALECTS[dialect], []
    rows = [*AT_THE_TOP[dialect], *FAULTS[dialect], *JUDGED_UPSTREAM[dialect]]
    for changes, _ in [*rows, (one.smallest, "")]:
        for body in with_private({**one.smallest, **changes}):
            try:
                faults.append(one.read(encoded(body)).fault)
            except InvalidRequest as fault:
                faults.append(fault)
    found = [fault.message for fault in faults if fault is not None]
    assert any("a string of 19 characters" in message for message in found)
    assert [message for message in found if PRIVATE in message] == []
