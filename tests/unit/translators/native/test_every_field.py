"""Every documented field is carried over or listed as dropped, from and to native-content.

For the other protocols' fields their own tables are used (`tests/unit/translators/fields_of_*.py`):
here a field must change what is sent, or be listed.
"""

from __future__ import annotations

from typing import Any

import pytest

from channels.translators.canonical import Protocol
from tests.unit.translators import fields_of_chat, fields_of_messages
from tests.unit.translators.native import fields_of_native
from tests.unit.translators.native.pieces import asked
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
    fields_of_native.FIELDS,
    ids=[f"{n}-{row[0]}" for n, row in enumerate(fields_of_native.FIELDS)],
)
def test_field_of_native_is_carried_or_listed(
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
