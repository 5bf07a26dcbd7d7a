"""An upstream's 429 where its channel says `on_429: next`: one hop, and a rest (reference 10.2)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from actors.channel import ChannelLease
from channels.registry import ChannelSpec
from gw.calls.attempts import Attempts
from tests.support.rows import cases, each
from tests.support.specs import make_channel, make_model
from tests.unit.calls import sse
from tests.unit.calls.world import SUCCESS, RecordingWriter, Script, response_of, world
from tests.unit.images import stage
from tests.unit.images.stage import generate, made

GOOD = response_of(sse.whole())
GOOD_STREAM = response_of(
    sse.delta("Hello"), sse.delta(finish="stop"), sse.usage_event(5, 5), sse.DONE
)
FAILED = response_of(status=500)
LIMIT = ("error", "rate_limit_exceeded")


def throttled(message: str = "slow down", **headers: str) -> Script:
    return response_of(sse.error_body(message), status=429, **headers)


def hopping(*names: str, **changes: Any) -> list[ChannelSpec]:
    """Channels in this order of priority, each of which hops."""
    return [
        make_channel(name, priority=place, hops_when_throttled=True, **changes)
        for place, name in enumerate(names, 1)
    ]


TWO_KEYS = {"api_key": "first-key", "more_keys": ("second-key",)}


@cases("stream", False, True)
async def test_throttled_call_hops_once_and_its_channel_rests(stream: bool) -> None:
    good = GOOD_STREAM if stream else GOOD
    scripts = {"a": [throttled(retry_after="30")], "b": [good]}
    async with world(scripts, channels=hopping("a", "b")) as w:
        for tried, attempts in ((["a", "b"], ["upstream_429"]), (["a", "b", "b"], [])):
            result = await w.call(stream=stream)
            assert (result.error, result.status) == (None, SUCCESS)
            assert (w.http.tried, result.attempts) == (tried, attempts)
        outcomes = [[one[0], one[3]] for one in w.calls[0].detail["tried"]]
        assert outcomes == [["a", "rate_limited"], ["b", "ok"]]
        assert w.verdict("a") is None  # the breaker learns nothing
        assert w.channels["a"].spec.ring.is_resting


# What the channels say, in their order -> whom the call has asked, and the client's message of a
# refusal or the status of a failure.
ENDS: list[tuple[dict[str, Sequence[Script]], str, str | int]] = [
    ({"a": [throttled()], "b": [throttled("and here")], "c": [GOOD]}, "ab", "and here"),
    ({"a": [throttled()], "b": [FAILED], "c": [throttled("at last")]}, "abc", "at last"),
    ({"a": [FAILED], "b": [throttled()], "c": [throttled("third")]}, "abc", "third"),
    ({"a": [FAILED], "b": [FAILED], "c": [throttled("fourth")], "d": [GOOD]}, "abc", "fourth"),
    ({"a": [throttled()], "b": [FAILED]}, "ab", 500),
    ({"a": [throttled("alone", retry_after="17")]}, "a", "alone"),
]


@each("scripts, tried, end", ENDS)
async def test_second_limit_is_the_clients(
    scripts: dict[str, Sequence[Script]], tried: str, end: str | int
) -> None:
    async with world(scripts, channels=hopping(*scripts)) as w:
        result = await w.call()
        assert "".join(w.http.tried) == tried
        if isinstance(end, int):
            assert result.refusal.http_status == end
        else:
            assert (result.refusal.message, result.status) == (end, LIMIT)
        assert result.cost == 0


async def test_limit_without_another_channel_is_the_clients_as_ever() -> None:
    results = []
    for hops in (False, True):
        channels = [make_channel("a", hops_when_throttled=hops)]
        async with world(a=[throttled(retry_after="17")], channels=channels) as w:
            result = await w.call()
            error = result.refusal
            shown = (error.http_status, error.message, error.headers, result.status)
            results.append((shown, result.attempts, [t[3] for t in w.calls[0].detail["tried"]]))
    assert results[0] == results[1]
    assert results[0][0] == (429, "slow down", {"Retry-After": "17"}, LIMIT)


async def test_channel_that_leaves_it_to_the_client_is_as_before() -> None:
    async with world(a=[throttled(), GOOD], b=[GOOD]) as w:
        assert (await w.call()).refusal.http_status == 429
        assert (await w.call()).status == SUCCESS
        assert (w.http.tried, w.verdict("a")) == (["a", "a"], "success")


async def test_another_key_of_the_channel_comes_before_other_channels() -> None:
    channels = [*hopping("a", **TWO_KEYS), make_channel("b", priority=2)]
    async with world(a=[throttled(), GOOD], b=[GOOD], channels=channels) as w:
        assert (await w.call()).attempts == ["upstream_429"]
        assert w.http.tried == ["a", "a"]
        sent = [dict(one.headers)["Authorization"] for one in w.http.requests]
        assert sent == ["Bearer first-key", "Bearer second-key"]
        await w.call()
        assert dict(w.http.requests[-1].headers)["Authorization"] == "Bearer second-key"


async def test_one_slot_is_enough_for_another_key() -> None:
    channels = hopping("a", max_concurrency=1, **TWO_KEYS)
    async with world(a=[throttled(), GOOD], channels=channels) as w:
        assert (await w.call()).status == SUCCESS


@cases("state", "full", "resting", "aside")
@cases("pin", None, "conversation")
async def test_hop_needs_a_channel_that_is_free(pin: str | None, state: str) -> None:
    channels = hopping("a", "b")
    async with world(a=[throttled("of a")], b=[GOOD], channels=channels) as w:
        leases = []
        if state == "full":
            leases = [w.channels["b"].acquire() for _ in range(10)]
        elif state == "resting":
            w.channels["b"].spec.ring.keys[0].throttled("9")
        else:
            w.channels["b"].spec.ring.keys[0].aside_until = 1e18
        result = await w.call(pin=pin)
        assert (result.refusal.message, w.http.tried) == ("of a", ["a"])
        assert result.attempts == []
        reason = "full" if state == "full" else "resting"
        assert result.logged["detail"]["passed_over"] == {"b": reason}
        for lease in leases:
            assert isinstance(lease, ChannelLease)
            lease.release("abandoned")


async def test_pinned_conversation_returns_to_its_channel_after_the_rest() -> None:
    channels = [make_channel(name, hops_when_throttled=True) for name in "ab"]
    async with world(a=[GOOD], b=[GOOD], channels=channels) as w:
        await w.call(pin="talk")
        (home,) = w.http.tried
        (key,) = w.channels[home].spec.ring.keys
        key.throttled("60")
        await w.call(pin="talk")
        assert w.http.tried[-1] != home
        key.rests_until = w.channels[home].spec.ring.rests_until = 1.0
        await w.call(pin="talk")
        assert w.http.tried[-1] == home


async def test_limit_reported_within_a_response_counts_alike() -> None:
    body = b'{"base_resp": {"status_code": 1002, "status_msg": "It says why."}, "choices": null}'
    async with world(a=[response_of(body)], b=[GOOD], channels=hopping("a", "b")) as w:
        assert (await w.call()).attempts == ["upstream_429"]
        assert w.channels["a"].spec.ring.is_resting


async def test_images_hop_and_pass_the_upstreams_error_on() -> None:
    channels = hopping("a", "b", protocols=frozenset({"images"}))
    model = make_model("a", "b", endpoint_type="images_generations", price=stage.PLAIN)
    scripts = {"a": [throttled()], "b": [response_of(made(1)), throttled("whole")]}
    async with world(scripts, channels=channels, model=model) as w:
        result = await generate(w)
        assert (result.status, result.attempts) == (SUCCESS, ["upstream_429"])
        assert (w.http.tried, result.cost) == (["a", "b"], stage.EACH)
        result = await generate(w)
        assert (result.writer.http_status, result.writer.sent) == (429, sse.error_body("whole"))
        assert (result.status, result.cost, w.http.tried) == (LIMIT, 0, ["a", "b", "b"])


async def test_head_that_was_sent_early_gives_the_hop_up() -> None:
    script = (0.05, *throttled("too late"))
    async with world(a=[script], b=[GOOD], channels=hopping("a", "b")) as w:
        call, writer = w.prepare(), RecordingWriter()
        task = w.begin(call, writer)
        attempts = w.http.requests
        while not attempts:
            await asyncio.sleep(0)
        sender = attempts[0].sender
        assert isinstance(sender, Attempts)
        assert sender.commit() is not None
        await asyncio.wait([task])
        result = await w.end(call, writer)
        assert (result.refusal.message, w.http.tried) == ("too late", ["a"])
