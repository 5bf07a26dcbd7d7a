"""Every documented field is carried over or listed as dropped, from and to native-content.

For the other protocols' fields their own tables are used (`tests/unit/translators/fields_of_*.py`):
here a field must change what is sent, or be listed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from channels.translation.model import Protocol
from tests.unit.translators import fields_of_chat, fields_of_messages
from tests.unit.translators.gemini import fields_of_gemini
from tests.unit.translators.gemini.pieces import asked
from tests.unit.translators.wire import translated

TARGETS: list[Protocol] = ["chat", "messages"]
# Said in the path, or what every body has.
IN_THE_PATH = {
    "model",
    "stream",
    "stream_options",
    "messages",
    "max_tokens",
    "max_completion_tokens",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("field", "fragment", "dropped_for"),
    fields_of_gemini.FIELDS,
    ids=[f"{n}-{row[0]}" for n, row in enumerate(fields_of_gemini.FIELDS)],
)
def test_field_of_gemini_is_carried_or_listed(
    field: str, fragment: dict[str, Any], dropped_for: tuple[str, ...], target: Protocol
) -> None:
    sent, dropped = translated("native", target, asked(**fragment))
    if target in dropped_for:
        assert field in dropped
    else:
        plain, _ = translated("native", target, asked())
        assert sent != plain
        assert dropped == []


@pytest.mark.parametrize("target", TARGETS)
def test_what_happens_anyway_is_not_listed(target: Protocol) -> None:
    body = asked(
        safetySettings=[],
        generationConfig={
            "candidateCount": 1,
            "responseModalities": ["TEXT"],
            "responseLogprobs": False,
            "mediaResolution": "MEDIA_RESOLUTION_UNSPECIFIED",
        },
        tools=[{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}]}],
        toolConfig={"functionCallingConfig": {"mode": "MODE_UNSPECIFIED"}},
    )
    assert translated("native", target, body)[1] == []


OTHERS: list[tuple[Protocol, str, dict[str, Any]]] = [
    *[("chat", field, fragment) for field, fragment, _ in fields_of_chat.FIELDS],
    *[("messages", field, fragment) for field, fragment, _ in fields_of_messages.FIELDS],
]


@pytest.mark.parametrize(
    ("client", "field", "fragment"),
    OTHERS,
    ids=[f"{n}-{client}-{field}" for n, (client, field, _) in enumerate(OTHERS)],
)
def test_field_of_another_protocol_is_carried_or_listed(
    client: Protocol, field: str, fragment: dict[str, Any]
) -> None:
    plain = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    sent, dropped = translated(client, "native", {**plain, **fragment})
    if field in IN_THE_PATH:
        assert dropped == []
    elif not any(name == field or name.startswith(f"{field}.") for name in dropped):
        assert sent != translated(client, "native", plain)[0]


# What stands where in a request, by the official library's types.
PLACES: list[tuple[str, type[BaseModel]]] = [
    ("contents.parts", types.Part),
    ("contents.parts.functionCall", types.FunctionCall),
    ("contents.parts.functionResponse", types.FunctionResponse),
    ("generationConfig", types.GenerationConfig),
    ("generationConfig.thinkingConfig", types.ThinkingConfig),
    ("tools", types.Tool),
    ("tools.functionDeclarations", types.FunctionDeclaration),
    ("toolConfig", types.ToolConfig),
    ("toolConfig.functionCallingConfig", types.FunctionCallingConfig),
    ("", types.GenerateContentConfig),
]
# What the library keeps for itself; and the maximum, which goes beside the body here.
ELSEWHERE = {
    *("httpOptions", "shouldReturnHttpResponse", "automaticFunctionCalling"),
    *("continuationToken", "automaticContinuation", "generationOutputConfig"),
    "maxOutputTokens",
}


@pytest.mark.parametrize(("place", "kind"), PLACES, ids=[place or "body" for place, _ in PLACES])
def test_every_member_the_official_library_knows_is_in_the_table(
    place: str, kind: type[BaseModel]
) -> None:
    fragments = [json.dumps(row[1]) for row in fields_of_gemini.FIELDS if row[0].startswith(place)]
    missing = {
        field.alias
        for field in kind.model_fields.values()
        if not any(f'"{field.alias}":' in fragment for fragment in fragments)
    }
    assert missing - ELSEWHERE == set()
