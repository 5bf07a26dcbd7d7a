"""What a chat-completions request may be: each fault is named, with what was found."""

from __future__ import annotations

import json

import pytest

from channels.dialects.chat import ChatRequest, InvalidRequest, read_request
from tests.support.rows import cases, each
from tests.unit.channels.chat_bodies import MESSAGES, body, forwarded


def read(value: object) -> ChatRequest:
    return read_request(json.dumps(value).encode())


def test_smallest_request_is_read() -> None:
    request = read_request(body())
    assert (request.model, request.stream, request.include_usage) == ("m", False, False)
    assert (request.max_tokens, request.builtin_tools) == (None, ())
    assert request.messages_bytes == len(MESSAGES) - len(b'"messages":')
    assert request.object.body == body()


def test_every_documented_member_is_read() -> None:
    request = read(
        {
            "model": "gpt-5",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": "Really."},
                {"role": "user", "name": "a", "content": [{"type": "text", "text": "Hi"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "42"},
                {"role": "assistant", "function_call": {"name": "g", "arguments": "{}"}},
                {"role": "function", "name": "g", "content": None},
            ],
            "stream": True,
            "stream_options": {"include_usage": True, "include_obfuscation": False},
            "max_tokens": 5,
            "max_completion_tokens": 5,
            "temperature": 2,
            "n": 2,
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
                {"type": "web_search"},
                {"type": "image_generation", "size": "auto"},
                {"type": "web_search"},
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_object"},
            "seed": 7,
            "logit_bias": {"50256": -100},
        }
    )
    assert (request.stream, request.include_usage, request.max_tokens) == (True, True, 5)
    assert request.builtin_tools == ("web_search", "image_generation")


@each(
    "members",
    [
        b'"stream":null',
        b'"max_tokens":null',
        b'"max_tokens":1',
        b'"max_tokens":9007199254740991',
        b'"max_completion_tokens":null,"max_tokens":3',
        b'"temperature":null',
        b'"temperature":0',
        b'"temperature":2.0',
        b'"temperature":-0.0',
        b'"temperature":1e-400',
        b'"tools":null',
        b'"tools":[]',
        b'"tool_choice":"none"',
        b'"tool_choice":null',
        b'"stream_options":null',
        b'"stream_options":{}',
        b'"stream_options":{"include_usage":null}',
        b'"response_format":null',
        b'"n":1',
        b'"unknown":{"model":1,"messages":null}',
        b'"x":1e400',
        b'"user":"\\ud83d\\ude00"',
        '"user":"é🙂"'.encode(),
    ],
)
def test_request_with_an_allowed_member_is_forwarded_byte_for_byte(members: bytes) -> None:
    assert forwarded(body(members)) == body(members)


@cases(
    "value, param",
    ({}, "model"),
    ({"model": "m"}, "messages"),
    ({"messages": []}, "messages"),
    ({"model": "m", "messages": None}, "messages"),
    ({"model": "m", "messages": {}}, "messages"),
    ({"model": "m", "messages": "Hi"}, "messages"),
    ({"model": "m", "messages": []}, "messages"),
    ({"model": "m", "messages": ["Hi"]}, "messages[0]"),
    ({"model": "m", "messages": [None]}, "messages[0]"),
    ({"model": "m", "messages": [[]]}, "messages[0]"),
    ({"model": "m", "messages": [{}]}, "messages[0].role"),
    ({"model": "m", "messages": [{"content": "Hi"}]}, "messages[0].role"),
)
def test_missing_or_misshapen_part_is_named(value: object, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(value)
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


@cases(
    "message, param",
    ({"role": "oracle", "content": "x"}, "role"),
    ({"role": "User", "content": "x"}, "role"),
    ({"role": "", "content": "x"}, "role"),
    ({"role": 1, "content": "x"}, "role"),
    ({"role": None, "content": "x"}, "role"),
    ({"role": ["user"], "content": "x"}, "role"),
    ({"role": "user"}, "content"),
    ({"role": "system"}, "content"),
    ({"role": "tool"}, "content"),
    ({"role": "user", "content": 1}, "content"),
    ({"role": "user", "content": True}, "content"),
    ({"role": "user", "content": {}}, "content"),
    ({"role": "assistant", "content": 5}, "content"),
)
def test_fault_in_a_message_is_named_with_its_index(message: object, param: str) -> None:
    fine = {"role": "user", "content": "Hi"}
    with pytest.raises(InvalidRequest) as caught:
        read({"model": "m", "messages": [fine, fine, message]})
    assert caught.value.param == f"messages[2].{param}"
    assert caught.value.message.startswith(f"messages[2].{param}")


@cases(
    "message, param",
    ({"role": "user", "content": ["x"]}, "content[0]"),
    ({"role": "user", "content": [{"type": "text"}, 2]}, "content[1]"),
    ({"role": "user", "content": [{"type": 1}]}, "content[0].type"),
    ({"role": "tool", "content": "x", "tool_call_id": 7}, "tool_call_id"),
    ({"role": "assistant", "tool_calls": {}}, "tool_calls"),
    ({"role": "assistant", "tool_calls": ["f"]}, "tool_calls[0]"),
    ({"role": "assistant", "tool_calls": [{"id": 1}]}, "tool_calls[0].id"),
    (
        {"role": "assistant", "tool_calls": [{"function": {"arguments": {"a": 1}}}]},
        "tool_calls[0].function.arguments",
    ),
)
def test_content_that_only_an_upstream_can_judge_is_left_to_it(message: object, param: str) -> None:
    fine = {"role": "user", "content": "Hi"}
    request = read({"model": "m", "messages": [fine, fine, message]})
    assert request.fault is not None
    assert request.fault.param == f"messages[2].{param}"
    assert request.parameters["messages"] == "3"


@cases(
    "kind, tool",
    ("web_search_preview", "web_search"),
    ("web_search_2025_08_26", "web_search"),
    ("web_search_preview_2025_03_11", "web_search"),
    ("telepathy_preview", "telepathy"),
)
def test_version_of_a_builtin_tool_is_no_part_of_its_name(kind: str, tool: str) -> None:
    body = {"model": "m", "messages": [], "stream": True, "tools": [{"type": kind}]}
    body["messages"] = [{"role": "user", "content": "Hi"}]
    assert read_request(json.dumps(body).encode()).builtin_tools == (tool,)


def test_tools_that_the_client_runs_are_not_built_in() -> None:
    custom = {"type": "custom", "custom": {"name": "k"}}
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [custom]}
    assert read_request(json.dumps(body).encode()).builtin_tools == ()
