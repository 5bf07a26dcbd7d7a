"""Messages without content: forwarded natively, refused over a translation that cannot say them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.translated import SETTINGS, sent
from tests.support.house import House
from tests.support.tenants import Tenant

# The house of this module.
__all__ = ["SETTINGS"]

PREFILL = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": ""},
]


@pytest.mark.parametrize("of_model", ["claude", "gemini"])
@pytest.mark.parametrize("messages", [PREFILL, PREFILL[-1:]], ids=["last", "only"])
def test_empty_message_is_refused_without_a_cost(
    h: House, tenant: Tenant, of_model: str, messages: list[dict[str, Any]]
) -> None:
    reply = tenant.client.chat(model=of_model, messages=messages)
    assert reply.status == 400
    assert reply.error["code"] == "invalid_request"
    assert f"messages[{len(messages) - 1}].content" in reply.error["message"]
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.remaining_nano_usd() == 10**9


def test_empty_message_is_forwarded_untranslated(h: House, tenant: Tenant) -> None:
    assert tenant.client.chat(model="gpt", messages=PREFILL).status == 200
    assert sent(h)["messages"] == PREFILL


def test_empty_message_is_said_where_it_can_be(h: House, tenant: Tenant) -> None:
    body = {"model": "gpt", "max_tokens": 200, "messages": PREFILL}
    reply = tenant.client.send("POST", "/v1/messages", body, headers={"x-api-key": tenant.key})
    assert reply.status == 200
    assert sent(h)["messages"] == PREFILL
