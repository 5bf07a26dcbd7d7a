"""Only channels that promise what a call demands for its data are tried (reference 10.7)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from actors.channel import Configure, Denied
from actors.failover import Failover, FailoverExhausted
from actors.routing import Candidate
from channels.data_promise import DataDemand, DataPromise, read_demand
from channels.registry import ChannelSpec
from gw.calls.counting import CountRequest
from gw.errors import NO_RETRY
from tests.support.logs import logs
from tests.support.rows import cases
from tests.support.specs import make_channel
from tests.unit.actors.channels import channels
from tests.unit.calls import sse
from tests.unit.calls.world import (
    SUCCESS,
    CallResult,
    RecordingWriter,
    Script,
    World,
    response_of,
    world,
)
from tests.unit.images import stage

GOOD = response_of(sse.whole())
FAILED = response_of(status=500)
EU = DataPromise(0, "eu")
PROMISES = {"a": EU, "b": DataPromise(30, "us"), "c": DataPromise(7, "eu"), "d": DataPromise()}
IN_EU = read_demand("region=eu")


def promising(promises: Mapping[str, DataPromise] = PROMISES, **changes: Any) -> list[ChannelSpec]:
    """Channels in this order of priority, with what each promises."""
    return [
        make_channel(name, priority=place, data_promise=promise, **changes)
        for place, (name, promise) in enumerate(promises.items(), 1)
    ]


async def demanding(w: World, demand: str, **options: Any) -> CallResult:
    call, writer = replace(w.prepare(**options), demand=read_demand(demand)), RecordingWriter()
    w.begin(call, writer)
    return await w.end(call, writer)


@cases(
    "demand, tried",
    ("region=eu", "ac"),
    ("retention=7", "ac"),
    ("retention=30", "abc"),
    ("region=us", "b"),
    ("region=eu; retention=0", "a"),
)
async def test_failover_stays_among_channels_that_keep_it(demand: str, tried: str) -> None:
    scripts: dict[str, Sequence[Script]] = {name: [FAILED] for name in PROMISES}
    async with world(scripts, channels=promising()) as w:
        result = await demanding(w, demand)
        assert ("".join(w.http.tried), result.refusal.http_status) == (tried, 500)
        detail = result.call.detail
        passed_over = dict.fromkeys(PROMISES.keys() - set(tried), "data")
        # After three tries no other is looked at.
        assert detail.get("passed_over", {}) == ({} if len(tried) == 3 else passed_over)
        assert detail["promised"] == str(PROMISES[tried[-1]])


async def test_pinned_conversation_stays_among_them_too() -> None:
    both = {"a": EU, "b": DataPromise(0, "us")}
    specs = [make_channel(name, data_promise=promise) for name, promise in both.items()]
    for number in range(8):
        async with world(a=[GOOD], b=[GOOD], channels=specs) as w:
            result = await demanding(w, "region=us", pin=f"acct_a/{number}")
            assert (w.http.tried, result.status) == (["b"], SUCCESS)


@cases("stream", False, True)
async def test_none_that_keeps_it_is_503_before_anything_is_held(stream: bool) -> None:
    async with world({name: [GOOD] for name in PROMISES}, channels=promising(), balance=0) as w:
        result = await demanding(w, "region=ch; retention=0", stream=stream)
        error = result.refusal
        assert (error.http_status, error.kind.code) == (503, "no_channel_available")
        assert "region=ch; retention=0" in error.message
        assert error.headers == NO_RETRY
        assert (w.http.tried, w.ledger.entries[1:], result.row) == ([], [], None)
        assert not result.writer.is_row_owned  # whoever refuses writes the row


async def test_pictures_are_refused_alike_and_their_channels_chosen_alike() -> None:
    async with stage.stage(a=[], b=[response_of(stage.made(1))]) as w:
        call = replace(stage.prepare(w), demand=IN_EU)
        writer = RecordingWriter()
        w.begin(call, writer)
        result = await w.end(call, writer)
        assert "region=eu" in result.refusal.message
        assert (w.http.tried, w.ledger.entries[1:]) == ([], [])
        promised = make_channel("b", priority=2, protocols=frozenset({"images"}), data_promise=EU)
        w.channels.configure({"a": w.channels["a"].spec, "b": promised})
        call = replace(stage.prepare(w), demand=IN_EU)
        w.begin(call, writer := RecordingWriter())
        result = await w.end(call, writer)
        assert (w.http.tried, result.status) == (["b"], SUCCESS)


async def test_busy_channels_that_keep_it_are_named_with_the_demand() -> None:
    specs = promising({"a": EU, "b": DataPromise()}, max_concurrency=1)
    async with world(a=[], b=[], channels=specs) as w:
        lease = w.channels["a"].acquire()
        assert not isinstance(lease, Denied)
        result = await demanding(w, "region=eu")
        assert result.refusal.http_status == 503
        assert "(region=eu) is busy" in result.refusal.message
        assert result.refusal.headers == {"Retry-After": "1"}
        lease.release("abandoned")


async def test_promise_that_a_reload_takes_back_holds_for_no_further_attempt() -> None:
    async with channels(*promising({"a": EU, "b": EU})) as made:
        order = [Candidate(name, "m", "chat") for name in "ab"]
        failover = Failover(order, made.directory, IN_EU)
        candidate, lease = failover.lease()
        assert candidate.channel_id == "a"
        # It waits in the mailbox when the next lease is requested.
        made.directory["b"].tell(Configure(make_channel("b", priority=2)))
        with pytest.raises(FailoverExhausted) as raised:
            failover.lease()
        assert raised.value.passed_over == {"b": "data"}
        assert raised.value.demand is IN_EU
        assert not failover.has_next
        lease.release("abandoned")


async def test_model_of_a_chain_whose_channel_does_not_keep_it_is_as_if_it_were_not_there() -> None:
    async with channels(*promising({"a": EU, "b": DataPromise(), "c": EU})) as made:
        order = [Candidate(name, "m", "chat", None, name.upper()) for name in "abc"]
        failover = Failover(order, made.directory, IN_EU)
        for step in "AC":
            candidate, lease = failover.lease()
            assert (candidate.step, failover.takes_losses) == (step, False)
            lease.release("abandoned")
            failover.skip(candidate)  # it would lose something
        candidate, lease = failover.lease()
        assert (candidate.step, failover.takes_losses) == ("A", True)
        assert failover.passed_over == {"b": "data"}
        lease.release("abandoned")


@logs("channel_opened")
async def test_trial_of_a_channel_that_does_not_keep_it_is_none() -> None:
    async with channels(*promising({"a": EU, "b": DataPromise()})) as made:
        failing = made.directory["b"]
        for _ in range(failing.spec.health.failures):
            lease = failing.acquire()
            assert not isinstance(lease, Denied)
            lease.release("failure")
        made.clock.advance(failing.spec.health.cooldown_seconds + 1)
        assert failing.try_trial(IN_EU) is None
        order = [Candidate(name, "m", "chat") for name in "ab"]
        failover = Failover(order, made.directory, IN_EU, may_try=True)
        candidate, lease = failover.lease()
        assert (candidate.channel_id, failover.is_trial) == ("a", False)
        lease.release("abandoned")


COUNTED = response_of(b'{"input_tokens":12}')


@cases("demand, is_estimate", (None, False), ("region=eu", False), ("region=us", True))
async def test_tokens_are_counted_here_where_none_keeps_it(
    demand: str | None, is_estimate: bool
) -> None:
    async def of_body(job: Any, *arguments: Any) -> Any:
        return job(b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}', *arguments)

    specs = promising({"a": EU}, protocols=frozenset({"messages"}))
    async with world(a=[COUNTED], channels=specs) as w:
        request = CountRequest(
            protocol="messages",
            model=w.model,
            demand=None if demand is None else read_demand(demand),
            of_body=of_body,
            own={"anthropic-version": "2023-06-01"},
            own_headers=(),
        )
        counted = await w.use_cases.chat_calls.counter.count(request)
        assert (counted.is_estimate, w.http.tried) == (is_estimate, [] if is_estimate else ["a"])


async def test_call_without_a_demand_is_served_by_any_and_notes_nothing() -> None:
    async with world({name: [GOOD] for name in PROMISES}, channels=promising()) as w:
        result = await w.call()
        assert result.status == SUCCESS
        assert {"demanded", "promised"}.isdisjoint(result.call.detail)


def test_regions_of_two_demands_are_kept_by_none() -> None:
    both = DataDemand(None, frozenset({"eu", "us"}))
    assert str(both) == "region=eu; region=us"
    assert not any(both.is_kept_by(promise) for promise in PROMISES.values())
