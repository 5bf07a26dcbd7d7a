"""Addresses: what may be reached, how channels are addressed, links that end."""

from typing import Any

from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.media.exchanges import addressed
from channels.media.model import MediaRequest
from channels.registry import ChannelSpec
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
    "embeddings": ("/v1/embeddings", (BEARER,)),
    "decisions": ("/v1/decisions", (BEARER,)),
    "native_embeddings": ("/v1beta/models/m:embedContent", (("x-goog-api-key", "sk-1"),)),
}


@each("protocol", DIALECTS)
def test_request_goes_to_its_path_with_the_channels_key(protocol: str) -> None:
    path, own = SENT[protocol]
    accepted = "application/json"
    if protocol in CHAT_DIALECTS:
        accepted += ", text/event-stream"
    request = DIALECTS[protocol].address.request(
        CHANNEL, b"{}", protocol=protocol, upstream_model="m", stream=False, extra_headers=TRACE
    )
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.url == f"https://up.example:8443{path}"
    shared = (("Content-Type", "application/json"), ("Accept", accepted), *TRACE)
    assert request.headers == (*own, *shared)


def test_messages_request_has_the_clients_version() -> None:
    request = request_of(CHANNEL, "messages", own={"anthropic-version": "2026-10-21"})
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


PREFIX = "https://up.example/api/v2"


def channel(**changes: Any) -> ChannelSpec:
    return make_channel("one", **{"base_url": PREFIX, "api_key": "sk-1", **changes})


def request_of(
    spec: ChannelSpec, protocol: str = "chat", *, stream: bool = False, **more: Any
) -> UpstreamRequest:
    address = DIALECTS[protocol].address
    return address.request(
        spec, b"{}", protocol=protocol, upstream_model="a/b", stream=stream, **more
    )


def test_path_of_a_protocol_takes_the_place_of_prefix_and_own_path() -> None:
    spec = channel(
        paths={
            "chat": "/openai/deployments/{model}/chat/completions",
            "native": "/v1/publishers/google/models/{model}",
        },
        query=(("api-version", "2024-10-21"),),
    )
    assert request_of(spec).url == (
        "https://up.example/openai/deployments/a%2Fb/chat/completions?api-version=2024-10-21"
    )
    assert request_of(spec, "messages").url == f"{PREFIX}/v1/messages?api-version=2024-10-21"
    assert request_of(spec, "native", stream=True).url == (
        "https://up.example/v1/publishers/google/models/a%2Fb:streamGenerateContent"
        "?alt=sse&api-version=2024-10-21"
    )


WAYS = {
    "bearer": ("Authorization", "Bearer sk-1"),
    "x-api-key": ("x-api-key", "sk-1"),
    "api-key": ("api-key", "sk-1"),
    "x-goog-api-key": ("x-goog-api-key", "sk-1"),
}


@each("protocol", DIALECTS)
@each("way", WAYS)
def test_key_goes_the_channels_way_in_every_protocol(protocol: str, way: str) -> None:
    sent = request_of(channel(auth=way), protocol)
    assert sent.headers[0] == WAYS[way]
    assert "sk-1" not in repr(sent.headers[1:]) + sent.url


@each("protocol", DIALECTS)
def test_key_goes_in_the_query(protocol: str) -> None:
    sent = request_of(channel(auth="query:key", api_key="a/b +"), protocol)
    assert sent.url.endswith("?key=a%2Fb+%2B")
    assert "a/b" not in repr(sent.headers)


@cases("changes", {"auth": "none"}, {"api_key": ""})
@each("protocol", DIALECTS)
def test_no_key_is_sent_where_there_is_none(protocol: str, changes: dict[str, str]) -> None:
    names = {name.lower() for name, _ in request_of(channel(**changes), protocol).headers}
    assert names.isdisjoint({"authorization", "x-api-key", "x-goog-api-key", "api-key"})


def test_fixed_headers_take_the_place_of_others() -> None:
    spec = channel(headers=(("X-Team", "a"), ("Anthropic-Version", "2024-01-01")))
    sent = request_of(
        spec,
        "messages",
        own={"anthropic-version": "2026-10-21"},
        extra_headers=(("anthropic-beta", "b"), ("x-team", "of-the-client")),
    )
    assert sent.headers == (
        ("x-api-key", "sk-1"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("X-Team", "a"),
        ("Anthropic-Version", "2024-01-01"),
        ("anthropic-beta", "b"),
    )


def test_what_is_the_same_for_every_request_is_written_once() -> None:
    spec = channel(headers=(("X-Team", "a"),), query=(("v", "1"),))
    first, second = request_of(spec), request_of(spec)
    assert first.url is second.url
    assert first.headers is second.headers


def test_media_request_is_addressed_likewise() -> None:
    spec = channel(auth="query:key", headers=(("X-Team", "a"),), query=(("v", "1"),))
    requested = MediaRequest(method="GET", path="/v1/videos/7", query=(("page", "2"),))
    sent = addressed(spec, requested)
    assert sent.url == f"{PREFIX}/v1/videos/7?page=2&v=1&key=sk-1"
    assert sent.headers == (("X-Team", "a"),)
    usual = addressed(channel(), MediaRequest(method="POST", path="/v1/videos", body=b"{}"))
    assert usual.url == f"{PREFIX}/v1/videos"
    assert usual.headers == (("Authorization", "Bearer sk-1"), ("Content-Type", "application/json"))
