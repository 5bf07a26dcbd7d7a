"""Calls that go well, and calls that end before their answer does."""

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal

import pytest

from actors.wallet.live_calls import Delivered
from channels.errors import UpstreamUnreachable
from channels.prices import PriceSpec
from channels.registry import Binding
from tests.support.aio import eventually, jump
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.calls import sse
from tests.unit.calls.test_settlement import counts
from tests.unit.calls.world import (
    ACCOUNT,
    FOR_EVER,
    FUNDS,
    MESSAGES_TOKENS,
    SUCCESS,
    TIMEOUT_SECONDS,
    CallResult,
    Case,
    RecordingWriter,
    Script,
    World,
    plain,
    response_of,
    world,
)

# 1 USD in, 10 USD out, 0.1 USD cached per million tokens, in nano-USD per token.
INPUT, OUTPUT, CACHED = 1000, 10_000, 100

STREAM = (sse.delta("Hel"), sse.delta("lo", finish="stop"), sse.usage_event(100, 7, 40), sse.DONE)

WHOLE = sse.whole(usage=sse.usage_of(100, 7, cached=40))
COST = 60 * INPUT + 40 * CACHED + 7 * OUTPUT


@cases(
    "case",
    plain(response_of(WHOLE[:10], 3, WHOLE[10:]), sent=WHOLE, status=SUCCESS, tokens=(100, 7, 40)),
    plain(response_of(WHOLE), cost=COST, attempts=[], error=None, verdicts=["success"], tried="a"),
    Case([response_of(*STREAM)], {"stream": True, "usage": True}, {"sent": b"".join(STREAM)}),
)
async def test_answer_is_passed_on_and_charged_by_its_usage(case: Case) -> None:
    await case.check()


async def test_row_says_how_the_call_went() -> None:
    began = asyncio.Event()
    async with world(a=[response_of(began, sse.whole(usage=sse.usage_of(1, 1)))]) as w:
        call, writer = w.start()
        await eventually(lambda: bool(w.http.responses))
        w.clock.advance(1.25)
        began.set()
        result = await w.end(call, writer)
        assert (result.logged["kind"], result.logged["latency_ms"]) == ("settle", 1250)
        detail = result.logged["detail"]
        assert detail["order"] == [["a", "chat"]]
        ((tried, _, tried_ms, outcome),) = detail["tried"]
        assert (tried, tried_ms, outcome) == ("a", 1250, "ok")
        upstream = detail["upstream"]
        assert (upstream["status"], upstream["id"]) == (200, "chatcmpl-1")
        assert upstream["finish"] == "stop"
        assert writer.is_row_owned


async def test_stream_is_passed_on_as_it_comes_and_the_usage_chunk_withheld() -> None:
    async with world(a=[response_of(*STREAM)]) as w:
        result = await w.call(stream=True)
        assert result.writer.blocks == [STREAM[0], STREAM[1], STREAM[3]]
        assert result.writer.has_ended
        assert result.tokens == (100, 7, 40)
        assert result.status == ("success", None)
        assert w.verdict("a") == "success"
        assert json.loads(bytes(w.http.requests[0].body))["stream_options"] == {
            "include_usage": True
        }


