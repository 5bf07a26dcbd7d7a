"""Every documented field of both protocols is carried over, or listed as dropped; never neither.

The tables beside this say where each field arrives. That they are complete is checked against the
official libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import ContentBlockParam
from anthropic.types.beta.message_create_params import (
    MessageCreateParamsBase as BetaMessageCreateParams,
)
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat import completion_create_params

from channels.translation.model import Protocol
from tests.unit.translators import dropping, fields_of_chat, fields_of_messages
from tests.unit.translators.wire import translated


def at(body: Any, path: str) -> Any:
    """The value at a dotted path with indices, `messages.0.content`; None where there is none."""
    for step in path.split("."):
        if isinstance(body, list):
            body = body[int(step)] if len(body) > int(step) else None
        else:
            body = body.get(step) if isinstance(body, Mapping) else None
    return body


def check(
    client: Protocol,
    upstream: Protocol,
    field: str,
    fragment: dict[str, Any],
    place: str | None,
) -> None:
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        **fragment,
    }
    sent, dropped = translated(client, upstream, body, stream=bool(body.get("stream")))
    if place is None:
        assert field in dropped
    else:
        assert at(sent, place) is not None, f"{field} should be at {place}"
        assert field not in dropped


@pytest.mark.parametrize(
    ("field", "fragment", "place"),
    fields_of_chat.FIELDS,
    ids=[f"{n}-{row[0]}" for n, row in enumerate(fields_of_chat.FIELDS)],
)
def test_field_of_chat_is_carried_to_messages_or_listed(
    field: str, fragment: dict[str, Any], place: str | None
) -> None:
    check("chat", "messages", field, fragment, place)


@pytest.mark.parametrize(
    ("field", "fragment", "place"),
    fields_of_messages.FIELDS,
    ids=[f"{n}-{row[0]}" for n, row in enumerate(fields_of_messages.FIELDS)],
)
def test_field_of_messages_is_carried_to_chat_or_listed(
    field: str, fragment: dict[str, Any], place: str | None
) -> None:
    check("messages", "chat", field, fragment, place)


def test_every_member_the_official_library_of_chat_knows_is_in_the_table() -> None:
    known = set(completion_create_params.CompletionCreateParamsBase.__annotations__)
    assert known - {field for field, _, _ in fields_of_chat.FIELDS} == set()


def test_every_member_the_official_library_of_messages_knows_is_in_the_table() -> None:
    known = {*MessageCreateParamsBase.__annotations__, *BetaMessageCreateParams.__annotations__}
    fields = {field for field, _, _ in fields_of_messages.FIELDS}
    refused = {"thread"}  # before any channel is chosen
    assert known - {field.partition(".")[0] for field in fields} == refused
    blocks = {kind for block in get_args(ContentBlockParam) for kind in kinds_of(block)}
    covered = [json.dumps(fragment) for _, fragment, _ in fields_of_messages.FIELDS]
    assert "tool_use" in blocks
    assert {kind for kind in blocks if not any(f'"type": "{kind}"' in one for one in covered)} == (
        set()
    )


def kinds_of(block: Any) -> tuple[str, ...]:
    """The values of a typed dictionary's `type`."""
    return get_args(get_args(get_type_hints(block, include_extras=True)["type"])[0])


def test_page_of_what_is_dropped_is_up_to_date() -> None:
    assert dropping.PAGE.read_text(encoding="utf-8") == dropping.page()
