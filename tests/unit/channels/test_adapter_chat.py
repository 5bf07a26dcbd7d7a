"""A chat body addressed to a channel."""

from __future__ import annotations

from channels.dialects.chat import address as chat
from tests.unit.channels.test_redact import channel


def test_request_goes_to_the_channels_path_with_its_key() -> None:
    spec = channel("one", "https://api.upstream.example:8443", "sk-1")
    request = chat.request(spec, b"{}", extra_headers=(("traceparent", "00-1-2-01"),))
    assert request.method == "POST"
    assert request.url == "https://api.upstream.example:8443/v1/chat/completions"
    assert request.headers == (
        ("Authorization", "Bearer sk-1"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("traceparent", "00-1-2-01"),
    )
    assert request.body == b"{}"
