"""What a call costs its operator, and counts that are asked of a channel."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from channels.errors import UpstreamCut, UpstreamLost, UpstreamUnreachable
from channels.prices import PriceSpec
from channels.registry import Binding, ChannelSpec, HealthSpec, ModelSpec
from gw.calls.counting import WITHOUT_SECONDS, Count, CountRequest
from gw.errors import GatewayError
from tests.support.aio import eventually
from tests.support.logs import ExpectLog
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.calls import sse
from tests.unit.calls.world import (
    CONNECTING,
    FOR_EVER,
    CallResult,
    Head,
    Script,
    World,
    in_order,
    response_of,
    world,
)

KNOWN, OTHER, STRANGE = "gpt-5.4-mini", "gpt-5.4-nano", "nowhere-listed"
STREAM = response_of(sse.delta("Hi"), sse.usage_event(1000, 10, 400), sse.DONE)
WHOLE = response_of(sse.whole(usage=sse.usage_of(1000, 10, 400)))
SERVED = 600 * 750 + 400 * 75 + 10 * 4500  # 0.75, 0.075 and 4.5 USD per million
# 200, and an error where the content would be: nothing of it is used.
EMPTY = json.dumps(
    {"error": {"message": "lost"}, "choices": [], "usage": sse.usage_of(500, 100)}
).encode()
LEFT = 500 * 200 + 100 * 1250  # at the prices of the other: 0.2 and 1.25
REFUSED: Script = (UpstreamUnreachable("refused"),)


def shop(*names: str) -> tuple[list[ChannelSpec], ModelSpec]:
    """Channels `a`, `b`, … at OpenAI, each with a model of this name there."""
    channels = in_order("abc"[: len(names)], kind="openai", health=HealthSpec())
    bound = (Binding(one.id, name) for one, name in zip(channels, names, strict=True))
    return channels, make_model(*bound)


async def call(names: tuple[str, ...], *scripts: Script, **options: Any) -> CallResult:
    channels, model = shop(*names)
    given = {one.id: [script] for one, script in zip(channels, scripts, strict=True)}
    async with world(given, channels=channels, model=model) as w:
        return await w.call(**options)


@cases("stream", False, True)
@cases(
    "names, first, cost, channel",
    ((KNOWN,), None, SERVED, "a"),
    ((STRANGE,), None, None, "a"),
    ((STRANGE, KNOWN), REFUSED, SERVED, "b"),  # who cannot be reached bills nothing
    ((OTHER, KNOWN), response_of(EMPTY), SERVED + LEFT, "b"),
    ((STRANGE, KNOWN), response_of(EMPTY), None, "b"),
    ((OTHER, STRANGE), response_of(EMPTY), None, "b"),
    # Lost before its usage: it may be billed.
    ((OTHER, KNOWN), (UpstreamLost(),), None, "b"),
    ((OTHER, KNOWN), response_of(UpstreamCut()), None, "b"),
    ((OTHER, KNOWN), response_of(b"{"), None, "b"),
)
async def test_every_usage_that_was_stated_is_paid_for(
    names: tuple[str, ...], first: Script | None, cost: int | None, channel: str, stream: bool
) -> None:
    served = STREAM if stream else WHOLE
    if stream and first == response_of(EMPTY):
        broken = {"error": {"message": "lost"}, "usage": sse.usage_of(500, 100)}
        first = response_of(sse.event(broken), UpstreamCut())
    scripts = [served] if first is None else [first, served]
    result = await call(names, *scripts, stream=stream)
    assert result.status == ("success", None)
    assert result.cost == 600 * 1000 + 400 * 100 + 10 * 10_000  # what the client pays
    assert (result.logged["upstream_cost_nano_usd"], result.logged["channel_id"]) == (cost, channel)


async def test_call_that_no_channel_took_costs_nothing() -> None:
    result = await call((STRANGE,), response_of(sse.error_body("no"), status=400))
    assert (result.cost, result.logged["upstream_cost_nano_usd"]) == (0, 0)


async def test_usage_of_a_channel_that_was_left_for_its_silence_is_paid_for() -> None:
    channels, model = shop(OTHER, KNOWN)
    quiet = replace(channels[0], health=HealthSpec(first_event_seconds=0.02))
    began = response_of(sse.event({"choices": [], "usage": sse.usage_of(500, 100)}), FOR_EVER)
    scripts = {"a": [began], "b": [STREAM]}
    async with world(scripts, channels=[quiet, channels[1]], model=model) as w:
        result = await w.call(stream=True)
        assert (result.status, result.attempts) == (("success", None), ["upstream_unreachable"])
        assert result.logged["upstream_cost_nano_usd"] == SERVED + LEFT
        assert result.logged["detail"]["bought"] == [
            ["a", False, [500, 0, 0, 100], LEFT],
            ["b", True, [1000, 400, 0, 10], SERVED],
        ]


BEGUN = response_of(sse.event({"choices": [], "usage": sse.usage_of(1000, 0)}), FOR_EVER)


@cases(
    "script, cost",
    ((CONNECTING,), 0),
    ((FOR_EVER,), None),
    (response_of(FOR_EVER), None),
    (response_of(FOR_EVER, status=400), 0),  # of a refusal the head is enough
    (BEGUN, 750_000),  # its upstream has stated the input
)
async def test_client_that_leaves_during_an_attempt_cancels_it_and_the_operator_may_pay(
    script: Script, cost: int | None
) -> None:
    channels, model = shop(KNOWN, OTHER)
    async with world({"a": [script], "b": [WHOLE]}, channels=channels, model=model) as w:
        call, writer = w.start(stream=True)
        await eventually(
            lambda: bool(w.http.opening or [r for r in w.http.responses if len(r.left) == 1])
        )
        writer.leave()
        result = await w.end(call, writer)
        assert result.status == ("interrupted", "client_disconnected")
        assert (result.cost, w.http.tried, w.verdict("a")) == (0, ["a"], None)
        assert result.logged["upstream_cost_nano_usd"] == cost


@cases(
    "name, stated, cost",
    # Whole in itself: what is read from a cache costs what input does.
    (KNOWN, PriceSpec(input=Decimal(2), output=Decimal(3)), 1000 * 2000 + 10 * 3000),
    (KNOWN, PriceSpec(factor=Decimal("0.5")), SERVED // 2),
    (KNOWN, PriceSpec(cached_input=Decimal(1)), 600 * 750 + 400 * 1000 + 10 * 4500),
    (STRANGE, PriceSpec(factor=Decimal("0.5")), None),  # a part, of a price that is not known
)
async def test_cost_that_a_channel_states_goes_before_the_list(
    name: str, stated: PriceSpec, cost: int | None
) -> None:
    channels, model = shop(name)
    bound = replace(model.bindings[0], cost=stated)
    async with world({"a": [WHOLE]}, channels=channels, model=make_model(bound)) as w:
        result = await w.call()
        assert result.logged["upstream_cost_nano_usd"] == cost
        assert result.cost == 600 * 1000 + 400 * 100 + 10 * 10_000


BODY = json.dumps({"model": "alias", "messages": [{"role": "user", "content": "Hello"}]}).encode()
COUNTED = response_of(b'{"input_tokens":12,"more":1}')
NO_ENDPOINT = response_of(b'{"error":{"message":"no such path"}}', status=404)


def speaking(*names: str, **changes: Any) -> list[ChannelSpec]:
    return in_order(names, protocols=frozenset({"messages"}), **changes)


async def count(w: World, body: bytes = BODY, *, protocol: str = "messages") -> Count:
    async def of_body(job: Callable[..., Any], *arguments: Any) -> tuple[Any, bytes | None]:
        return job(body, *arguments)  # type: ignore[no-any-return]

    request = CountRequest(
        protocol=protocol,
        model=w.model,
        demand=None,
        of_body=of_body,
        own={"anthropic-version": "2023-06-01"},
        own_headers=(("anthropic-beta", "b"),),
    )
    return await w.use_cases.chat_calls.counter.count(request)


async def test_a_channel_of_the_protocol_counts_under_its_own_name_of_the_model() -> None:
    model = make_model(Binding("a", "upstream-name"))
    async with world(a=[COUNTED], channels=speaking("a"), model=model) as w:
        counted = await count(w)
        assert (counted.body, counted.is_estimate) == (b'{"input_tokens":12,"more":1}', False)
        (request,) = w.http.requests
        assert request.url == "http://a.example/v1/messages/count_tokens"
        assert json.loads(bytes(request.body))["model"] == "upstream-name"
        headers = dict(request.headers)
        assert (headers["x-api-key"], headers["anthropic-beta"]) == ("api-key-of-a", "b")
        assert (headers["anthropic-version"], headers["Accept"]) == (
            "2023-06-01",
            "application/json",
        )


@cases(
    "failed",
    response_of(b"{}", status=500),
    REFUSED,
    response_of(b'{"error":{"type":"authentication_error","message":"bad key"}}', status=401),
)
async def test_the_next_channel_is_tried_after_a_failure(
    failed: Any, expect_log: ExpectLog
) -> None:
    if failed[0] == Head(401):
        expect_log("channel_key_refused")
    async with world(a=[failed], b=[COUNTED], channels=speaking("a", "b")) as w:
        assert not (await count(w)).is_estimate
        assert w.http.tried == ["a", "b"]


async def test_an_upstream_without_the_endpoint_is_not_tried_again_for_a_while() -> None:
    async with world(a=[NO_ENDPOINT, COUNTED], channels=speaking("a")) as w:
        estimated = await count(w)
        assert estimated.is_estimate
        assert json.loads(estimated.body)["input_tokens"] > 1
        assert (await count(w)).is_estimate
        assert len(w.http.requests) == 1
        w.clock.advance(WITHOUT_SECONDS)
        assert not (await count(w)).is_estimate


async def test_a_refusal_of_the_request_is_the_clients() -> None:
    refused = response_of(b'{"error":{"message":"messages: too long"}}', status=400)
    async with world(a=[refused], b=[COUNTED], channels=speaking("a", "b")) as w:
        with pytest.raises(GatewayError) as raised:
            await count(w)
        assert (raised.value.http_status, raised.value.message) == (400, "messages: too long")
        assert w.http.tried == ["a"]


@cases(
    "channels",
    [make_channel("a")],  # it speaks chat
    speaking("a", wire={"messages": "vertex"}),
)
async def test_what_no_channel_counts_is_estimated(channels: list[ChannelSpec]) -> None:
    async with world(a=[COUNTED], channels=channels) as w:
        assert (await count(w)).is_estimate
        assert w.http.requests == []


async def test_channels_that_are_down_or_silent_leave_an_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gw.calls.counting.COUNT_SECONDS", 0.01)
    async with world(a=[(FOR_EVER,)], channels=speaking("a")) as w:
        assert (await count(w)).is_estimate
    async with world(a=[response_of(b"{}", status=503)], channels=speaking("a")) as w:
        assert (await count(w)).is_estimate
        assert w.verdict("a") is None  # it shows nothing of how calls fare


async def test_native_content_counts_a_whole_request_under_the_upstreams_name() -> None:
    (channel,) = speaking("a")
    native = make_channel("a", protocols=frozenset({"native"}), health=channel.health)
    model = make_model(Binding("a", "up"))
    inner = {"model": "models/m", "contents": [{"parts": [{"text": "Hello"}]}]}
    body = json.dumps({"generateContentRequest": inner}).encode()
    async with world(a=[response_of(b'{"totalTokens":3}')], channels=[native], model=model) as w:
        assert (await count(w, body, protocol="native")).body == b'{"totalTokens":3}'
        (request,) = w.http.requests
        assert request.url == "http://a.example/v1beta/models/up:countTokens"
        assert json.loads(bytes(request.body))["generateContentRequest"] == {
            **inner,
            "model": "models/up",
        }
