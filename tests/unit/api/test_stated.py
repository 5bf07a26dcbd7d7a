"""What a span says of a chat request: the conversation that its client names, and its numbers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.conversation import METADATA_BYTES_MAX, session_of
from channels.json import JsonObject
from gw.api.chat import number_of
from tests.support.rows import each

NAMED: dict[str, tuple[Any, str | None]] = {
    "session": ({"session_id": "s-1", "conversation_id": "c-1"}, "s-1"),
    "conversation": ({"conversation_id": "c-1"}, "c-1"),
    "neither": ({"user_id": "u"}, None),
    "no text": ({"session_id": 7}, None),
    "no object": (["session_id"], None),
    "nothing": (None, None),
    "too long to look into": ({"session_id": "s", "x": "y" * METADATA_BYTES_MAX}, None),
}


@each("metadata, expected", NAMED.values())
def test_conversation_is_what_the_client_calls_it(metadata: Any, expected: str | None) -> None:
    body = json.dumps({"metadata": metadata}).encode()
    assert session_of(JsonObject.parse(body).raw) == expected
    assert session_of(JsonObject.parse(b"{}").raw) is None


@given(st.text())
def test_any_text_is_read_as_a_number_or_left(text: str) -> None:
    number = number_of(text)
    assert number is None or number == float(text)


def test_what_is_no_number_of_a_span_is_left_out() -> None:
    assert [number_of(text) for text in ("0.5", "1", "nan", "inf", "warm", "", None)] == [
        0.5,
        1.0,
        None,
        None,
        None,
        None,
        None,
    ]
