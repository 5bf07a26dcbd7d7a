"""A stream that is cut may not look whole: its body ends without its last chunk, whatever cut it.

Reference 2.6: no error frame, no terminator; a client of HTTP/1.0 sees a reset. The official
libraries then raise, on each protocol. An error event that the upstream sent itself ends as ever.
"""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google.genai import Client as Genai
from google.genai import types

from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.translated import SETTINGS as TRANSLATED
from tests.acceptance.translated import direct
from tests.support.rows import each

# The deployment of this module; the gateway's time is short enough to be waited for.
CALL_SECONDS = 4
SETTINGS: dict[str, Any] = {**TRANSLATED, "timeouts": {"chat": CALL_SECONDS}}
HELLO: Any = [{"role": "user", "content": "Hello"}]
CUT: dict[str, Any] = {"events": 12, "cut_after_events": 8}
MODELS = ["gpt", "claude", "gemini", "codex"]
NO_WAY = ("messages", "gemini")
LAST_CHUNK = b"0\r\n\r\n"


def openai_chat(h: Deployment, key: str, model: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{h.gateway.url}/v1", api_key=key, max_retries=0) as sdk:
        yield from sdk.chat.completions.create(model=model, messages=HELLO, stream=True)


def openai_responses(h: Deployment, key: str, model: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{h.gateway.url}/v1", api_key=key, max_retries=0) as sdk:
        yield from sdk.responses.create(model=model, input="Hello", stream=True)


def anthropic_messages(h: Deployment, key: str, model: str) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=h.gateway.url, api_key=key, max_retries=0) as sdk:
        yield from sdk.messages.create(model=model, max_tokens=50, messages=HELLO, stream=True)


def google_native(h: Deployment, key: str, model: str) -> Iterator[Any]:
    retries = types.HttpRetryOptions(attempts=1)
    options = types.HttpOptions(base_url=h.gateway.url, retry_options=retries)
    with Genai(api_key=key, http_options=options) as sdk:
        yield from sdk.models.generate_content_stream(model=model, contents="Hello")


# Each on a channel of its own protocol and on one of another. What it raises is its own error of a
# connection, or that of the HTTP library.
LIBRARIES = [
    (openai_chat, ("gpt", "claude"), openai.APIConnectionError),
    (openai_responses, ("codex", "gpt"), openai.APIConnectionError),
    (anthropic_messages, ("claude", "gpt"), httpx2.RemoteProtocolError),
    (google_native, ("gemini", "gpt"), httpx2.RemoteProtocolError),
]


@pytest.mark.parametrize(
    ("ask", "model", "error"),
    [(ask, model, error) for ask, models, error in LIBRARIES for model in models],
)
def test_official_library_raises_for_a_stream_that_was_cut(
    h: Deployment,
    tenant: Tenant,
    ask: Callable[[Deployment, str, str], Iterator[Any]],
    model: str,
    error: type[Exception],
) -> None:
    direct(h, model, **CUT)
    seen: list[Any] = []
    with pytest.raises(error):
        seen.extend(ask(h, tenant.key, model))
    assert seen, "it was cut after its first events"
    (row,) = until(lambda: h.rows(tenant), what="the row")
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")


# The path of each protocol's streams, and its body.
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HELLO, "stream": True}),
    "messages": ("/v1/messages", {"max_tokens": 50, "messages": HELLO, "stream": True}),
    "responses": ("/v1/responses", {"input": "Hello", "stream": True}),
    "native": (
        "/v1beta/models/{}:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
    "native as an array": (
        "/v1beta/models/{}:streamGenerateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}
# Of which no stream that was cut may have one.
ENDS = (
    b"[DONE]",
    b"message_stop",
    b"response.completed",
    b"response.failed",
    b'"error":{',
    b"]\r\n",
)


def opened(
    h: Deployment,
    key: str,
    protocol: str,
    model: str,
    version: str = "1.1",
    wish: str = "keep-alive",
) -> socket.socket:
    """A connection on which a stream was asked for; it would be kept for another request."""
    path, body = REQUESTS[protocol]
    text = json.dumps(body if "native" in protocol else {"model": model, **body})
    head = (
        f"POST {path.format(model)} HTTP/{version}\r\nHost: gateway\r\nConnection: {wish}\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n"
    )
    host, _, port = h.gateway.url.removeprefix("http://").rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=4 * CALL_SECONDS)
    sock.sendall((head + text).encode())
    return sock


def received(sock: socket.socket) -> tuple[bytes, bool]:
    """All bytes until the last chunk or the end of the connection, and whether that was a reset."""
    data = b""
    with sock:
        while not data.endswith(LAST_CHUNK):
            try:
                piece = sock.recv(65536)
            except ConnectionResetError:
                return data, True
            if not piece:
                break
            data += piece
    return data, False


def assert_cut(data: bytes) -> None:
    """The body is in chunks, some of them there, and lacks its last one and every terminator."""
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding: chunked" in head.lower()
    assert b"data: " in body or b"candidates" in body
    assert not body.endswith(LAST_CHUNK)
    assert not [end for end in ENDS if end in body]


# All but one have a way to every upstream.
WAYS = [(one, model) for one in REQUESTS for model in MODELS if (one, model) != NO_WAY]


@each("protocol, model", WAYS)
def test_upstream_cuts(h: Deployment, tenant: Tenant, protocol: str, model: str) -> None:
    direct(h, model, **CUT)
    data, is_reset = received(opened(h, tenant.key, protocol, model))
    assert_cut(data)
    assert not is_reset  # what was delivered is read


def test_gateways_time_cuts(h: Deployment, tenant: Tenant) -> None:
    socks = []
    for protocol, model in zip(REQUESTS, [*MODELS, "gemini"], strict=True):
        direct(h, model, events=12, pause=8)
        socks.append(opened(h, tenant.key, protocol, model))
    for sock in socks:
        data, is_reset = received(sock)
        assert_cut(data)
        assert not is_reset
    until(lambda: len(h.rows(tenant)) == len(socks), what="the rows")
    assert {row["error_code"] for row in h.rows(tenant)} == {"upstream_timeout"}


def test_end_of_a_drain_cuts(postgres: PostgresForTests, tmp_path: Path) -> None:
    with postgres.database() as url, deployment(url, tmp_path, drain_seconds=1, **TRANSLATED) as h:
        tenant = h.tenant()
        socks = []
        for protocol, model in zip(REQUESTS, [*MODELS, "gemini"], strict=True):
            direct(h, model, events=12, pause=8)
            socks.append(opened(h, tenant.key, protocol, model))
        h.upstream.wait(paused=len(socks))
        begun = [sock.recv(200) for sock in socks]
        h.gateway.popen.send_signal(signal.SIGTERM)
        for first, sock in zip(begun, socks, strict=True):
            data, is_reset = received(sock)
            assert_cut(first + data)
            assert not is_reset
        assert h.gateway.wait() == 0, h.gateway.log()
        assert {row["error_code"] for row in h.rows(tenant)} == {"gateway_stopping"}


@each("protocol", REQUESTS)
def test_client_of_an_older_version_sees_a_reset(
    h: Deployment, tenant: Tenant, protocol: str
) -> None:
    """Nothing else tells it: the end of the connection ends the body."""
    direct(h, "gpt", **CUT)
    _, is_reset = received(opened(h, tenant.key, protocol, "gpt", "1.0"))
    assert is_reset


@each("protocol, model", WAYS)
def test_error_event_of_the_upstream_ends_as_ever(
    h: Deployment, tenant: Tenant, protocol: str, model: str
) -> None:
    direct(h, model, events=12, error_event=8, message="Overloaded, sorry.")
    data, is_reset = received(opened(h, tenant.key, protocol, model, wish="close"))
    assert b"Overloaded, sorry." in data
    assert data.endswith(LAST_CHUNK) or b"\r\nContent-Length: " in data
    assert not is_reset


def test_whole_stream_keeps_its_connection(h: Deployment, tenant: Tenant) -> None:
    direct(h, "gpt", events=3, delay_event_ms=50)
    with opened(h, tenant.key, "chat", "gpt") as sock:
        data = b""
        while not data.endswith(LAST_CHUNK):
            data += sock.recv(65536)
        assert b"data: [DONE]" in data
        sock.sendall(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert received(sock)[0].startswith(b"HTTP/1.1 401 ")
