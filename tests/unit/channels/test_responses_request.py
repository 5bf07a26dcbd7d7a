"""What a responses request may be, and what becomes of it on the way to a channel."""

from __future__ import annotations

import json
from typing import Any

from channels.dialects.responses import read_request, upstream_body
from channels.dialects.responses.request import ALLOWED, ResponsesBody
from tests.support.rows import cases
from tests.unit.channels.dialect_bodies import RESPONSES, encoded, read_responses, refused


def forwarded(body: bytes, *, model: str = "m", most: int | None = None) -> bytes:
    return upstream_body(read_request(body), upstream_model=model, default_max_tokens=most)


def test_smallest_request_is_read() -> None:
    request = read_responses()
    assert (request.model, request.stream, request.max_tokens) == ("m", False, None)
    assert request.builtin_tools == ()
    assert request.content_bytes == len(json.dumps(RESPONSES["input"]))


EVERYTHING: dict[str, Any] = {
    "model": "gpt-5",
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "system", "content": "Really."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
                {"type": "input_image", "image_url": None, "file_id": "file_1"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "42"},
        {"type": "item_of_the_future", "shape": [1]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "A cat."}]},
    ],
    "instructions": "You are kind.",
    "stream": True,
    "max_output_tokens": 1000,
    "reasoning": {"effort": "low", "summary": "auto"},
    "temperature": 0.5,
    "top_p": 1,
    "frequency_penalty": 0,
    "presence_penalty": -1.5,
    "tools": [
        {"type": "function", "name": "f", "description": None, "parameters": {"type": "object"}},
        {"type": "function", "name": "g", "parameters": None, "strict": True},
        {"type": "web_search"},
        {"type": "web_search_preview_2025_03_11"},
        {"type": "image_generation", "size": "1024x1024"},
        {"type": "custom", "name": "c"},
        {"type": "local_shell"},
        {"type": "computer_use_preview"},
    ],
    "tool_choice": {"type": "function", "name": "f"},
    "parallel_tool_calls": False,
    "previous_response_id": None,
    "background": False,
    "text": {"format": {"type": "text"}},
    "store": False,
}


def test_a_tool_of_a_server_may_be_chosen_without_a_name() -> None:
    choice = {"type": "mcp", "server_label": "files", "name": None}
    body = encoded({**EVERYTHING, "tool_choice": choice})
    assert forwarded(body, model="gpt-5") == body


def test_every_documented_member_is_read_and_forwarded() -> None:
    request = read_request(encoded(EVERYTHING))
    assert (request.model, request.stream, request.max_tokens) == ("gpt-5", True, 1000)
    assert request.builtin_tools == ("web_search", "image_generation")
    assert forwarded(encoded(EVERYTHING), model="gpt-5", most=5) == encoded(EVERYTHING)


def test_every_member_that_is_read_has_its_words() -> None:
    unread = {"previous_response_id", "conversation"}
    assert set(ResponsesBody.__struct_fields__) - unread == {
        name for name in ALLOWED if "." not in name and "[" not in name
    }


def test_string_becomes_one_user_message() -> None:
    body = b'{"model":"m", "input" : "Gr\\u00fc\xc3\x9fe \\"x\\"" }'
    said = b'"Gr\\u00fc\xc3\x9fe \\"x\\""'
    assert forwarded(body) == b'{"model":"m", "input" : [{"role":"user","content":%b}] }' % said
    assert read_request(body).content_bytes == len(said)


def test_missing_instructions_stay_missing() -> None:
    assert b"instructions" not in forwarded(encoded(RESPONSES), model="other", most=10)


def test_model_is_replaced_and_nothing_else() -> None:
    body = b'{ "input" : [{"role":"user","content":"m"}],"model" : "m"\n}'
    assert forwarded(body) is body
    assert forwarded(body, model="n") == body.replace(b': "m"', b': "n"')


@cases(
    "members, expected",
    (b"", b',"max_output_tokens":10'),
    (b',"max_output_tokens":null', b',"max_output_tokens":10'),
    (b',"max_output_tokens": 7', b',"max_output_tokens": 7'),
    (b',"max_output_tokens":70000', b',"max_output_tokens":70000'),
)
def test_omitted_maximum_is_raised_to_the_ceiling(members: bytes, expected: bytes) -> None:
    body = b'{"model":"m","input":[{"role":"user","content":"Hi"}]%b}'
    assert forwarded(body % members, most=10) == body % expected
    assert forwarded(body % members) == body % members


@cases(
    "name, value",
    ("previous_response_id", "resp_1"),
    ("previous_response_id", ""),
    ("previous_response_id", 7),
    ("conversation", "conv_1"),
    ("conversation", {"id": "conv_1"}),
    ("background", True),
)
def test_what_needs_a_stored_answer_is_refused_by_name(name: str, value: object) -> None:
    fault = refused(lambda: read_responses(**{name: value}))
    assert fault.param == name
    assert "not stored" in fault.message


def test_reference_to_a_stored_item_is_refused_by_its_place() -> None:
    items = [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "msg_1"}]
    fault = refused(lambda: read_responses(input=items))
    assert fault.param == "input[1]"
    assert "not stored" in fault.message


@cases("tool", {}, {"type": "function"}, {"function": {"name": "f"}})
def test_function_without_a_name_is_forwarded(tool: dict[str, Any]) -> None:
    body = encoded({**RESPONSES, "tools": [tool, {"type": "web_search"}]})
    request = read_request(body)
    assert request.builtin_tools == ("web_search",)
    assert upstream_body(request, upstream_model="m", default_max_tokens=None) == body
