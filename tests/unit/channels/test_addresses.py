"""Bodies addressed to a channel, in each dialect (contract §2: Upstream wire)."""

from __future__ import annotations

from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from tests.support.rows import cases, each
from tests.support.specs import make_channel

CHANNEL = make_channel("one", base_url="https://up.example:8443", api_key="sk-1")
TRACE = (("traceparent", "00-1-2-01"),)
BEARER = ("Authorization", "Bearer sk-1")
SENT = {
    "chat": ("/v1/chat/completions", (BEARER,)),
    "messages": ("/v1/messages", (("x-api-key", "sk-1"), ("anthropic-version", "2023-06-01"))),
    "responses": ("/v1/responses", (BEARER,)),
    "native": ("/v1beta/models/m:generateContent", (("x-goog-api-key", "sk-1"),)),
    "images": ("/v1/images/generations", (BEARER,)),
    "rerank": ("/v1/rerank", (BEARER,)),
    "moderations": ("/v1/moderations", (BEARER,)),
}


@each("protocol", DIALECTS)
def test_request_goes_to_its_path_with_the_channels_key(protocol: str) -> None:
    path, own = SENT[protocol]
    accepted = "application/json"
    if protocol in CHAT_DIALECTS:
        accepted += ", text/event-stream"
    request = DIALECTS[protocol].address.request(
        CHANNEL,
        b"{}",
        protocol=protocol,
        upstream_model="m",
        stream=False,
        extra_headers=TRACE,
    )
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.url == f"https://up.example:8443{path}"
    shared = (("Content-Type", "application/json"), ("Accept", accepted), *TRACE)
    assert request.headers == (*own, *shared)


def test_messages_request_has_the_clients_version() -> None:
    request = DIALECTS["messages"].address.request(
        CHANNEL,
        b"{}",
        protocol="messages",
        upstream_model="m",
        stream=True,
        own={"anthropic-version": "2026-10-21"},
    )
    assert request.headers[:2] == (("x-api-key", "sk-1"), ("anthropic-version", "2026-10-21"))


@cases(
    "model, stream, path",
    ("gemini-3.1-pro", False, "gemini-3.1-pro:generateContent"),
    ("gemini-3.1-pro", True, "gemini-3.1-pro:streamGenerateContent?alt=sse"),
    ("../a b?c#d:e", False, "..%2Fa%20b%3Fc%23d%3Ae:generateContent"),
    ("é", True, "%C3%A9:streamGenerateContent?alt=sse"),
)
def test_gemini_request_has_the_model_in_its_path(model: str, stream: bool, path: str) -> None:
    address = DIALECTS["native"].address
    request = address.request(
        CHANNEL, b"{}", protocol="native", upstream_model=model, stream=stream
    )
    assert request.url == f"https://up.example:8443/v1beta/models/{path}"
