"""Every documented field of chat-completions beside a built-in tool: carried, or listed.

The fields are those of the table for messages; where each arrives here is told below, and what is
not told there must be listed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.translators import fields_of_chat
from tests.unit.translators.test_every_field import at
from tests.unit.translators.wire import translated

CONTENT = "input.0.content.1"
# Field (or field and how often it was met before in the table) -> place in the responses request.
PLACES: dict[str, str] = {
    "model": "model",
    "messages": "input.0.content.0.text",
    "messages.refusal": "input.1.content.1.refusal",
    "messages.tool_calls": "input.2.name",
    "messages.function_call": "input.2.name",
    "messages.image_url": f"{CONTENT}.image_url",
    "messages.image_url.detail": f"{CONTENT}.detail",
    "messages.file": f"{CONTENT}.file_data",
    "messages.file.filename": f"{CONTENT}.filename",
    "messages.prompt_cache_breakpoint": f"{CONTENT}.prompt_cache_breakpoint.mode",
    "frequency_penalty": "frequency_penalty",
    "function_call": "tool_choice.name",
    "functions": "tools.0.name",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "metadata": "metadata.a",
    "moderation": "moderation.model",
    "parallel_tool_calls": "parallel_tool_calls",
    "presence_penalty": "presence_penalty",
    "prompt_cache_key": "prompt_cache_key",
    "prompt_cache_options": "prompt_cache_options.ttl",
    "prompt_cache_retention": "prompt_cache_retention",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format.type",
    "response_format 1": "text.format.schema",
    "response_format.json_schema.name": "text.format.name",
    "response_format.json_schema.description": "text.format.description",
    "response_format.json_schema.strict": "text.format.strict",
    "safety_identifier": "safety_identifier",
    "service_tier": "service_tier",
    "service_tier 1": "service_tier",
    "stream": "stream",
    "stream_options": "input",
    "stream_options.include_obfuscation": "stream_options.include_obfuscation",
    "temperature": "temperature",
    "temperature 1": "temperature",
    "tool_choice": "tool_choice",
    "tools": "tools.0.name",
    "tools.function.description": "tools.0.description",
    "tools.function.parameters": "tools.0.parameters",
    "tools.function.strict": "tools.0.strict",
    "tools.web_search": "tools.0.type",
    "tools.image_generation": "tools.0.type",
    "top_p": "top_p",
    "user": "user",
    "verbosity": "text.verbosity",
}


def numbered() -> list[tuple[str, str, dict[str, Any]]]:
    """The table's rows, each under a name of its own."""
    met: dict[str, int] = {}
    rows = []
    for field, fragment, _ in fields_of_chat.FIELDS:
        count = met[field] = met.get(field, -1) + 1
        rows.append((f"{field} {count}" if count else field, field, fragment))
    return rows


@pytest.mark.parametrize(("name", "field", "fragment"), numbered(), ids=[r[0] for r in numbered()])
def test_field_is_carried_or_listed(name: str, field: str, fragment: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fragment}
    body["tools"] = [*body.get("tools", ()), {"type": "web_search"}]
    sent, dropped = translated("chat", "responses", body, stream=True)
    place = PLACES.get(name)
    if place is None:
        assert field in dropped
    else:
        assert at(sent, place) is not None, f"{field} should be at {place}"
        assert field not in dropped


def test_every_place_is_met() -> None:
    assert PLACES.keys() <= {name for name, _, _ in numbered()}
