"""The table of translations, and one attempt put together from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.errors import InvalidRequest, UpstreamMalformed
from channels.translation.model import Protocol
from channels.translation.session import (
    TRANSLATIONS,
    TranslatedCall,
    translation_between,
    upstream_protocols,
)
from tests.unit.translators.wire import data_of, read, sse

LONG = "mcp__" + "x" * 70


def shown(message: str) -> str:
    return message.replace("upstream.example", "[hidden]")


def attempt(client: Protocol, upstream: Protocol, **body: Any) -> TranslatedCall:
    stated = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}
    return TranslatedCall(translation_between(client, upstream), stated, redact=shown)


# Path, client, upstream, value of the header, name in the configuration; the specification's are
# those up to T6.
SPECIFIED = [
    ("T1", "chat", "messages", "openai_chat_to_anthropic_messages", "chat_to_messages"),
    ("T2", "chat", "native", "openai_chat_to_gemini_native", "chat_to_native"),
    ("T3", "messages", "chat", "anthropic_messages_to_openai_chat", "messages_to_chat"),
    ("T4", "native", "chat", "gemini_native_to_openai_chat", "native_to_chat"),
    ("T6", "native", "messages", "anthropic_messages_to_gemini_native", "native_to_messages"),
    ("T7", "responses", "native", "openai_responses_to_gemini_native", "responses_to_native"),
    ("T8", "responses", "chat", "openai_responses_to_openai_chat", "responses_to_chat"),
    (
        *("T9", "responses", "messages"),
        *("openai_responses_to_anthropic_messages", "responses_to_messages"),
    ),
    ("T10", "chat", "responses", "openai_chat_to_openai_responses", "chat_to_responses"),
    (
        *("T11", "messages", "responses"),
        *("anthropic_messages_to_openai_responses", "messages_to_responses"),
    ),
    ("T12", "native", "responses", "gemini_native_to_openai_responses", "native_to_responses"),
]


def test_paths_are_called_as_the_specification_calls_them() -> None:
    rows = [
        (row.path, row.client, row.upstream, row.header, row.setting)
        for row in TRANSLATIONS.values()
    ]
    assert rows == SPECIFIED


def test_request_goes_over_and_tells_what_it_lost() -> None:
    call = attempt("chat", "messages", n=2, logprobs=True)
    body = call.upstream_body(model="up", stream=True, max_tokens=9)
    assert body == {
        "model": "up",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }
    assert call.report.warning() == "n; logprobs"


def test_options_of_the_upstreams_codec_are_passed_on() -> None:
    body = attempt("messages", "chat").upstream_body(
        model="up", stream=False, max_tokens=9, max_tokens_param="max_completion_tokens"
    )
    assert body["max_completion_tokens"] == 9


def test_whole_answer_comes_back_under_the_clients_tool_names() -> None:
    call = attempt("messages", "chat", tools=[{"name": LONG, "input_schema": {"type": "object"}}])
    sent = call.upstream_body(model="up", stream=False, max_tokens=9)
    name = sent["tools"][0]["function"]["name"]
    assert name != LONG
    made = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    whole = {"choices": [{"message": {"tool_calls": [made]}, "finish_reason": "tool_calls"}]}
    body = json.dumps(whole).encode()
    answer = json.loads(call.translate_response(body, id="msg_1", created=1, model="m"))
    assert answer["content"][0]["name"] == LONG


def test_stream_comes_back_under_the_clients_tool_names() -> None:
    call = attempt("messages", "chat", tools=[{"name": LONG, "input_schema": {"type": "object"}}])
    sent = call.upstream_body(model="up", stream=True, max_tokens=9)
    made = {"index": 0, "id": "c", "function": {"name": sent["tools"][0]["function"]["name"]}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [made]}}]}
    stream = call.stream(id="msg_1", created=1, model="m", include_usage=False)
    taken = [stream.take(read("chat", event)) for event in sse(chunk, b"[DONE]")]
    out = b"".join(taken) + stream.end()
    starts = [data for data in data_of(out) if data["type"] == "content_block_start"]
    assert starts[0]["content_block"]["name"] == LONG


def test_tools_that_are_no_functions_come_back_as_what_they_are() -> None:
    """Also where functions of other names would be the same, and whatever a name is made of."""
    tools = [
        {"type": "function", "name": "mcp__a__f"},
        {"type": "namespace", "name": "mcp__a", "tools": [{"type": "function", "name": "f"}]},
        {"type": "namespace", "name": "n.1", "tools": [{"type": "custom", "name": "k"}]},
        {"type": "custom", "name": "edit"},
    ]
    stated = {"model": "m", "input": "hi", "tools": tools}
    call = TranslatedCall(translation_between("responses", "messages"), stated, redact=shown)
    sent = call.upstream_body(model="up", stream=False, max_tokens=9)
    names = [tool["name"] for tool in sent["tools"]]
    assert len(set(names)) == 4
    assert (names[0], names[3]) == ("mcp__a__f", "edit")
    blocks = [
        {"type": "tool_use", "id": f"t{index}", "name": name, "input": {"input": "x"}}
        for index, name in enumerate(names)
    ]
    body = json.dumps({"content": blocks, "stop_reason": "tool_use"}).encode()
    answer = json.loads(call.translate_response(body, id="r", created=1, model="m"))
    kept = ("type", "namespace", "name", "arguments", "input")
    assert [{key: item[key] for key in kept if key in item} for item in answer["output"]] == [
        {"type": "function_call", "name": "mcp__a__f", "arguments": '{"input":"x"}'},
        {
            "type": "function_call",
            "namespace": "mcp__a",
            "name": "f",
            "arguments": '{"input":"x"}',
        },
        {"type": "custom_tool_call", "namespace": "n.1", "name": "k", "input": "x"},
        {"type": "custom_tool_call", "name": "edit", "input": "x"},
    ]


CALLS_OF_THE_CLIENTS = [
    (
        "local_shell",
        {"command": ["ls"], "user": ""},
        {"type": "exec", "command": ["ls"], "env": {}},
    ),
    (
        "local_shell",
        {
            "command": "ls -l",
            "timeout_ms": 9,
            "working_directory": "/tmp",
            "env": {"A": "b", "C": 1},
        },
        {
            "type": "exec",
            "command": ["bash", "-lc", "ls -l"],
            "env": {"A": "b"},
            "timeout_ms": 9,
            "working_directory": "/tmp",
        },
    ),
    ("local_shell", {"command": {"rm": "-r"}}, {"type": "exec", "command": [], "env": {}}),
    (
        "shell",
        {"commands": ["ls", "pwd"], "timeout_ms": "9"},
        {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": None},
    ),
    (
        "apply_patch",
        {"type": "create_file", "path": "a.txt", "diff": "+a"},
        {"type": "create_file", "path": "a.txt", "diff": "+a"},
    ),
    (
        "apply_patch",
        {"type": "delete_file", "path": "a.txt"},
        {"type": "delete_file", "path": "a.txt"},
    ),
    ("apply_patch", {"patch": "x"}, {"type": "update_file", "path": "", "diff": ""}),
    ("tool_search", {"query": "mail"}, {"query": "mail"}),
]


@pytest.mark.parametrize(("kind", "arguments", "action"), CALLS_OF_THE_CLIENTS)
def test_calls_of_tools_that_clients_run_are_items_of_their_own_whole_and_streamed(
    kind: str, arguments: Any, action: Any
) -> None:
    """Beside a function of the same name; the stream's item begins with what is to be run."""
    tools = [
        {"type": "function", "name": kind},
        {"type": kind, **({"execution": "client"} if kind == "tool_search" else {})},
    ]
    stated = {"model": "m", "input": "hi", "tools": tools}
    call = TranslatedCall(translation_between("responses", "chat"), stated, redact=shown)
    sent = call.upstream_body(model="up", stream=True, max_tokens=None)
    name, own = (tool["function"]["name"] for tool in sent["tools"])
    assert name == kind != own
    calls = [
        {"index": index, "id": f"c{index}", "function": {"name": one, "arguments": text}}
        for index, (one, text) in enumerate([(own, json.dumps(arguments)), (name, "{}")])
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({"choices": [choice]}).encode()
    whole = json.loads(call.translate_response(body, id="r", created=1, model="m"))["output"]
    member = {"apply_patch": "operation", "tool_search": "arguments"}.get(kind, "action")
    assert [item["type"] for item in whole] == [f"{kind}_call", "function_call"]
    assert (whole[0][member], whole[0]["call_id"]) == (action, "c0")
    assert whole[0].get("execution") == ("client" if kind == "tool_search" else None)
    stream = call.stream(id="r", created=1, model="m", include_usage=False)
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    events = sse({"choices": [{"index": 0, "delta": {"content": "a"}}]}, chunk, end, b"[DONE]")
    out = data_of(b"".join(stream.take(read("chat", event)) for event in events) + stream.end())
    added = {
        event["output_index"]: event["item"]
        for event in out
        if event["type"] == "response.output_item.added"
    }
    ended = out[-1]["response"]["output"]
    assert {index: item["type"] for index, item in added.items()} == {
        index: item["type"] for index, item in enumerate(ended)
    }
    assert ended[0]["type"] == "message"
    ran = next(item for item in ended if item["type"] == f"{kind}_call")
    assert (ran[member], ran["status"]) == (action, "completed")
    assert {**ran, "status": "in_progress"} in added.values()


@pytest.mark.parametrize(
    ("stated", "expected"),
    [({"id": "chatcmpl-7", "model": "up-2026"}, ("chatcmpl-7", "up-2026")), ({}, ("x", "m"))],
    ids=["named", "unnamed"],
)
def test_answer_has_the_names_the_upstream_gave_it_whole_or_streamed(
    stated: dict[str, Any], expected: tuple[str, str]
) -> None:
    call = attempt("messages", "chat")
    chunk = {**stated, "choices": [{"index": 0, "delta": {"content": "a"}}]}
    stream = call.stream(id="x", created=1, model="m", include_usage=False)
    taken = [stream.take(read("chat", event)) for event in sse(chunk, b"[DONE]")]
    message = data_of(b"".join(taken))[0]["message"]
    assert (message["id"], message["model"]) == expected


def test_malformed_answer_and_bad_request_are_told() -> None:
    with pytest.raises(UpstreamMalformed):
        attempt("chat", "messages").translate_response(b"<html>", id="x", created=1, model="m")
    with pytest.raises(InvalidRequest):
        attempt("chat", "messages", top_p="high")


def test_failure_before_anything_was_said_is_the_callers() -> None:
    stream = attempt("chat", "messages").stream(id="x", created=1, model="m", include_usage=False)
    error = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "upstream.example is busy"},
    }
    start = {"type": "message_start", "message": {"id": "m"}}
    assert [stream.take(read("messages", event)) for event in sse(start, error)] == [b"", b""]
    assert stream.failed is not None
    assert stream.failed.message == "[hidden] is busy"
    assert not stream.has_written


