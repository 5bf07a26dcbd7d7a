"""The hold before anything else, and what is charged through whole calls."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from actors.wallet.money import MAX_NANO_USD
from actors.wallet.pricing import Billable
from channels.errors import UpstreamCut, UpstreamUnreachable
from channels.prices import PriceSpec, PriceStep, TierPrice
from channels.registry import Binding
from gw.calls.chat_request import ChatCall
from tests.support.aio import eventually, jump
from tests.support.figures import samples
from tests.support.logs import ExpectLog, logs
from tests.support.rows import cases, each
from tests.support.specs import make_model
from tests.unit.calls import sse
from tests.unit.calls.world import (
    ACCOUNT,
    FOR_EVER,
    MESSAGES_TOKENS,
    TIMEOUT_SECONDS,
    CallResult,
    RecordingWriter,
    Script,
    World,
    response_of,
    world,
)

GOOD = response_of(sse.whole(usage=sse.usage_of(10, 1)))
HOLD = MESSAGES_TOKENS * 1000 + 100 * 10_000  # max_tokens is 100


def assert_refused(result: CallResult, status: int, code: str) -> None:
    """Refused before it was taken over: whoever asked writes the row."""
    assert (result.refusal.http_status, result.refusal.kind.code) == (status, code)
    assert result.row is None
    assert not result.writer.is_row_owned


async def test_balance_that_covers_the_estimate_exactly_admits() -> None:
    async with world(a=[GOOD], balance=HOLD) as w:
        result = await w.call()
        assert result.status == ("success", None)
        assert result.logged["detail"]["hold"] == HOLD
        assert result.logged["detail"]["estimate"] == [MESSAGES_TOKENS, 100]


async def test_balance_short_of_the_estimate_by_one_is_402_and_nothing_is_sent() -> None:
    async with world(a=[GOOD], balance=HOLD - 1) as w:
        result = await w.call()
        assert_refused(result, 402, "quota_exceeded")
        assert "max_tokens" in result.refusal.message
        assert w.http.tried == []
        assert (await w.call(max_tokens=99)).status == ("success", None)


TOOLS = [{"type": "function", "function": {"name": "f", "description": "x" * 30_000}}]


async def test_hold_covers_the_conversation_or_the_whole_body_as_configured() -> None:
    async with world(a=[GOOD] * 2, balance=HOLD) as w:
        result = await w.call(tools=TOOLS)
        assert result.status == ("success", None)
        call = w.calls[-1]
        assert isinstance(call, ChatCall)
        body_bytes = len(call.request.body)
        left_out = body_bytes - call.request.parsed.content_bytes
        assert left_out > 30_000
        assert left_out_of(w) == left_out
    async with world(a=[GOOD], balance=HOLD, precharge="whole_body") as w:
        result = await w.call(tools=TOOLS)
        assert_refused(result, 402, "quota_exceeded")
        assert w.http.tried == []
    whole = -(-body_bytes // 4) * 1000 + 100 * 10_000
    async with world(a=[GOOD], balance=whole, precharge="whole_body") as w:
        result = await w.call(tools=TOOLS)
        assert result.logged["detail"]["hold"] == whole
        assert left_out_of(w) == 0


def left_out_of(w: World) -> float:
    """Bytes that the metric says no hold was made for."""
    return sum(samples(w.metrics, "gw_precharge_bytes_left_out_total").values())


async def test_concurrent_calls_are_admitted_exactly_as_the_balance_covers() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *GOOD)], balance=3 * HOLD) as w:
        pairs = [(w.prepare(), RecordingWriter()) for _ in range(10)]
        for call, writer in pairs:
            w.begin(call, writer)
        await eventually(lambda: w.http.opening == 3)
        gate.set()
        result = [await w.end(call, writer) for call, writer in pairs]
        assert sum(t.error is None for t in result) == 3
        assert sum(t.row is not None for t in result) == 3


async def test_settlement_may_dip_below_zero() -> None:
    long_response = response_of(sse.whole(usage=sse.usage_of(10, 500)))
    async with world(a=[long_response], balance=HOLD) as w:
        result = await w.call()
        assert result.cost == 10 * 1000 + 500 * 10_000
        assert w.ledger.balances[ACCOUNT] == HOLD - result.cost < 0
        assert_refused(await w.call(max_tokens=1), 402, "quota_exceeded")


async def test_spend_cap_of_the_key_is_its_own_message() -> None:
    async with world(a=[GOOD]) as w:
        result = await w.call(cap=HOLD - 1)
        assert_refused(result, 402, "quota_exceeded")
        assert "spend cap" in result.refusal.message
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
    billable = Billable(members=frozenset({"cache_write_1h"}))
    async with world(a=[GOOD], model=make_model(own, price=spec)) as w:
        call, writer = replace(w.prepare(), billable=billable), RecordingWriter()
        w.begin(call, writer)
        result = await w.end(call, writer)
        # The channel doubles the prices of tokens, and that of the request stays.
        assert result.logged["detail"]["hold"] == MESSAGES_TOKENS * 8000 + 100 * 40_000 + 5 * 10**8
        assert result.cost == 10 * 2000 + 1 * 20_000 + 5 * 10**8


async def test_maximum_that_no_ledger_holds_is_402() -> None:
    dear = make_model("a", price=PriceSpec(output=Decimal(1_000_000)))
    async with world(a=[GOOD], model=dear, balance=MAX_NANO_USD) as w:
        assert_refused(await w.call(max_tokens=2**53 - 1), 402, "quota_exceeded")


@logs("ledger_unreachable")
async def test_ledger_that_is_away_is_503_and_nothing_is_charged() -> None:
    async with world(a=[GOOD]) as w:
        w.ledger.lose_after = 1  # the hold is made, but nobody hears of it
        call, writer = w.start()
        await eventually(lambda: bool(w.ledger.holds))
        w.ledger.lose_before = 1
        await eventually(lambda: w.clock.sleepers > 0)
        w.clock.advance(6.0)  # past the writer's patience
        await eventually(lambda: writer.task is not None and writer.task.done())
        await eventually(lambda: w.clock.sleepers > 0)
        w.clock.advance(1.0)
        result = await w.end(call, writer)
        assert_refused(result, 503, "no_channel_available")
        assert w.http.tried == []
        assert w.ledger.holds == {}  # what had been held unseen is given back


@logs("ledger_unreachable")
async def test_answer_whose_settlement_meets_an_outage_is_charged_once_it_is_over() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *GOOD)]) as w:
        call, writer = w.start()
        await eventually(lambda: w.http.opening == 1)
        w.ledger.lose_after = 1
        gate.set()
        await eventually(lambda: w.clock.sleepers > 0)
        assert writer.has_ended  # the client does not wait for the ledger
        w.clock.advance(1.0)
        result = await w.end(call, writer)
        assert result.status == ("success", None)


@each("turns", range(12))
async def test_client_that_leaves_around_its_hold_leaves_one_row_and_no_hold(turns: int) -> None:
    async with world(a=[response_of(asyncio.Event())]) as w:
        call, writer = w.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        writer.leave()
        result = await w.end(call, writer)
        if turns:  # else it had not even begun
            assert result.status == ("interrupted", "client_disconnected")
        assert result.row is None or result.cost == 0


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


INPUT, CACHED, OUTPUT = 1000, 100, 10_000  # nano-USD per token
ESTIMATED_INPUT = MESSAGES_TOKENS
HUGE = 10**15


def stated(usage: Any) -> tuple[Script, Script]:
    """An answer of five characters with this usage, plain and streamed."""
    last = sse.event({"choices": [], "usage": usage})
    return response_of(sse.whole("Hello", usage=usage)), response_of(
        sse.delta("Hello"), last, sse.DONE
    )


THOUGHT = sse.event({"choices": [{"delta": {"reasoning_content": "x" * 10}}]})
LOOK = {"index": 0, "function": {"name": "look", "arguments": '{"a":1}'}}
USED = sse.usage_event(50, 4)
GUESSED = (ESTIMATED_INPUT, 2, 0)
# Answers, and the tokens that they cost; those of `stated` in both forms.
CHARGED: list[tuple[tuple[Script, ...], tuple[int, int, int], str]] = [
    (stated(sse.usage_of(-5, 7)), (ESTIMATED_INPUT, 7, 0), "partly_stated"),
    (
        stated({"prompt_tokens": "many", "completion_tokens": 7}),
        (ESTIMATED_INPUT, 7, 0),
        "partly_stated",
    ),
    (
        stated({"prompt_tokens": 10.5, "completion_tokens": 7}),
        (ESTIMATED_INPUT, 7, 0),
        "partly_stated",
    ),
    (stated({"prompt_tokens": "20", "completion_tokens": 7.0}), (20, 7, 0), "stated"),
    (stated({"prompt_tokens": 10}), (10, 2, 0), "partly_stated"),
    (stated(17), GUESSED, "estimated"),
    (stated(sse.usage_of(HUGE, HUGE)), GUESSED, "estimated"),
    (stated(sse.usage_of(10, HUGE)), (10, 2, 0), "partly_stated"),
    (stated(sse.usage_of(HUGE, 7)), (ESTIMATED_INPUT, 7, 0), "partly_stated"),
    (stated(None), GUESSED, "estimated"),
    # Zeros beside characters are a placeholder.
    (stated(sse.usage_of(0, 0)), GUESSED, "estimated"),
    (stated(sse.usage_of(20, 0)), (20, 2, 0), "partly_stated"),
    ((response_of(sse.whole("", usage=sse.usage_of(80, 30))),), (80, 30, 0), "stated"),
    ((response_of(sse.delta(finish="stop"), sse.DONE),), (ESTIMATED_INPUT, 0, 0), "estimated"),
    (
        (response_of(sse.delta("x", usage=None), sse.usage_event(9, 7), sse.DONE),),
        (9, 7, 0),
        "stated",
    ),
]
CUT: list[tuple[Script, tuple[int, int, int]]] = [
    ((sse.delta("x" * 9),), (ESTIMATED_INPUT, 3, 0)),
    (
        (THOUGHT, sse.event({"choices": [{"delta": {"tool_calls": [LOOK]}}]})),
        (ESTIMATED_INPUT, 6, 0),
    ),
    ((sse.delta("x"), USED), (50, 4, 0)),
    (
        (sse.delta("x", usage=sse.usage_of(50, 1)), sse.delta("y", usage=sse.usage_of(50, 2))),
        (50, 2, 0),
    ),
    # Stated with the first chunk only: the rest is estimated. Zeros take nothing back.
    ((sse.delta("x", usage=sse.usage_of(50, 1)), sse.delta("y" * 8)), (50, 3, 0)),
    ((sse.delta("x"), sse.usage_event(50, 4, 30), sse.usage_event(0, 0)), (50, 4, 30)),
    ((sse.delta(),), (0, 0, 0)),
]


@logs("usage_doubted", required=False)
@each("scripts, tokens, basis", CHARGED)
async def test_usage_that_cannot_be_is_not_believed(
    scripts: tuple[Script, ...], tokens: tuple[int, int, int], basis: str
) -> None:
    for script in scripts:
        async with world(a=[script]) as w:
            result = await w.call(stream=script[-1] == sse.DONE)
            assert (result.status, result.tokens) == (("success", None), tokens)
            assert result.cost == tokens[0] * INPUT + tokens[1] * OUTPUT
            assert result.logged["detail"].get("basis", "stated") == basis


@each("steps, tokens", CUT)
async def test_cut_stream_is_charged(steps: Script, tokens: tuple[int, int, int]) -> None:
    async with world(a=[response_of(*steps, UpstreamCut())]) as w:
        result = await w.call(stream=True)
        assert (result.status, result.tokens) == (("error", "upstream_error"), tokens)
        given, made, cached = tokens
        assert result.cost == (given - cached) * INPUT + cached * CACHED + made * OUTPUT


# A price for each request and search, and a tier.
DEAR = PriceSpec(
    input=Decimal(1),
    output=Decimal(10),
    per_request=Decimal("0.001"),
    per_web_search=Decimal("0.01"),
    service_tiers={"priority": TierPrice(factor=Decimal(2))},
)
SEARCHING = sse.event(
    {
        "id": "c",
        "model": "gpt-5-search-api",
        "service_tier": "priority",
        "choices": [{"delta": {"content": "x" * 8}}],
    }
)


async def test_cut_stream_is_charged_with_its_tier_its_search_and_its_request() -> None:
    model = make_model("a", price=DEAR)
    async with world(a=[response_of(SEARCHING, UpstreamCut())], model=model) as w:
        result = await w.call(stream=True)
        assert result.tokens == (ESTIMATED_INPUT, 2, 0)
        tokens = 2 * (ESTIMATED_INPUT * INPUT + 2 * OUTPUT)
        assert result.cost == tokens + 1_000_000 + 10_000_000
        assert result.logged["detail"]["parts"] == {"per_web_search": 1, "per_request": 1}


# Counts that are not possible, and what is charged of them: a context of 128,000, a maximum of 100.
ABSURD = [
    (sse.usage_of(100_000_000, 1), (ESTIMATED_INPUT, 1, 0), {"input": 100_000_000}),
    (sse.usage_of(20, 50_000_000), (20, 2, 0), {"output": 50_000_000}),
    (sse.usage_of(257_000, 50_000), (ESTIMATED_INPUT, 2, 0), {"input": 257_000, "output": 50_000}),
    (sse.usage_of(10**9, 1, cached=10**9), (ESTIMATED_INPUT, 1, 0), {"input": 10**9}),
    # Within the margin.
    (sse.usage_of(256_000, 4_296), (256_000, 4_296, 0), {}),
]


@logs("usage_doubted", required=False)
@each("usage, tokens, doubted", ABSURD)
async def test_count_that_is_not_possible_is_not_charged_and_raises_an_alarm(
    usage: Any, tokens: tuple[int, int, int], doubted: dict[str, int]
) -> None:
    model = make_model("a", context_size=128_000)
    for script in stated(usage):
        async with world(a=[script], model=model) as w:
            result = await w.call(stream=script[-1] == sse.DONE)
            assert (result.status, result.tokens) == (("success", None), tokens)
            assert result.cost == tokens[0] * INPUT + tokens[1] * OUTPUT
            assert result.logged["detail"].get("doubted", {}) == doubted
            alarms = {f'{{channel="a",what="{what}"}}': 1.0 for what in doubted}
            assert counts(w, "gw_usage_doubted_total") == alarms


async def test_estimate_is_bounded_by_the_maximum() -> None:
    long = response_of(sse.delta("x" * 4_000_000), sse.DONE)
    async with world(a=[long], model=make_model("a", context_size=8)) as w:
        result = await w.call(stream=True, max_tokens=5)
        assert (result.status, result.tokens) == (("success", None), (8, 5, 0))


@pytest.fixture(autouse=True)
def key_refusals(expect_log: ExpectLog) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


HELLO = sse.delta("Hello")


def counts(w: World, name: str) -> dict[str, float]:
    """Labels and value of every sample of one metric."""
    return samples(w.metrics, name)


@each(
    "script, outcome",
    [
        (response_of(HELLO, sse.DONE), "ok"),
        (response_of(status=429), "rate_limited"),
        (response_of(status=418), "status_4xx"),
    ],
)
async def test_attempt_is_counted_by_its_outcome(script: Script, outcome: str) -> None:
    async with world(a=[script]) as w:
        await w.call(stream=True)
        assert counts(w, "gw_attempts_total") == {f'{{channel="a",outcome="{outcome}"}}': 1.0}


@cases("how, outcome", ("leave", "cancelled"), ("cut", "cancelled"), ("time", "timeout"))
@cases("begun", False, True)
async def test_attempt_that_was_not_left_to_end_is_counted_too(
    how: str, outcome: str, begun: bool
) -> None:
    script = response_of(HELLO, FOR_EVER) if begun else (FOR_EVER,)
    async with world(a=[script]) as w:
        call, writer = w.start(stream=True)
        await eventually(lambda: bool(writer.blocks if begun else w.http.opening))
        if how == "time":
            jump(TIMEOUT_SECONDS + 1)
        else:
            getattr(writer, how)()
        await w.end(call, writer)
        assert counts(w, "gw_attempts_total") == {f'{{channel="a",outcome="{outcome}"}}': 1.0}


async def test_call_is_counted_with_its_tokens_and_its_cost() -> None:
    async with world(a=[response_of(sse.whole(usage=sse.usage_of(100, 7, cached=40)))]) as w:
        result = await w.call()
        (labels,) = counts(w, "gw_calls_total")
        for label in ('protocol="chat"', 'model="m"', 'status="success"', 'code="ok"'):
            assert label in labels
        assert counts(w, "gw_cost_nano_usd_total") == {'{model="m"}': float(result.cost)}
        assert sorted(counts(w, "gw_tokens_total").values()) == [7.0, 40.0, 60.0]
        assert counts(w, "gw_first_byte_seconds_count") == {'{model="m",protocol="chat"}': 1.0}


# What an upstream does, and whose fault the failed call is; None where it is its client's.
FAULTS: list[tuple[Script, str | None]] = [
    (response_of(HELLO, sse.DONE), None),
    *((response_of(status=status), None) for status in (400, 404, 409, 413, 422, 429)),
    *((response_of(status=status), "upstream") for status in (401, 402, 403, 500, 503, 504)),
    ((UpstreamUnreachable(),), "upstream"),
    (response_of(HELLO, UpstreamCut()), "upstream"),
    (response_of(HELLO, sse.error_event(), sse.DONE), "upstream"),
]


@each("script, fault", FAULTS)
async def test_call_that_failed_is_counted_by_whose_fault_it_is(
    script: Script, fault: str | None
) -> None:
    async with world(a=[script]) as w:
        await w.call(stream=True)
        expected = {f'{{fault="{fault}",model="m"}}': 1.0} if fault else {}
        assert counts(w, "gw_calls_failed_total") == expected


@cases(
    "how, begun",
    ("time", False),
    ("time", True),
    ("leave", False),
    ("leave", True),
    ("slow reader", True),
)
async def test_time_out_is_a_fault_unless_the_client_kept_it_waiting(how: str, begun: bool) -> None:
    script = response_of(HELLO, FOR_EVER) if begun else (FOR_EVER,)
    reads = asyncio.Event() if how == "slow reader" else None
    async with world(a=[script]) as w:
        call, writer = w.start(RecordingWriter(reads=reads), stream=True)
        await eventually(lambda: bool(writer.blocks if begun else w.http.opening))
        if how == "leave":
            writer.leave()
        else:
            jump(TIMEOUT_SECONDS + 1)
        await w.end(call, writer)
        expected = {'{fault="timeout",model="m"}': 1.0} if how == "time" else {}
        assert counts(w, "gw_calls_failed_total") == expected
