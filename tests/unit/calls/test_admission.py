"""The hold before anything else: who is admitted, who is told what, and the ledger being away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from actors.wallet.pricing import MAX_NANO_USD, Reach
from channels.prices import PriceSpec, PriceStep
from channels.registry import Binding
from gw.calls.request import ChatCall
from tests.support.aio import eventually
from tests.support.specs import make_model
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import answer
from tests.unit.calls.world import ACCOUNT, MESSAGES_TOKENS, Told, World, world
from tests.unit.calls.writer import RecordingWriter

GOOD = answer(sse.whole(usage=sse.usage_of(10, 1)))
HOLD = MESSAGES_TOKENS * 1000 + 100 * 10_000  # max_tokens is 100


def assert_refused(told: Told, status: int, code: str) -> None:
    """Refused before it was taken over: whoever asked writes the row."""
    assert told.error is not None
    assert (told.error.http_status, told.error.kind.code) == (status, code)
    assert told.row is None
    assert not told.writer.is_row_owned


async def test_balance_that_covers_the_estimate_exactly_admits() -> None:
    async with world(a=[GOOD], balance=HOLD) as w:
        told = await w.call()
        assert told.status == ("success", None)
        assert told.row is not None
        assert told.row["detail"]["hold"] == HOLD
        assert told.row["detail"]["estimate"] == [MESSAGES_TOKENS, 100]


async def test_balance_short_of_the_estimate_by_one_is_402_and_nothing_is_sent() -> None:
    async with world(a=[GOOD], balance=HOLD - 1) as w:
        told = await w.call()
        assert_refused(told, 402, "quota_exceeded")
        assert told.error is not None
        assert "max_tokens" in told.error.message
        assert w.wire.tried == []
        assert (await w.call(max_tokens=99)).status == ("success", None)


TOOLS = [{"type": "function", "function": {"name": "f", "description": "x" * 30_000}}]


async def test_hold_covers_the_conversation_or_the_whole_body_as_configured() -> None:
    async with world(a=[GOOD] * 2, balance=HOLD) as w:
        told = await w.call(tools=TOOLS)
        assert told.status == ("success", None)
        call = w.calls[-1]
        assert isinstance(call, ChatCall)
        left_out = call.body_bytes - call.content_bytes
        assert left_out > 30_000
        assert left_out_of(w) == left_out
    async with world(a=[GOOD], balance=HOLD, precharge="whole_body") as w:
        told = await w.call(tools=TOOLS)
        assert_refused(told, 402, "quota_exceeded")
        assert w.wire.tried == []
    whole = -(-call.body_bytes // 4) * 1000 + 100 * 10_000
    async with world(a=[GOOD], balance=whole, precharge="whole_body") as w:
        told = await w.call(tools=TOOLS)
        assert told.row is not None
        assert told.row["detail"]["hold"] == whole
        assert left_out_of(w) == 0


def left_out_of(w: World) -> float:
    """Bytes that the metric says no hold was made for."""
    lines = w.metrics.render("")[0].decode().splitlines()
    found = [line for line in lines if line.startswith("gw_precharge_bytes_left_out_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def test_concurrent_calls_are_admitted_exactly_as_the_balance_covers() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *GOOD)], balance=3 * HOLD) as w:
        pairs = [(w.prepare(), RecordingWriter()) for _ in range(10)]
        for call, writer in pairs:
            w.begin(call, writer)
        await eventually(lambda: w.wire.opening == 3)
        gate.set()
        told = [await w.end(call, writer) for call, writer in pairs]
        assert sum(t.error is None for t in told) == 3
        assert sum(t.row is not None for t in told) == 3


async def test_settlement_may_dip_below_zero() -> None:
    long_answer = answer(sse.whole(usage=sse.usage_of(10, 500)))
    async with world(a=[long_answer], balance=HOLD) as w:
        told = await w.call()
        assert told.cost == 10 * 1000 + 500 * 10_000
        assert w.ledger.balances[ACCOUNT] == HOLD - told.cost < 0
        assert_refused(await w.call(max_tokens=1), 402, "quota_exceeded")


async def test_spend_cap_of_the_key_is_its_own_message() -> None:
    async with world(a=[GOOD]) as w:
        told = await w.call(cap=HOLD - 1)
        assert_refused(told, 402, "quota_exceeded")
        assert told.error is not None
        assert "spend cap" in told.error.message
        assert (await w.call(cap=HOLD)).status == ("success", None)
        assert_refused(await w.call(cap=HOLD), 402, "quota_exceeded")  # 20,000 are spent


async def test_a_price_with_dimensions_is_held_for_what_the_request_reaches() -> None:
    spec = PriceSpec(
        input=Decimal(1),
        output=Decimal(10),
        cache_write_1h=Decimal(4),
        per_request=Decimal("0.5"),
        above_tokens=(PriceStep(MESSAGES_TOKENS - 1, {"output": Decimal(20)}),),
    )
    own = Binding("a", price=PriceSpec(factor=Decimal(2)))
    reach = Reach(members=frozenset({"cache_write_1h"}))
    async with world(a=[GOOD], model=make_model(own, price=spec)) as w:
        call, writer = replace(w.prepare(), reach=reach), RecordingWriter()
        w.begin(call, writer)
        told = await w.end(call, writer)
        assert told.row is not None
        # The channel doubles the prices of tokens, and that of the request stays.
        assert told.row["detail"]["hold"] == MESSAGES_TOKENS * 8000 + 100 * 40_000 + 5 * 10**8
        assert told.cost == 10 * 2000 + 1 * 20_000 + 5 * 10**8


async def test_maximum_that_no_ledger_holds_is_402() -> None:
    dear = make_model("a", price=PriceSpec(output=Decimal(1_000_000)))
    async with world(a=[GOOD], model=dear, balance=MAX_NANO_USD) as w:
        assert_refused(await w.call(max_tokens=2**53 - 1), 402, "quota_exceeded")


async def test_free_model_takes_any_maximum() -> None:
    free = make_model("a", price=PriceSpec())
    async with world(a=[GOOD], model=free, balance=1) as w:
        told = await w.call(max_tokens=2**53 - 1)
        assert told.status == ("success", None)


async def test_ledger_that_is_away_is_503_and_nothing_is_charged(
    expect_log: Callable[..., None],
) -> None:
    expect_log("ledger_unreachable")

    async with world(a=[GOOD]) as w:
        w.ledger.lose_after = 1  # the hold is made, but nobody hears of it
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.ledger.holds))
        w.ledger.lose_before = 1
        await eventually(lambda: w.clock.sleepers > 0)
        w.clock.advance(6.0)  # past the writer's patience
        await eventually(lambda: writer.task is not None and writer.task.done())
        await eventually(lambda: w.clock.sleepers > 0)
        w.clock.advance(1.0)
        told = await w.end(call, writer)
        assert_refused(told, 503, "no_channel_available")
        assert w.wire.tried == []
        assert w.ledger.holds == {}  # what had been held unseen is given back


async def test_answer_whose_settlement_meets_an_outage_is_charged_once_it_is_over(
    expect_log: Callable[..., None],
) -> None:
    expect_log("ledger_unreachable")

    gate = asyncio.Event()
    async with world(a=[(gate, *GOOD)]) as w:
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: w.wire.opening == 1)
        w.ledger.lose_after = 1
        gate.set()
        await eventually(lambda: w.clock.sleepers > 0)
        assert writer.has_ended  # the client does not wait for the ledger
        w.clock.advance(1.0)
        told = await w.end(call, writer)
        assert told.status == ("success", None)


@pytest.mark.parametrize("turns", range(12))
async def test_client_that_leaves_around_its_hold_leaves_one_row_and_no_hold(turns: int) -> None:
    async with world(a=[answer(asyncio.Event())]) as w:
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.leave()
        told = await w.end(call, writer)
        if turns:  # else it had not even begun
            assert told.status == ("interrupted", "client_disconnected")
        assert told.row is None or told.cost == 0


async def test_defect_of_ours_ends_the_call_and_is_settled() -> None:
    async with world(a=[GOOD]) as w:

        def broken(_: Any) -> Any:
            raise RuntimeError("a defect")

        call, writer = w.prepare(plan=broken), RecordingWriter()
        task = w.begin(call, writer)
        with pytest.raises(RuntimeError):
            await task
        await w.settled()
        row = w.ledger.rows[call.facts.call_id]
        assert (row["status"], row["error_code"], row["cost"]) == ("error", "internal_error", 0)
        assert "a defect" not in str(row)
        assert w.verdict("a") is None
