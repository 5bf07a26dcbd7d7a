"""Requests that are not as documented where only an upstream can judge them.

They are forwarded to a channel of the client's protocol as they came; a translation, which would
have to read them, refuses them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.translated import SCHEMA, SETTINGS, gemini, sent
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

# The house of this module.
__all__ = ["SETTINGS"]

HELLO = {"role": "user", "content": "Hello"}
FUNCTION = {"name": "weather", "parameters": SCHEMA}
ODD_CHAT: dict[str, tuple[dict[str, Any], str]] = {
    "a tool without type": ({"tools": [{"function": FUNCTION}]}, "tools[0].type"),
    "a flat function": ({"tools": [{"type": "function", **FUNCTION}]}, "tools[0].function"),
    "content of strings": (
        {"messages": [{"role": "user", "content": ["Hello"]}]},
        "messages[0].content[0]",
    ),
    "arguments as an object": (
        {
            "messages": [
                HELLO,
                {"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]},
            ]
        },
        "messages[1].tool_calls[0].function.arguments",
    ),
}
ODD_GEMINI: dict[str, tuple[dict[str, Any], str]] = {
    "one object of tools": ({"tools": {"functionDeclarations": [FUNCTION]}}, "tools"),
    "one object of contents": ({"contents": {"parts": {"text": "Hello"}}}, "contents"),
}


@pytest.mark.parametrize(("odd", "param"), ODD_CHAT.values(), ids=list(ODD_CHAT))
def test_odd_chat_request_is_forwarded_or_refused(
    h: House, tenant: Tenant, odd: dict[str, Any], param: str
) -> None:
    body = {"model": "gpt", "messages": [HELLO], "max_completion_tokens": 100, **odd}
    tenant.client.chat(**body)
    assert sent(h) == body
    h.upstream.reset()
    before = tenant.client.remaining_nano_usd()
    refusal = tenant.client.chat(**{**body, "model": "claude"})
    assert refusal.refusal[:2] == (400, "invalid_request_error")
    assert param in refusal.error["message"]
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.remaining_nano_usd() == before


@pytest.mark.parametrize(("odd", "param"), ODD_GEMINI.values(), ids=list(ODD_GEMINI))
def test_odd_gemini_request_is_forwarded_or_refused(
    h: House, odd: dict[str, Any], param: str
) -> None:
    config: dict[str, Any] = {"generationConfig": {"maxOutputTokens": 100}}
    gemini(h, "gemini", **config, **odd)
    assert sent(h).items() >= odd.items()
    h.upstream.reset()
    refusal = gemini(h, "gpt", **config, **odd)
    assert refusal.status == 400
    assert refusal.json["error"]["status"] == "INVALID_ARGUMENT"
    assert refusal.json["error"]["message"].startswith(param)
    assert h.upstream.stats()["requests"] == 0
