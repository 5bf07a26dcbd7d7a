"""Bodies of the other three chat dialects addressed to a channel (contract §2: Upstream wire)."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.address import address
from channels.dialects.chat import address as chat
from channels.dialects.gemini import address as native
from channels.dialects.messages import address as messages
from channels.dialects.responses import address as responses
from tests.support.specs import make_channel

CHANNEL = make_channel("one", base_url="https://up.example:8443", api_key="sk-1")
TRACE = (("traceparent", "00-1-2-01"),)
JSON = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
    *TRACE,
)


def test_messages_request_has_its_key_and_its_version() -> None:
    request = messages.request(CHANNEL, b"{}", version="2026-10-21", extra_headers=TRACE)
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.url == "https://up.example:8443/v1/messages"
    assert request.headers == (("x-api-key", "sk-1"), ("anthropic-version", "2026-10-21"), *JSON)


def test_messages_request_without_a_version_has_the_usual_one() -> None:
    assert ("anthropic-version", "2023-06-01") in messages.request(CHANNEL, b"{}").headers


def test_responses_request_has_its_key() -> None:
    request = responses.request(CHANNEL, b"{}", extra_headers=TRACE)
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.url == "https://up.example:8443/v1/responses"
    assert request.headers == (("Authorization", "Bearer sk-1"), *JSON)


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-3.1-pro", False, "gemini-3.1-pro:generateContent"),
        ("gemini-3.1-pro", True, "gemini-3.1-pro:streamGenerateContent?alt=sse"),
        ("../a b?c#d:e", False, "..%2Fa%20b%3Fc%23d%3Ae:generateContent"),
        ("é", True, "%C3%A9:streamGenerateContent?alt=sse"),
    ],
)
def test_native_request_has_its_key_and_the_model_in_its_path(
    model: str, stream: bool, path: str
) -> None:
    request = native.request(
        CHANNEL, b"{}", upstream_model=model, stream=stream, extra_headers=TRACE
    )
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.url == f"https://up.example:8443/v1beta/models/{path}"
    assert request.headers == (("x-goog-api-key", "sk-1"), *JSON)


def test_address_is_that_of_the_protocols_own_adapter() -> None:
    asked: dict[str, Any] = {"upstream_model": "m", "stream": True, "extra_headers": TRACE}
    expected = {
        "chat": chat.request(CHANNEL, b"{}", extra_headers=TRACE),
        "messages": messages.request(CHANNEL, b"{}", version="v", extra_headers=TRACE),
        "responses": responses.request(CHANNEL, b"{}", extra_headers=TRACE),
        "native": native.request(CHANNEL, b"{}", **asked),
    }
    for protocol, request in expected.items():
        assert address(protocol, CHANNEL, b"{}", version="v", **asked) == request
    with pytest.raises(KeyError):
        address("images", CHANNEL, b"{}", **asked)
