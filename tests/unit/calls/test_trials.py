"""A channel that comes second and has failed: who tries it first, and that no call loses by it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.channel import ChannelLease
from actors.failover import TRIES_MAX, Failover, FailoverExhausted
from actors.routing import Candidate
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import UpstreamCut, UpstreamUnreachable
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec, HealthSpec
from gw.calls.attempts import TRIAL_SECONDS
from gw.calls.chat_request import UpstreamPlan
from gw.errors import INVALID_REQUEST, GatewayError
from tests.support.aio import eventually, jump
from tests.support.logs import ExpectLog
from tests.support.rows import cases, each
from tests.support.specs import make_channel
from tests.unit.actors.channels import Channels, channels
from tests.unit.calls import sse
from tests.unit.calls.world import (
    FOR_EVER,
    TIMEOUT_SECONDS,
    RecordingWriter,
    Script,
    World,
    response_of,
    world,
)
from tests.unit.images.stage import generate, made, stage

GOOD = response_of(sse.whole(usage=sse.usage_of(10, 1)))
GOOD_STREAM = response_of(sse.delta("Hi"), sse.usage_event(10, 1), sse.DONE)
HEALTH = HealthSpec(failures=3)
NAMES = ("a", "b", "c", "d", "e")
DUE = ("due", "translated", "aside", "taken")  # open, and cool
FETCH = "web_fetch"


@pytest.fixture(autouse=True)
def breakers(expect_log: ExpectLog) -> None:
    """Channels open and close here, and keys are refused."""
    for action in ("opened", "half_opened", "closed", "key_refused"):
        expect_log(f"channel_{action}", required=False)


def make_open(one: World | Channels, *names: str) -> None:
    directory = one.channels if isinstance(one, World) else one.directory
    for name in names:
        while (channel := directory[name]).health.state == "closed":
            lease = channel.acquire()
            assert isinstance(lease, ChannelLease)
            lease.release("failure")


def make_due(one: World | Channels, *names: str) -> None:
    """Open these channels, and let their cooldown pass."""
    make_open(one, *names)
    one.clock.advance(HEALTH.cooldown_seconds)


def state(w: World, name: str) -> str:
    return w.channels[name].health.state


@cases("stream", False, True)
async def test_call_tries_the_standby_first_and_closes_it(stream: bool) -> None:
    script = GOOD_STREAM if stream else GOOD
    async with world(a=[script], b=[script]) as w:
        make_due(w, "b")
        result = await w.call(stream=stream)
        assert result.status == ("success", None)
        assert state(w, "b") == "closed"
        assert [one[0] for one in result.logged["detail"]["order"]] == ["b", "a"]
        await w.call(stream=stream)
        assert w.http.tried == ["b", "a"]


FAILING: dict[str, tuple[Script, str, str]] = {
    "unreachable": ((UpstreamUnreachable(),), "upstream_unreachable", "open"),
    "500": (response_of(status=500), "upstream_500", "open"),
    "moved": (response_of(status=302), "upstream_302", "open"),
    "cut": (response_of(sse.KEEP_ALIVE, UpstreamCut()), "upstream_cut", "open"),
    "error event": (response_of(sse.error_event()), "upstream_error", "open"),
    "refused": (response_of(sse.error_body("no"), status=400), "upstream_400", "half_open"),
    "rate limit": (response_of(status=429), "upstream_429", "half_open"),
    "key refused": (response_of(status=401), "upstream_401", "closed"),
}


@each("script, code, becomes", FAILING.values())
async def test_trial_that_fails_is_not_the_clients(script: Script, code: str, becomes: str) -> None:
    async with world(a=[GOOD_STREAM] * 2, b=[script]) as w:
        make_due(w, "b")
        result = await w.call(stream=True)
        assert result.writer.sent == sse.delta("Hi") + sse.DONE
        assert (result.status, result.attempts) == (("success", None), [code])
        assert result.cost == 10 * 1000 + 10_000
        assert (w.http.tried, state(w, "b")) == (["b", "a"], becomes)
        await w.call(stream=True)
        assert w.http.tried == ["b", "a", "a"]


async def test_request_that_cannot_be_put_to_the_standby_is_put_to_the_next() -> None:
    def plan(request: UpstreamRequest) -> UpstreamPlan:
        if request.url.startswith("http://b."):
            raise GatewayError(INVALID_REQUEST, "Its wire has no such member.")
        return UpstreamPlan(request, CHAT_DIALECTS["chat"])

    async with world(a=[GOOD], b=[GOOD]) as w:
        make_due(w, "b")
        result = await w.call(plan=plan)
        assert (result.status, result.attempts) == (("success", None), ["upstream_400"])
        assert (w.http.tried, state(w, "b")) == (["a"], "half_open")


@cases("stream", False, True)
async def test_standby_that_hangs_costs_seconds_of_the_calls_own_time(stream: bool) -> None:
    async def after_trial(last: Script, seconds: float) -> Any:
        async with world(a=[last], b=[(FOR_EVER,)]) as w:
            make_due(w, "b")
            call, writer = w.start(stream=stream)
            await eventually(lambda: w.http.tried == ["b"])
            jump(TRIAL_SECONDS + 0.01)
            await eventually(lambda: w.http.tried == ["b", "a"])
            jump(seconds)
            result = await w.end(call, writer)
            assert (result.attempts[0], state(w, "b")) == ("upstream_timeout", "open")
            return result.status

    # All of it together is the time of one call (reference 10.5).
    left = TIMEOUT_SECONDS - TRIAL_SECONDS
    good = (0.02, *(GOOD_STREAM if stream else GOOD))
    assert await after_trial(good, left - 1) == ("success", None)
    assert await after_trial((FOR_EVER,), left + 0.01) == ("interrupted", "upstream_timeout")


async def test_standby_leaves_half_of_a_shorter_time_to_the_next() -> None:
    async with world(a=[GOOD], b=[(FOR_EVER,)], timeout_seconds=TRIAL_SECONDS) as w:
        make_due(w, "b")
        call, writer = w.start()
        await eventually(lambda: w.http.tried == ["b"])
        jump(TRIAL_SECONDS / 2 + 0.01)
        result = await w.end(call, writer)
        assert (result.status, w.http.tried) == (("success", None), ["b", "a"])


async def test_client_that_leaves_a_trial_proves_nothing_and_the_next_one_rests() -> None:
    async with world(a=[GOOD] * 2, b=[(FOR_EVER,), GOOD]) as w:
        make_due(w, "b")
        call, writer = w.prepare(), RecordingWriter()
        task = w.begin(call, writer)
        await eventually(lambda: w.http.tried == ["b"])
        assert (await w.call()).status == ("success", None)
        writer.client_gone = True
        task.cancel()
        await w.end(call, writer)
        assert (await w.call()).status == ("success", None)
        assert w.http.tried == ["b", "a", "a"]
        w.clock.advance(HEALTH.cooldown_seconds)
        assert (await w.call()).status == ("success", None)
        assert (w.http.tried[3:], state(w, "b")) == (["b"], "closed")


@cases("how", "pinned", "with a tool of the provider")
async def test_call_that_a_trial_would_cost_something_is_none(how: str) -> None:
    async with world(a=[GOOD], b=[GOOD]) as w:
        make_due(w, "b")
        call = w.prepare(pin="p") if how == "pinned" else replace(w.prepare(), tools=(FETCH,))
        writer = RecordingWriter()
        w.begin(call, writer)
        assert (await w.end(call, writer)).status == ("success", None)
        assert w.http.tried == ["a"]


async def test_what_is_sold_by_the_piece_is_no_trial() -> None:
    async with stage(a=[response_of(made(1))], b=[response_of(made(1))]) as w:
        make_due(w, "b")
        assert (await generate(w)).status == ("success", None)
        assert (w.http.tried, state(w, "b")) == (["a"], "open")


# What channels are, in their order -> the one that a call leases first, and why.
CHOICES: dict[str, tuple[str, str]] = {
    "closed due": ("b", "the standby"),
    "closed closed due": ("c", "a third is within three tries"),
    "closed due due": ("b", "one trial for a call"),
    "full closed due": ("c", "one that is full does not take the call"),
    "open open closed due": ("d", "nor does one that is open"),
    "due due": ("a", "its turn has come"),
    "due closed due": ("a", "one probe for a call"),
    "closed closed closed due": ("a", "it would be a fourth try"),
    "closed open": ("a", "it cools down"),
    "closed translated": ("a", "its client would notice"),
    "closed aside": ("a", "its key is refused"),
    "closed taken": ("a", "it has no slot left"),
}


@asynccontextmanager
async def standing(states: Sequence[str]) -> AsyncIterator[tuple[Channels, list[Candidate]]]:
    """Channels that are this, and the candidates that they are."""
    made: list[ChannelSpec] = [make_channel(name, health=HEALTH) for name in NAMES[: len(states)]]
    async with channels(*made) as some:
        named = dict(zip(NAMES, states, strict=False))
        make_due(some, *(name for name in named if named[name] in DUE))
        for name, is_what in named.items():
            channel = some.directory[name]
            if is_what == "open":
                make_open(some, name)
            if is_what in ("full", "taken"):
                channel.in_use = channel.spec.max_concurrency
            if is_what == "aside":
                channel.spec.ring.keys[0].refused(401)
        spoken = {name: "messages" if named[name] == "translated" else "chat" for name in named}
        yield some, [Candidate(name, "m", spoken[name]) for name in named]


@each("states, first", [(s, f) for s, (f, _) in CHOICES.items()])
async def test_trial_is_of_a_channel_that_its_call_might_have_come_to(
    states: str, first: str
) -> None:
    async with standing(states.split()) as (some, order):
        failover = Failover(order, some.directory, None, may_try=True)
        candidate, lease = failover.lease()
        assert (candidate.channel_id, failover.is_trial) == (first, first != "a")
        lease.release("abandoned")


async def served(
    states: Sequence[str], works: Sequence[bool], *, may_try: bool
) -> tuple[bool, set[str]]:
    """Whether one of the channels serves a call, and which were tried, once each."""
    async with standing(states) as (some, order):
        failover, tried = Failover(order, some.directory, None, may_try=may_try), list[str]()
        try:
            while True:
                candidate, lease = failover.lease()
                tried.append(candidate.channel_id)
                assert len(set(tried)) == len(tried) <= TRIES_MAX
                if works[NAMES.index(candidate.channel_id)]:
                    lease.release("success")
                    return True, set(tried)
                lease.release("failure")
                failover.add_failed(candidate, UpstreamUnreachable(), started_at=0.0, seconds=0.0)
        except FailoverExhausted:
            return False, set(tried)


@settings(max_examples=60, deadline=None)
@given(
    states=st.lists(
        st.sampled_from(["closed", "closed", *DUE, "open", "full"]), min_size=2, max_size=5
    ),
    works=st.lists(st.sampled_from([False, False, True]), min_size=5, max_size=5),
)
def test_call_that_is_served_without_a_trial_is_served_with_one(
    states: list[str], works: list[bool]
) -> None:
    usual, with_trial = (asyncio.run(served(states, works, may_try=may)) for may in (False, True))
    assert with_trial[0] or not usual[0]
    assert with_trial[0] or with_trial == usual
