"""What a chat-completions request may be: each fault is named, with what was found."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.chat.request import ChatRequest, read_request, upstream_body
from channels.errors import InvalidRequest
from tests.support.nesting import BOTTOMLESS
from tests.support.rows import cases, each
from tests.unit.channels.chat_bodies import MESSAGES, body, forwarded
from tests.unit.translation import fields_of_chat
from tests.unit.translation.pieces import tool, user


def read(value: object) -> ChatRequest:
    return read_request(json.dumps(value).encode())


def test_what_the_gateway_must_know_of_a_request_is_read() -> None:
    tools = [
        tool("f", parameters={"type": "object"}),
        *({"type": "web_search"}, {"type": "image_generation", "size": "auto"}),
        {"type": "web_search"},
        {"type": "custom", "custom": {"name": "k"}},  # which the client runs, as `f`
    ]
    options = {"include_usage": True, "include_obfuscation": False}
    members = {"max_tokens": 5, "max_completion_tokens": 5, "tools": tools}
    requested = {
        "model": "gpt-5",
        "messages": [user("Hi")],
        "stream": True,
        "stream_options": options,
    }
    request = read({**requested, **members})
    assert (request.stream, request.include_usage, request.max_tokens) == (True, True, 5)
    assert request.builtin_tools == ("web_search", "image_generation")


def test_every_documented_member_is_read_and_forwarded_as_it_is() -> None:
    """But for those that have another form upstream, and what has to be streamed: see below."""
    elsewhere = {"max_completion_tokens", "stream", "stream_options"}
    streamed = {"tools.web_search", "tools.image_generation"}
    for field, fragment, *_ in fields_of_chat.FIELDS:
        requested = json.dumps({"model": "m", "messages": [user("Hi")], **fragment}).encode()
        if field.partition(".")[0] not in elsewhere and field not in streamed:
            assert forwarded(requested) == requested, field


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


BAD_MEMBERS = [
    (b'"stream":"true"', "stream", "expected a boolean, found a string of 4 characters"),
    (b'"stream":1', "stream", "found the number 1"),
    (b'"stream":[]', "stream", "found an empty array"),
    (b'"max_tokens":0', "max_tokens", "from 1 to 9007199254740991, found the number 0"),
    (b'"max_tokens":-1', "max_tokens", "found the number -1"),
    (b'"max_tokens":1.5', "max_tokens", "found the number 1.5"),
    (b'"max_tokens":true', "max_tokens", "found true"),
    (b'"max_tokens":"5"', "max_tokens", "found a string of 1 character."),
    (b'"max_tokens":[5]', "max_tokens", "found an array"),
    (b'"max_tokens":{}', "max_tokens", "found an object"),
    (b'"max_tokens":1' + b"0" * 30, "max_tokens", "found a number of 31 characters"),
    (b'"max_tokens":1' + b"0" * 5000, "max_tokens", "found a number of 5001 characters"),
    (b'"max_tokens":1e400', "max_tokens", "found the number 1e400"),
    (b'"max_tokens":9007199254740992', "max_tokens", "found the number 9007199254740992"),
    (b'"max_completion_tokens":false', "max_completion_tokens", "found false"),
    (b'"max_tokens":5,"max_completion_tokens":6', "max_completion_tokens", "contradicts"),
    (b'"temperature":2.1', "temperature", "a number from 0 to 2, found the number 2.1"),
    (b'"temperature":-0.1', "temperature", "found the number -0.1"),
    (b'"temperature":1e400', "temperature", "found the number 1e400"),
    (b'"temperature":true', "temperature", "found true"),
    (b'"temperature":"hot"', "temperature", "found a string of 3 characters"),
    (b'"n":0', "n", "found the number 0"),
    (b'"n":"2"', "n", "found a string"),
    (b'"tools":{}', "tools", "an array of tools, found an object"),
    (b'"tools":[1]', "tools[0]", "found the number 1"),
    (b'"tools":[{"type":""}]', "tools[0].type", "found an empty string"),
    (b'"tool_choice":7', "tool_choice", "a string or an object, found the number 7"),
    (b'"tool_choice":["auto"]', "tool_choice", "found an array"),
    (b'"stream_options":true', "stream_options", "an object, found true"),
    (b'"stream_options":[]', "stream_options", "found an empty array"),
    (b'"stream_options":{"include_usage":"yes"}', "stream_options.include_usage", "a string"),
    (b'"stream_options":{"include_usage":1}', "stream_options.include_usage", "found the number 1"),
    (b'"response_format":"json_object"', "response_format", "found a string of 11 characters"),
    (b'"model":"n"', "model", "more than once"),
    (MESSAGES, "messages", "more than once"),
    (b'"max_tokens":1,"max_tokens":100000', "max_tokens", "more than once"),
    (b'"x":1,"\\u0078":2', "x", "more than once"),
    (b'"Model":"gpt-5-pro"', "Model", "did you mean model"),
    (b'"MAX_TOKENS":100000', "MAX_TOKENS", "did you mean max_tokens"),
    ('"me\u017f\u017fages":[]'.encode(), "me\u017f\u017fages", "did you mean messages"),
    (b'"x":NaN', None, "at byte"),
    (b'"temperature":-Infinity', None, "at byte"),
    (b'"x":"\\udfff"', None, "lone surrogate"),
    (b'"x":"\xff"', None, "not valid UTF-8"),
    (b'"x":' + b"[" * BOTTOMLESS + b"]" * BOTTOMLESS, None, "nested too deeply"),
    (b'"x":01', None, "at byte"),
    (b'"x":1,', None, "at byte"),
]

# Faults that only an upstream can judge: forwarded to one of this protocol.
JUDGED_UPSTREAM = [
    (b'"tools":[{}]', "tools[0].type", "is missing"),
    (b'"tools":[{"type":null}]', "tools[0].type", "found null"),
    (b'"tools":[{"function":{"name":"f"}}]', "tools[0].type", "is missing"),
    (b'"tools":[{"type":"custom"},{"type":"function"}]', "tools[1].function", "is missing"),
    (b'"tools":[{"type":"function","function":null}]', "tools[0].function", "found null"),
    (b'"tools":[{"type":"function","function":{}}]', "tools[0].function.name", "is missing"),
    (b'"tools":[{"type":"function","function":{"name":""}}]', "tools[0].function.name", "an empty"),
    (b'"tools":[{"type":"function","function":{"name":7}}]', "tools[0].function.name", "7"),
    (b'"response_format":{}', "response_format.type", "is missing"),
    (b'"response_format":{"type":1}', "response_format.type", "found the number 1"),
]


@each("members, param, words", BAD_MEMBERS)
def test_bad_member_is_refused_with_its_name_and_what_was_found(
    members: bytes, param: str | None, words: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_request(body(members))
    assert caught.value.param == param
    assert words in caught.value.message
    assert len(caught.value.message) < 400


@each("members, param, words", JUDGED_UPSTREAM)
def test_what_only_an_upstream_can_judge_is_forwarded(
    members: bytes, param: str, words: str
) -> None:
    whole = body(members)
    request = read_request(whole)
    assert request.fault is not None
    assert request.fault.param == param
    assert words in request.fault.message
    assert request.builtin_tools == ()
    sent = upstream_body(
        request, upstream_model="m", max_tokens_param="max_tokens", default_max_tokens=None
    )
    assert sent == whole


def test_builtin_tool_beside_an_odd_one_is_seen() -> None:
    with pytest.raises(InvalidRequest, match="stream"):
        read_request(body(b'"tools":[{},{"type":"web_search"}]'))
    odd = read_request(body(b'"stream":true,"tools":[{},{"type":"web_search"},{"type":"x_y"}]'))
    assert odd.builtin_tools == ("web_search", "x_y")


@cases(
    "model, words",
    (b'""', "found an empty string"),
    (b"null", "found null"),
    (b"7", "found the number 7"),
    (b'["m"]', "found an array"),
    (b'"' + b"m" * 257 + b'"', "a string of 1 to 256 characters"),
    (b'"a\\u0000b"', "control characters"),
    (b'"a\\nb"', "control characters"),
)
def test_bad_model_is_refused(model: bytes, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_request(b'{"model":' + model + b"," + MESSAGES + b"}")
    assert caught.value.param == "model"
    assert words in caught.value.message


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text(alphabet='{}[]":,0123eE.-\\utrfalsn ').map(str.encode))
def test_any_bytes_are_refused_in_an_orderly_way(data: bytes) -> None:
    for candidate in (data, body(b'"x":' + data), body(data)):
        with suppress(InvalidRequest):
            read_request(candidate)
            json.loads(candidate)
