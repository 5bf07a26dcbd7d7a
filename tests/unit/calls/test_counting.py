"""A count is asked of a channel that has it, and estimated where none has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from channels.errors import UpstreamUnreachable
from channels.registry import Binding, ChannelSpec, HealthSpec
from gw.calls.counting import WITHOUT_SECONDS, Count, CountRequest
from gw.errors import GatewayError
from tests.support.logs import ExpectLog
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.calls.world import FOR_EVER, Head, World, answer, world

BODY = json.dumps({"model": "alias", "messages": [{"role": "user", "content": "Hello"}]}).encode()
COUNTED = answer(b'{"input_tokens":12,"more":1}')
NO_ENDPOINT = answer(b'{"error":{"message":"no such path"}}', status=404)


def speaking(*names: str, **changes: Any) -> list[ChannelSpec]:
    return [
        make_channel(
            name,
            protocols=frozenset({"messages"}),
            priority=place,
            health=HealthSpec(failures=3),
            **changes,
        )
        for place, name in enumerate(names)
    ]


async def count(w: World, body: bytes = BODY, *, protocol: str = "messages") -> Count:
    async def of_body(job: Callable[..., Any], *arguments: Any) -> tuple[Any, bytes | None]:
        return job(body, *arguments)  # type: ignore[no-any-return]

    request = CountRequest(
        protocol=protocol,
        model=w.model,
        of_body=of_body,
        own={"anthropic-version": "2023-06-01"},
        own_headers=(("anthropic-beta", "b"),),
    )
    return await w.conversation.counter.count(request)


async def test_a_channel_of_the_protocol_counts_under_its_own_name_of_the_model() -> None:
    model = make_model(Binding("a", "upstream-name"))
    async with world(a=[COUNTED], channels=speaking("a"), model=model) as w:
        counted = await count(w)
        assert (counted.body, counted.is_estimate) == (b'{"input_tokens":12,"more":1}', False)
        (request,) = w.wire.requests
        assert request.url == "http://a.example/v1/messages/count_tokens"
        assert json.loads(request.body)["model"] == "upstream-name"
        headers = dict(request.headers)
        assert (headers["x-api-key"], headers["anthropic-beta"]) == ("api-key-of-a", "b")
        assert (headers["anthropic-version"], headers["Accept"]) == (
            "2023-06-01",
            "application/json",
        )


@pytest.mark.parametrize(
    "failed",
    [
        answer(b"{}", status=500),
        (UpstreamUnreachable("no connection"),),
        answer(b'{"error":{"type":"authentication_error","message":"bad key"}}', status=401),
    ],
    ids=["5xx", "unreachable", "key"],
)
async def test_the_next_channel_is_asked_after_a_failure(
    failed: Any, expect_log: ExpectLog
) -> None:
    if failed[0] == Head(401):
        expect_log("channel_key_refused")
    async with world(a=[failed], b=[COUNTED], channels=speaking("a", "b")) as w:
        assert not (await count(w)).is_estimate
        assert w.wire.tried == ["a", "b"]


async def test_an_upstream_without_the_endpoint_is_not_asked_again_for_a_while() -> None:
    async with world(a=[NO_ENDPOINT, COUNTED], channels=speaking("a")) as w:
        estimated = await count(w)
        assert estimated.is_estimate
        assert json.loads(estimated.body)["input_tokens"] > 1
        assert (await count(w)).is_estimate
        assert len(w.wire.requests) == 1
        w.clock.advance(WITHOUT_SECONDS)
        assert not (await count(w)).is_estimate


async def test_a_refusal_of_the_request_is_the_clients() -> None:
    refused = answer(b'{"error":{"message":"messages: too long"}}', status=400)
    async with world(a=[refused], b=[COUNTED], channels=speaking("a", "b")) as w:
        with pytest.raises(GatewayError) as raised:
            await count(w)
        assert (raised.value.http_status, raised.value.message) == (400, "messages: too long")
        assert w.wire.tried == ["a"]


@cases(
    "channels",
    [make_channel("a")],  # it speaks chat
    speaking("a", wire={"messages": "vertex"}),
)
async def test_what_no_channel_counts_is_estimated(channels: list[ChannelSpec]) -> None:
    async with world(a=[COUNTED], channels=channels) as w:
        assert (await count(w)).is_estimate
        assert w.wire.requests == []


async def test_channels_that_are_down_or_silent_leave_an_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gw.calls.counting.COUNT_SECONDS", 0.01)
    async with world(a=[(FOR_EVER,)], channels=speaking("a")) as w:
        assert (await count(w)).is_estimate
    async with world(a=[answer(b"{}", status=503)], channels=speaking("a")) as w:
        assert (await count(w)).is_estimate
        assert w.verdict("a") is None  # it shows nothing of how calls fare


async def test_native_content_counts_a_whole_request_under_the_upstreams_name() -> None:
    (channel,) = speaking("a")
    native = make_channel("a", protocols=frozenset({"native"}), health=channel.health)
    model = make_model(Binding("a", "up"))
    inner = {"model": "models/m", "contents": [{"parts": [{"text": "Hello"}]}]}
    body = json.dumps({"generateContentRequest": inner}).encode()
    async with world(a=[answer(b'{"totalTokens":3}')], channels=[native], model=model) as w:
        assert (await count(w, body, protocol="native")).body == b'{"totalTokens":3}'
        (request,) = w.wire.requests
        assert request.url == "http://a.example/v1beta/models/up:countTokens"
        assert json.loads(request.body)["generateContentRequest"] == {**inner, "model": "models/up"}
