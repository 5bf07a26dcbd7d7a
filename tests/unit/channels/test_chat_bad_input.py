"""Bodies that no chat-completions request may be, and what the client is told of each."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.chat import InvalidRequest, read_request, upstream_body
from tests.support.rows import cases, each
from tests.unit.channels.chat_bodies import MESSAGES, body

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
    (b'"x":' + b"[" * 100_000 + b"]" * 100_000, None, "nested too deeply"),
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


def test_nesting_inside_a_message_is_refused_when_too_deep() -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        read_request(b'{"model":"m","messages":[{"role":"user","content":' + deep + b"}]}")
    nested = b'{"type":"text","x":' * 50_000 + b"1" + b"}" * 50_000
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        read_request(b'{"model":"m","messages":[{"role":"user","content":[' + nested + b"]}]}")


def test_every_cut_of_a_body_is_refused() -> None:
    whole = body(b'"stream":true,"x":[1,{"y":"\\ud83d\\ude00"}]', '"u":"é"'.encode())
    read_request(whole)
    for end in range(len(whole)):
        with pytest.raises(InvalidRequest):
            read_request(whole[:end])


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text(alphabet='{}[]":,0123eE.-\\utrfalsn ').map(str.encode))
def test_any_bytes_are_refused_in_an_orderly_way(data: bytes) -> None:
    for candidate in (data, body(b'"x":' + data), body(data)):
        with suppress(InvalidRequest):
            read_request(candidate)
            json.loads(candidate)
