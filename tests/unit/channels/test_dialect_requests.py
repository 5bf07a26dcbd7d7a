"""What the requests of messages, responses and native-content have in common."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from channels.dialects.chat.members import ChatBody
from channels.dialects.gemini.members import GeminiBody
from channels.dialects.member_words import words_of
from channels.dialects.messages.members import MessagesBody
from channels.dialects.messages.request import read_request, upstream_body
from channels.dialects.responses.members import ResponsesBody
from tests.support.rows import cases, each
from tests.unit.channels.dialect_bodies import (
    GEMINI,
    MESSAGES,
    RESPONSES,
    encoded,
    read_gemini,
    read_messages,
    read_responses,
)
from tests.unit.channels.test_gemini_request import forwarded
from tests.unit.channels.test_responses_request import forwarded_responses
from tests.unit.translation import fields_of_messages, fields_of_responses
from tests.unit.translation.gemini import fields_of_gemini

# The members that are read, those of them that are refused or stand elsewhere, and the words.
READ: list[tuple[type[Struct], set[str]]] = [
    (ChatBody, set()),
    (MessagesBody, set()),
    (ResponsesBody, {"previous_response_id", "conversation"}),
    (GeminiBody, {"model"}),
]


@each("body, unread", READ)
def test_every_member_that_is_read_has_its_words(body: type[Struct], unread: set[str]) -> None:
    members = set(body.__struct_encode_fields__) - unread
    assert members == {one for one in words_of(body) if "." not in one and "[" not in one}


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
