"""What messages, responses and native-content requests may be, and what a channel is sent."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from channels.dialects.gemini.members import ALLOWED as GEMINI_ALLOWED
from channels.dialects.gemini.members import GeminiBody
from channels.dialects.gemini.request import GeminiRequest
from channels.dialects.gemini.request import read_request as read_gemini_body
from channels.dialects.gemini.request import upstream_body as gemini_upstream
from channels.dialects.messages.members import ALLOWED, MessagesBody
from channels.dialects.messages.request import read_request, upstream_body
from channels.dialects.responses.members import ALLOWED as RESPONSES_ALLOWED
from channels.dialects.responses.members import ResponsesBody
from channels.dialects.responses.request import read_request as read_responses_body
from channels.dialects.responses.request import upstream_body as responses_upstream
from tests.support.rows import cases, each
from tests.unit.channels.dialect_bodies import (
    GEMINI,
    MESSAGES,
    RESPONSES,
    encoded,
    read_gemini,
    read_messages,
    read_responses,
    refused,
)
from tests.unit.translation import fields_of_messages, fields_of_responses
from tests.unit.translation.gemini import fields_of_gemini


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


# --- What a responses request may be, and what becomes of it on the way to a channel ---


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
    said = b'"Gr\\u00fc\xc3\x9fe \\"x\\""'
    assert (
        forwarded_responses(body)
        == b'{"model":"m", "input" : [{"role":"user","content":%b}] }' % said
    )
    assert read_responses_body(body).content_bytes == len(said)


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


# --- What a native-content request may be, and what becomes of it on the way to a channel ---

CONTENTS = b'"contents":[{"role":"user","parts":[{"text":"Hi"}]}]'


def read(body: bytes, *, model: str = "m", stream: bool = False) -> GeminiRequest:
    return read_gemini_body(body, model=model, stream=stream)


def forwarded(body: bytes, *, model: str = "m", most: int | None = None) -> bytes:
    return gemini_upstream(read(body), upstream_model=model, default_max_tokens=most)


def test_model_and_stream_come_with_the_path() -> None:
    request = read(encoded(GEMINI), model="gemini", stream=True)
    assert (request.model, request.stream, request.max_tokens) == ("gemini", True, None)
    assert request.builtin_tools == ()
    assert request.content_bytes == len(json.dumps(GEMINI["contents"]))


@cases(
    "members, expected",
    (b"", b',"generationConfig":{"maxOutputTokens":10}'),
    (b',"generationConfig":null', b',"generationConfig":{"maxOutputTokens":10}'),
    (b',"generationConfig":{ }', b',"generationConfig":{ "maxOutputTokens":10}'),
    (
        b',"generationConfig" : {"topK" : 1.0,\n"x":"\\u00e9"} ',
        b',"generationConfig" : {"topK" : 1.0,\n"x":"\\u00e9","maxOutputTokens":10} ',
    ),
    (
        b',"generationConfig":{"maxOutputTokens": null ,"topK":1}',
        b',"generationConfig":{"maxOutputTokens": 10 ,"topK":1}',
    ),
    (
        b',"generation_config":{"max_output_tokens":null}',
        b',"generation_config":{"max_output_tokens":10}',
    ),
    (b',"generation_config":{}', b',"generation_config":{"maxOutputTokens":10}'),
    (b',"generationConfig":{"maxOutputTokens":7}', b',"generationConfig":{"maxOutputTokens":7}'),
    (
        b',"generation_config":{"max_output_tokens":70000}',
        b',"generation_config":{"max_output_tokens":70000}',
    ),
)
def test_omitted_maximum_is_spliced_into_the_generation_config(
    members: bytes, expected: bytes
) -> None:
    body = b"{" + CONTENTS + b"%b}"
    assert forwarded(body % members, most=10) == body % expected
    assert forwarded(body % members) == body % members


@cases(
    "config, most",
    ({"generationConfig": {"maxOutputTokens": 7}}, 7),
    ({"generationConfig": {"max_output_tokens": 7}}, 7),
    ({"generation_config": {"maxOutputTokens": 7}}, 7),
    ({"generation_config": {"max_output_tokens": 7}}, 7),
    ({"generationConfig": {"maxOutputTokens": None}}, None),
    ({"generationConfig": {}}, None),
    ({"generationConfig": None}, None),
)
def test_maximum_is_read_in_either_spelling(config: dict[str, Any], most: int | None) -> None:
    assert read_gemini(**config).max_tokens == most


@cases(
    "changes, param",
    ({"generationConfig": {}, "generation_config": {}}, "generation_config"),
    (
        {"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 2}},
        "generationConfig.max_output_tokens",
    ),
    (
        {"generation_config": {"maxOutputTokens": 1, "max_output_tokens": None}},
        "generation_config.max_output_tokens",
    ),
    (
        {"systemInstruction": {"parts": []}, "system_instruction": {"parts": []}},
        "system_instruction",
    ),
)
def test_both_spellings_of_one_member_are_refused(changes: dict[str, Any], param: str) -> None:
    assert refused(lambda: read_gemini(**changes)).param == param


@cases(
    "config",
    b'{"maxOutputTokens":1,"maxOutputTokens":2}',
    b'{"maxOutputTokens":1,"maxOutputToken\\u0073":2}',
)
def test_maximum_that_is_there_twice_is_refused(config: bytes) -> None:
    body = b"{" + CONTENTS + b',"generationConfig":' + config + b"}"
    assert refused(lambda: read(body)).param == "generationConfig.maxOutputTokens"


@cases("named", "m", "models/m")
def test_model_in_the_body_follows_the_one_in_the_path(named: str) -> None:
    body = b'{"model" : %b,' % encoded(named) + CONTENTS + b"}"
    assert forwarded(body) == body
    assert forwarded(body, model="n") == body.replace(encoded(named), encoded(named[:-1] + "n"))


@cases("named", "other", "models/other", "", 7, {})
def test_another_model_in_the_body_is_refused(named: object) -> None:
    assert refused(lambda: read_gemini(model=named)).param == "model"


@cases("model", "", "m" * 257, "a\nb")
def test_path_must_name_a_model(model: str) -> None:
    assert refused(lambda: read(encoded(GEMINI), model=model)).param == "model"


SINGLE: dict[str, Any] = {
    "contents": {"role": "user", "parts": {"text": "Hi"}},
    "systemInstruction": {"parts": {"text": "Be brief."}},
    "tools": {"functionDeclarations": {"name": "f"}, "googleSearch": {}},
}


def test_one_object_in_place_of_an_array_is_forwarded() -> None:
    body = encoded(SINGLE)
    request = read(body)
    assert request.builtin_tools == ("web_search",)
    assert request.content_bytes == len(encoded(SINGLE["contents"]))
    assert request.parameters == {"contents": "1"}
    assert gemini_upstream(request, upstream_model="m", default_max_tokens=None) == body
    assert request.fault is not None
    assert request.fault.param == "contents"
    longer = gemini_upstream(request, upstream_model="m", default_max_tokens=7)
    assert json.loads(longer) == {**SINGLE, "generationConfig": {"maxOutputTokens": 7}}


# --- What all of them have in common ---

# The members that are read, those of them that are refused or stand elsewhere, and the words.
READ: list[tuple[tuple[str, ...], set[str], Iterable[str]]] = [
    (MessagesBody.__struct_fields__, {"thread"}, ALLOWED),
    (ResponsesBody.__struct_fields__, {"previous_response_id", "conversation"}, RESPONSES_ALLOWED),
    (GeminiBody.__struct_encode_fields__, {"model"}, GEMINI_ALLOWED),
]


@each("members, unread, words", READ)
def test_every_member_that_is_read_has_its_words(
    members: tuple[str, ...], unread: set[str], words: Iterable[str]
) -> None:
    assert set(members) - unread == {one for one in words if "." not in one and "[" not in one}


DOCUMENTED: dict[str, tuple[dict[str, Any], list[Any], Callable[[bytes], bytes]]] = {
    "messages": (
        MESSAGES,
        fields_of_messages.FIELDS,
        lambda body: upstream_body(read_request(body), upstream_model="m"),
    ),
    "responses": (RESPONSES, fields_of_responses.FIELDS, forwarded_responses),
    "native": (GEMINI, fields_of_gemini.FIELDS, forwarded),
}


@each("protocol", DOCUMENTED)
def test_every_documented_member_is_read_and_forwarded_as_it_is(protocol: str) -> None:
    smallest, fields, sent = DOCUMENTED[protocol]
    bodies = [encoded({**smallest, **fragment}) for _, fragment, *_ in fields]
    assert [body for body in bodies if sent(body) != body] == []


@cases(
    "request, builtin",
    (
        read_messages(
            tools=[
                {"name": "look", "input_schema": {"type": "object"}},
                {"type": "custom", "name": "hear", "input_schema": {"type": "object"}},
                {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
                {"type": "web_search_20260318", "name": "web_search"},
                {"type": "code_execution_20250825", "name": "code_execution"},
                {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
                {"type": "bash_20250124", "name": "bash"},
                {"type": "mcp_toolset", "mcp_server_name": "s"},
            ]
        ),
        ("web_search", "code_execution", "mcp_toolset"),
    ),
    (
        read_responses(
            tools=[
                {"type": "function", "name": "f", "description": None},
                *({"type": "web_search"}, {"type": "web_search_preview_2025_03_11"}),
                {"type": "image_generation", "size": "1024x1024"},
                *({"type": "custom", "name": "c"}, {"type": "local_shell"}),
                {"type": "computer_use_preview"},
            ]
        ),
        ("web_search", "image_generation"),
    ),
    (
        read_gemini(
            tools=[
                {"functionDeclarations": [{"name": "f", "description": "F.", "parameters": {}}]},
                *({"googleSearch": {}}, {"google_search_retrieval": {}}),
                {"codeExecution": {}, "urlContext": {}},
                {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}},
                {"googleMaps": None},
            ]
        ),
        ("web_search", "code_execution", "url_context"),
    ),
)
def test_tools_that_the_provider_runs_are_known(request: Any, builtin: tuple[str, ...]) -> None:
    assert request.builtin_tools == builtin
