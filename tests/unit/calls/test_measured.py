"""What the metrics say of a call: one count for each, an outcome for each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from channels.errors import UpstreamCut, UpstreamUnreachable
from tests.support.aio import eventually, jump
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import FOR_EVER, Script, answer
from tests.unit.calls.world import TIMEOUT_SECONDS, World, world
from tests.unit.calls.writer import RecordingWriter


@pytest.fixture(autouse=True)
def key_refusals(expect_log: Callable[..., None]) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


HELLO = sse.delta("Hello")


def counts(w: World, name: str) -> dict[str, float]:
    """Labels and value of every sample of one metric."""
    found = {}
    for line in w.metrics.render("")[0].decode().splitlines():
        if line.startswith(f"{name}{{"):
            labels, _, value = line.removeprefix(name).rpartition(" ")
            found[labels] = float(value)
    return found


OUTCOMES: list[tuple[Script, str]] = [
    (answer(HELLO, sse.DONE), "ok"),
    (answer(status=429), "status_4xx"),
    (answer(status=500), "status_5xx"),
    ((UpstreamUnreachable(),), "unreachable"),
    ((UpstreamCut(),), "cut"),
    (answer(HELLO, UpstreamCut()), "cut"),
    (answer(sse.error_event(), sse.DONE), "error_event"),
    (answer(b"data: " + b"x" * (33 * 1024 * 1024)), "malformed"),
]


@pytest.mark.parametrize(("script", "outcome"), OUTCOMES, ids=[o[1] for o in OUTCOMES])
async def test_attempt_is_counted_by_its_outcome(script: Script, outcome: str) -> None:
    async with world(a=[script]) as w:
        await w.call(stream=True)
        assert counts(w, "gw_attempts_total") == {f'{{channel="a",outcome="{outcome}"}}': 1.0}


@pytest.mark.parametrize(
    ("how", "outcome"), [("leave", "cancelled"), ("cut", "cancelled"), ("time", "timeout")]
)
@pytest.mark.parametrize("begun", [False, True], ids=["attempt", "stream"])
async def test_attempt_that_was_not_left_to_end_is_counted_too(
    how: str, outcome: str, begun: bool
) -> None:
    script = answer(HELLO, FOR_EVER) if begun else (FOR_EVER,)
    async with world(a=[script]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(writer.blocks if begun else w.wire.opening))
        if how == "time":
            jump(TIMEOUT_SECONDS + 1)
        else:
            getattr(writer, how)()
        await w.end(call, writer)
        assert counts(w, "gw_attempts_total") == {f'{{channel="a",outcome="{outcome}"}}': 1.0}


async def test_call_is_counted_with_its_tokens_and_its_cost() -> None:
    async with world(a=[answer(sse.whole(usage=sse.usage_of(100, 7, cached=40)))]) as w:
        told = await w.call()
        (labels,) = counts(w, "gw_calls_total")
        for label in ('protocol="chat"', 'model="m"', 'status="success"', 'code="ok"'):
            assert label in labels
        assert counts(w, "gw_cost_nano_usd_total") == {'{model="m"}': float(told.cost)}
        assert sorted(counts(w, "gw_tokens_total").values()) == [7.0, 40.0, 60.0]
        assert counts(w, "gw_first_byte_seconds_count") == {'{model="m",protocol="chat"}': 1.0}


async def test_call_that_left_before_its_hold_is_counted_as_interrupted() -> None:
    async with world(a=[answer(HELLO)]) as w:
        w.ledger.gate = asyncio.Event()
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.writer.unsettled()))
        writer.leave()
        w.ledger.gate.set()
        await w.end(call, writer)
        assert any('status="interrupted"' in labels for labels in counts(w, "gw_calls_total"))


# What an upstream does, and whose fault the failed call is; None where it is its client's.
FAULTS: list[tuple[Script, str | None]] = [
    (answer(HELLO, sse.DONE), None),
    *((answer(status=status), None) for status in (400, 404, 409, 413, 422, 429)),
    *((answer(status=status), "upstream") for status in (401, 402, 403, 500, 503, 504)),
    ((UpstreamUnreachable(),), "upstream"),
    (answer(HELLO, UpstreamCut()), "upstream"),
    (answer(HELLO, sse.error_event(), sse.DONE), "upstream"),
]


@pytest.mark.parametrize(("script", "fault"), FAULTS)
async def test_call_that_failed_is_counted_by_whose_fault_it_is(
    script: Script, fault: str | None
) -> None:
    async with world(a=[script]) as w:
        await w.call(stream=True)
        expected = {f'{{fault="{fault}",model="m"}}': 1.0} if fault else {}
        assert counts(w, "gw_calls_failed_total") == expected


@pytest.mark.parametrize(
    ("how", "begun"),
    [("time", False), ("time", True), ("leave", False), ("leave", True), ("slow reader", True)],
)
async def test_time_out_is_a_fault_unless_the_client_kept_it_waiting(how: str, begun: bool) -> None:
    script = answer(HELLO, FOR_EVER) if begun else (FOR_EVER,)
    reads = asyncio.Event() if how == "slow reader" else None
    async with world(a=[script]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter(reads=reads)
        w.begin(call, writer)
        await eventually(lambda: bool(writer.blocks if begun else w.wire.opening))
        if how == "leave":
            writer.leave()
        else:
            jump(TIMEOUT_SECONDS + 1)
        await w.end(call, writer)
        expected = {'{fault="timeout",model="m"}': 1.0} if how == "time" else {}
        assert counts(w, "gw_calls_failed_total") == expected
