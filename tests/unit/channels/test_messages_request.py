"""What a messages request may be, and what becomes of it on the way to a channel."""

from __future__ import annotations

import json
from typing import Any

from channels.dialects.messages import read_request, upstream_body
from channels.dialects.messages.request import ALLOWED, MessagesBody
from tests.support.rows import cases
from tests.unit.channels.dialect_bodies import MESSAGES, encoded, read_messages, refused


def test_smallest_request_is_read() -> None:
    request = read_messages()
    assert (request.model, request.stream, request.max_tokens) == ("m", False, 5)
    assert request.builtin_tools == ()
    assert request.content_bytes == len(json.dumps(MESSAGES["messages"]))


EVERYTHING: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 1024,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
                {"type": "search_result", "source": "https://a.example", "title": "T"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "Let me look.", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
        {"role": "system", "content": "From here on, in French."},
    ],
    "stream": True,
    "tools": [
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}},
        {"type": "custom", "name": "hear", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "web_search_20260318", "name": "web_search"},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "mcp_toolset", "mcp_server_name": "s"},
    ],
    "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "temperature": 1,
    "top_p": 0.9,
    "top_k": 40,
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u"},
    "output_config": {"effort": "high"},
}


def test_every_documented_member_is_read_and_forwarded() -> None:
    request = read_request(encoded(EVERYTHING))
    assert (request.model, request.stream, request.max_tokens) == ("claude", True, 1024)
    assert request.builtin_tools == ("web_search", "code_execution", "mcp_toolset")
    assert upstream_body(request, upstream_model="claude") == encoded(EVERYTHING)


def test_every_member_that_is_read_has_its_words() -> None:
    refused_unread = {"thread"}
    assert set(MessagesBody.__struct_fields__) - refused_unread == {
        name for name in ALLOWED if "." not in name and "[" not in name
    }


@cases(
    "thread",
    {"type": "continue", "previous_message_id": "msg_1"},
    {"type": "create"},
    {"type": "of tomorrow"},
    {},
    [],
    "msg_1",
    0,
    False,
)
def test_thread_is_refused_in_the_words_that_libraries_read(thread: Any) -> None:
    fault = refused(lambda: read_messages(thread=thread))
    assert fault.param == "thread"
    assert fault.details == {"error_code": "thread_unsupported_request", "unsupported": []}


def test_thread_is_refused_before_what_else_is_wrong_with_its_request() -> None:
    fault = refused(lambda: read_messages(thread={"type": "continue"}, messages=[]))
    assert fault.param == "thread"
    assert refused(lambda: read_messages(Thread={})).param == "Thread"


def test_thread_that_is_null_is_none() -> None:
    body = encoded({**MESSAGES, "thread": None})
    assert upstream_body(read_request(body), upstream_model="m") == body


def test_model_is_replaced_and_nothing_else() -> None:
    body = b'{ "messages" : [{"role":"user","content":"m"}],"max_tokens":5,"model" : "m"\n}'
    request = read_request(body)
    assert upstream_body(request, upstream_model="m") is body
    assert upstream_body(request, upstream_model='a"b') == body.replace(b': "m"', b': "a\\"b"')


def test_content_counts_as_it_was_sent() -> None:
    sent = b'[ {"role":"user","content":"\\u00e9"} ]'
    body = b'{"model":"m","max_tokens":1,"system":"not counted","messages":%b}' % sent
    assert read_request(body).content_bytes == len(sent)


@cases(
    "body",
    b"",
    b"[]",
    b"{",
    b'{"model":"a","model":"b","max_tokens":1,"messages":[{"role":"user","content":"x"}]}',
    b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\xff"}]}',
)
def test_body_that_is_no_plain_json_object_is_refused(body: bytes) -> None:
    refused(lambda: read_request(body))