async def test_balance_has_moved_when_the_last_bytes_go_out() -> None:
    async with world(a=[response_of(*STREAM)]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        settled_first: list[bool] = []
        finish = writer.finish

        def watched(block: bytes) -> None:
            settled_first.append(call.facts.call_id not in w.live)
            finish(block)

        writer.finish = watched  # type: ignore[method-assign]
        w.begin(call, writer)
        await w.end(call, writer)
        assert settled_first == [True]


async def test_live_call_tells_the_heartbeat_what_it_has_delivered() -> None:
    more = asyncio.Event()
    head = response_of(sse.delta("twelve chars"), more, *STREAM[1:])
    async with world(a=[head]) as w:
        call, writer = w.start(stream=True)
        await eventually(lambda: bool(writer.blocks))
        (((call_id, so_far),),) = w.live.changed(at_once=10)
        tokens_in = -(-call.request.parsed.content_bytes // 4)
        assert call_id == call.facts.call_id
        cost = tokens_in * INPUT + 3 * OUTPUT
        assert so_far == Delivered(cost, tokens_in, 3, basis="estimated")
        more.set()
        await w.end(call, writer)


async def test_seconds_of_a_token_are_those_after_the_first_byte() -> None:
    begins, more = asyncio.Event(), asyncio.Event()
    async with world(a=[response_of(begins, STREAM[0], more, *STREAM[1:])]) as w:
        call, writer = w.start(stream=True)
        await eventually(lambda: bool(w.http.responses))
        w.clock.advance(2.0)
        begins.set()
        await eventually(lambda: bool(writer.blocks))
        w.clock.advance(0.6)
        more.set()
        await w.end(call, writer)
        (seconds,) = counts(w, "gw_output_token_seconds_sum").values()
        assert seconds == pytest.approx(0.1)  # of six tokens that came later


async def test_upstream_is_sent_its_own_name_and_its_own_key() -> None:
    bound = make_model(Binding("a", "upstream-name"), max_output_tokens=4000)
    async with world(a=[response_of(sse.whole())], model=bound) as w:
        await w.call(max_tokens=None)
        (request,) = w.http.requests
        assert json.loads(bytes(request.body))["model"] == "upstream-name"
        assert json.loads(bytes(request.body))["max_tokens"] == 4000
        assert ("Authorization", "Bearer api-key-of-a") in request.headers


async def test_free_model_costs_nothing_and_still_has_its_row() -> None:
    free = make_model("a", price=PriceSpec())
    async with world(a=[response_of(sse.whole(usage=sse.usage_of(50, 5)))], model=free) as w:
        result = await w.call(max_tokens=2**53 - 1)
        assert (result.status, result.cost, result.tokens) == (("success", None), 0, (50, 5, 0))
        assert w.ledger.balances[ACCOUNT] == FUNDS


async def test_promotional_multiplier_is_what_is_charged() -> None:
    cheap = make_model("a", multiplier=Decimal("0.3"))
    async with world(a=[response_of(sse.whole(usage=sse.usage_of(100, 10, 50)))], model=cheap) as w:
        result = await w.call()
        assert result.cost == (50 * INPUT + 50 * CACHED + 10 * OUTPUT) * 3 // 10


async def test_pinned_conversation_stays_on_its_channel() -> None:
    specs = [make_channel(name) for name in ("a", "b", "c")]
    scripts = {spec.id: [response_of(sse.whole())] for spec in specs}
    async with world(scripts, channels=specs) as w:
        for _ in range(6):
            await w.call(pin="acct_a/session")
        assert len(set(w.http.tried)) == 1
        for number in range(12):
            await w.call(pin=f"acct_a/session-{number}")
        assert set(w.http.tried) == {"a", "b", "c"}


HELLO = sse.delta("Hello")
GOOD = response_of(HELLO, sse.DONE)
CHARGED = MESSAGES_TOKENS * 1000 + 2 * 10_000


async def time_out(
    w: World,
    until: Callable[[RecordingWriter], object],
    *,
    reads: asyncio.Event | None = None,
    stream: bool = True,
) -> CallResult:
    """A call whose time is over as soon as `until` is true."""
    call, writer = w.start(RecordingWriter(reads=reads), stream=stream)
    await eventually(lambda: bool(until(writer)))
    jump(TIMEOUT_SECONDS + 1)
    return await w.end(call, writer)


@cases("where", "before the head", "before the first event", "in the body")
@cases("stream", False, True)
async def test_time_out_before_anything_was_sent_is_504_and_no_retry(
    where: str, stream: bool
) -> None:
    scripts: dict[str, Script] = {
        "before the head": (FOR_EVER, *GOOD),
        "before the first event": response_of(sse.KEEP_ALIVE, FOR_EVER),
        "in the body": response_of(b'{"cho', FOR_EVER),
    }
    async with world(a=[scripts[where]], b=[GOOD]) as w:
        result = await time_out(w, lambda _: w.http.opening or w.http.responses, stream=stream)
        assert (result.refusal.http_status, result.refusal.kind.code) == (504, "upstream_timeout")
        assert result.status == ("interrupted", "upstream_timeout")
        assert (result.cost, result.attempts) == (0, ["upstream_timeout"])
        assert w.http.tried == ["a"]
        assert w.verdict("a") == "failure"


async def test_time_limit_is_one_for_all_attempts_together() -> None:
    gate = asyncio.Event()
    slow, refused = (FOR_EVER,), (gate, UpstreamUnreachable())
    async with world(a=[refused], b=[slow], c=[GOOD]) as w:
        call, writer = w.start()
        await eventually(lambda: w.http.tried == ["a"])
        jump(TIMEOUT_SECONDS * 0.6)
        gate.set()
        await eventually(lambda: w.http.tried == ["a", "b"])
        jump(TIMEOUT_SECONDS * 0.6)
        result = await w.end(call, writer)
        assert result.refusal.http_status == 504
        assert result.attempts == ["upstream_unreachable", "upstream_timeout"]
        assert w.http.tried == ["a", "b"]


async def test_time_out_in_mid_stream_ends_it_early_and_charges_what_went_out() -> None:
    async with world(a=[response_of(HELLO, FOR_EVER)], b=[GOOD]) as w:
        result = await time_out(w, lambda writer: writer.blocks)
        assert result.error is None
        assert (result.writer.sent, result.writer.has_ended) == (HELLO, True)
        assert result.status == ("interrupted", "upstream_timeout")
        assert result.cost == CHARGED
        assert w.verdict("a") == "failure"


async def test_time_out_for_a_client_that_does_not_read_says_nothing_of_the_channel() -> None:
    async with world(a=[response_of(HELLO, HELLO, sse.DONE)]) as w:
        result = await time_out(w, lambda writer: writer.waiting, reads=asyncio.Event())
        assert result.status == ("interrupted", "upstream_timeout")
        assert result.cost == CHARGED
        assert w.verdict("a") is None


async def test_client_that_leaves_before_its_hold_pays_nothing_and_has_a_row() -> None:
    async with world(a=[GOOD]) as w:
        w.ledger.gate = asyncio.Event()
        call, writer = w.start()
        await eventually(lambda: bool(w.writer.unsettled()))
        writer.leave()
        await asyncio.sleep(0)
        w.ledger.gate.set()
        result = await w.end(call, writer)
        assert result.status == ("interrupted", "client_disconnected")
        assert writer.is_row_owned  # nobody else writes a second one
        assert any('status="interrupted"' in labels for labels in counts(w, "gw_calls_total"))
        assert w.http.tried == []
        assert w.ledger.balances[ACCOUNT] == FUNDS


async def test_client_that_leaves_during_the_second_attempt_finds_the_first_in_its_row() -> None:
    async with world(a=[response_of(status=500)], b=[(FOR_EVER,)]) as w:
        call, writer = w.start()
        await eventually(lambda: w.http.tried == ["a", "b"])
        writer.leave()
        result = await w.end(call, writer)
        assert result.attempts == ["upstream_500"]
        assert (w.verdict("a"), w.verdict("b")) == ("failure", None)


async def test_client_that_leaves_in_mid_stream_is_charged_for_what_went_out() -> None:
    async with world(a=[response_of(HELLO, FOR_EVER, HELLO)]) as w:
        call, writer = w.start(stream=True)
        await eventually(lambda: bool(writer.blocks))
        (response,) = w.http.responses
        writer.leave()
        await asyncio.sleep(0)
        assert response.is_closed  # at once: the upstream stops working
        result = await w.end(call, writer)
        assert result.status == ("interrupted", "client_disconnected")
        assert result.cost == CHARGED
        assert w.verdict("a") is None


async def test_client_that_leaves_after_the_usage_came_is_charged_by_it() -> None:
    steps = (HELLO, sse.usage_event(40, 4), FOR_EVER)
    async with world(a=[response_of(*steps)]) as w:
        call, writer = w.start(stream=True)
        await eventually(lambda: bool(writer.blocks))
        for _ in range(5):
            await asyncio.sleep(0)
        writer.leave()
        result = await w.end(call, writer)
        assert result.tokens == (40, 4, 0)


@cases("after", 0, 1)
async def test_client_found_gone_at_a_write_ends_the_call(after: int) -> None:
    async with world(a=[response_of(HELLO, HELLO, sse.DONE)]) as w:
        result = await w.call(RecordingWriter(leaves_after=after), stream=True)
        assert result.error is None
        assert result.status == ("interrupted", "client_disconnected")
        assert w.http.responses[0].is_closed
        assert w.verdict("a") is None


async def test_client_that_leaves_while_it_is_not_reading_is_charged_once() -> None:
    async with world(a=[response_of(HELLO, HELLO, sse.DONE)]) as w:
        call, writer = w.start(RecordingWriter(reads=asyncio.Event()), stream=True)
        await eventually(lambda: writer.waiting == 1)
        writer.leave()
        result = await w.end(call, writer)
        assert result.status == ("interrupted", "client_disconnected")
        assert result.cost == CHARGED


async def test_client_that_leaves_after_the_last_bytes_changes_nothing() -> None:
    async with world(a=[response_of(HELLO, sse.DONE, FOR_EVER)]) as w:
        call, writer = w.start(stream=True)
        await eventually(lambda: writer.has_ended)
        writer.leave()  # the upstream's end is still being waited for
        result = await w.end(call, writer)
        assert result.status == ("success", None)


@cases("where", "at the hold", "at the upstream", "in mid-stream")
async def test_call_cut_by_a_drain_is_interrupted_by_the_gateway(where: str) -> None:
    script = response_of(HELLO, FOR_EVER) if where == "in mid-stream" else response_of(FOR_EVER)
    async with world(a=[script]) as w:
        gate = w.ledger.gate = asyncio.Event()
        call, writer = w.start(stream=True)
        await eventually(lambda: bool(w.writer.unsettled()))
        if where != "at the hold":
            gate.set()
            await eventually(lambda: bool(w.http.responses))
        if where == "in mid-stream":
            await eventually(lambda: bool(writer.blocks))
        writer.cut()
        await asyncio.sleep(0)
        gate.set()
        result = await w.end(call, writer)
        assert result.status == ("interrupted", "gateway_stopping")
        assert result.cost == (CHARGED if where == "in mid-stream" else 0)
        assert writer.is_row_owned
