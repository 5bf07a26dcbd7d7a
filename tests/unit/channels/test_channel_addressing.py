"""Requests of channels that say themselves where and how they are reached (contract §2)."""

from __future__ import annotations

from typing import Any

from channels.dialects.table import DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.media.model import MediaRequest, addressed
from channels.registry import ChannelSpec
from tests.support.rows import cases, each
from tests.support.specs import make_channel
from tests.unit.channels.raw_server import OK, Peer, RawServer, new_wire

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


@cases(
    "protocol, path",
    ("chat", "/v1/chat/completions"),
    ("messages", "/v1/messages"),
    ("responses", "/v1/responses"),
    ("images", "/v1/images/generations"),
    ("native", "/v1beta/models/a%2Fb:generateContent"),
)
def test_prefix_stands_before_each_own_path(protocol: str, path: str) -> None:
    assert request_of(channel(), protocol).url == PREFIX + path


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
    asked = MediaRequest(method="GET", path="/v1/videos/7", query=(("page", "2"),))
    sent = addressed(spec, asked)
    assert sent.url == f"{PREFIX}/v1/videos/7?page=2&v=1&key=sk-1"
    assert sent.headers == (("X-Team", "a"),)
    usual = addressed(channel(), MediaRequest(method="POST", path="/v1/videos", body=b"{}"))
    assert usual.url == f"{PREFIX}/v1/videos"
    assert usual.headers == (
        ("Authorization", "Bearer sk-1"),
        ("Content-Type", "application/json"),
    )


async def test_all_of_it_arrives_at_a_server() -> None:
    async def script(peer: Peer) -> None:
        server.requests.append(await peer.request())
        await peer.send(OK)

    async with RawServer(script) as server, new_wire() as wire:
        spec = channel(
            base_url=f"http://127.0.0.1:{server.port}/openai",
            auth="query:key",
            headers=(("X-Team", "a b"),),
            query=(("api-version", "2024-10-21"),),
        )
        response = await wire.open(request_of(spec))
        assert await response.read(100) == b"{}"
    ((head, body),) = server.requests
    lines = head.decode().split("\r\n")
    assert lines[0] == ("POST /openai/v1/chat/completions?api-version=2024-10-21&key=sk-1 HTTP/1.1")
    assert "X-Team: a b" in lines
    assert body == b"{}"
