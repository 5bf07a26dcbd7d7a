"""What a responses request may be, and what becomes of it on the way to a channel."""

from typing import Any

from channels.dialects.responses.request import read_request as read_responses_body
from channels.dialects.responses.request import upstream_body as responses_upstream
from tests.support.rows import cases
from tests.unit.channels.dialect_bodies import RESPONSES, encoded, read_responses, refused


def forwarded_responses(body: bytes, *, model: str = "m", most: int | None = None) -> bytes:
    return responses_upstream(
        read_responses_body(body), upstream_model=model, default_max_tokens=most
    )


def test_a_tool_of_a_server_may_be_chosen_without_a_name() -> None:
    choice = {"type": "mcp", "server_label": "files", "name": None}
    body = encoded({**RESPONSES, "tool_choice": choice})
    assert forwarded_responses(body) == body


def test_string_becomes_one_user_message() -> None:
    body = b'{"model":"m", "input" : "Gr\\u00fc\xc3\x9fe \\"x\\"" }'
    message = b'"Gr\\u00fc\xc3\x9fe \\"x\\""'
    assert (
        forwarded_responses(body)
        == b'{"model":"m", "input" : [{"role":"user","content":%b}] }' % message
    )
    assert read_responses_body(body).content_bytes == len(message)


def test_model_of_responses_is_replaced_and_nothing_else() -> None:
    body = b'{ "input" : [{"role":"user","content":"m"}],"model" : "m"\n}'
    assert forwarded_responses(body) is body
    assert forwarded_responses(body, model="n") == body.replace(b': "m"', b': "n"')


@cases(
    "members, expected",
    (b"", b',"max_output_tokens":10'),
    (b',"max_output_tokens":null', b',"max_output_tokens":10'),
    (b',"max_output_tokens": 7', b',"max_output_tokens": 7'),
    (b',"max_output_tokens":70000', b',"max_output_tokens":70000'),
)
def test_omitted_maximum_is_raised_to_the_ceiling(members: bytes, expected: bytes) -> None:
    body = b'{"model":"m","input":[{"role":"user","content":"Hi"}]%b}'
    assert forwarded_responses(body % members, most=10) == body % expected
    assert forwarded_responses(body % members) == body % members


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
    request = read_responses_body(body)
    assert request.builtin_tools == ("web_search",)
    assert responses_upstream(request, upstream_model="m", default_max_tokens=None) == body