def test_failure_amid_the_answer_is_said_in_the_clients_words() -> None:
    stream = attempt("chat", "messages").stream(id="x", created=1, model="m", include_usage=False)
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a"},
    }
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    events = sse(delta, error, {"type": "message_stop"})
    out = b"".join(stream.take(read("messages", event)) for event in events)
    assert data_of(out)[-1] == {
        "error": {"message": "busy", "type": "api_error", "code": "upstream_error"}
    }


def test_protocols_a_client_is_translated_to_are_those_switched_on_the_preferred_first() -> None:
    everything = frozenset(row.setting for row in TRANSLATIONS.values())
    assert upstream_protocols("chat", everything) == ("native", "messages", "responses")
    assert upstream_protocols("native", everything) == ("chat", "messages", "responses")
    assert upstream_protocols("messages", everything) == ("chat", "responses")
    assert upstream_protocols("responses", everything) == ("native", "chat", "messages")
    assert upstream_protocols("chat", frozenset({"chat_to_messages"})) == ("messages",)


@pytest.mark.parametrize(
    ("client", "upstream", "member", "place"),
    [
        ("messages", "chat", "metadata.user_id", "user"),
        ("chat", "messages", "user", "metadata.user_id"),
        ("chat", "messages", "safety_identifier", "metadata.user_id"),
        ("chat", "responses", "user", "user"),
        ("chat", "responses", "safety_identifier", "safety_identifier"),
    ],
)
def test_long_id_of_an_end_user_goes_over_as_a_digest_that_stays_the_same(
    client: Protocol, upstream: Protocol, member: str, place: str
) -> None:
    def sent(user: str) -> tuple[str, str | None]:
        outer, _, inner = member.partition(".")
        members: dict[str, Any] = {outer: {inner: user} if inner else user}
        call = attempt(client, upstream, **members)
        value: Any = call.upstream_body(model="m", stream=False, max_tokens=9)
        for name in place.split("."):
            value = value[name]
        return value, call.report.warning()

    assert sent("u" * 64) == ("u" * 64, None)
    for long in ("u" * 65, "u" * 149 + "é", "u" * 64 + "\ud800"):
        digest, warning = sent(long)
        assert (len(digest), warning) == (64, member)
        assert sent(long) == (digest, member)
    assert sent("u" * 65) != sent("u" * 66)
