"""Calls that go well: what the client gets, byte for byte, and what is charged for it."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal

from actors.wallet.wallets import Delivered
from channels.prices import PriceSpec
from channels.registry import Binding
from tests.support.aio import eventually
from tests.support.specs import make_channel, make_model
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import answer
from tests.unit.calls.world import ACCOUNT, FUNDS, world
from tests.unit.calls.writer import RecordingWriter

# 1 USD in, 10 USD out, 0.1 USD cached per million tokens, in nano-USD per token.
INPUT, OUTPUT, CACHED = 1000, 10_000, 100

STREAM = (sse.delta("Hel"), sse.delta("lo", finish="stop"), sse.usage_event(100, 7, 40), sse.DONE)


async def test_whole_answer_is_passed_on_and_charged_by_its_usage() -> None:
    body = sse.whole(usage=sse.usage_of(100, 7, cached=40))
    async with world(a=[answer(body[:10], 3, body[10:])]) as w:
        told = await w.call()
        assert told.error is None
        assert told.writer.sent == body
        assert told.writer.content_type == "application/json"
        assert told.status == ("success", None)
        assert told.tokens == (100, 7, 40)
        cost = 60 * INPUT + 40 * CACHED + 7 * OUTPUT
        assert told.cost == cost
        assert w.ledger.balances[ACCOUNT] == FUNDS - cost
        assert told.attempts == []
        assert w.verdict("a") == "success"


async def test_row_says_how_the_call_went() -> None:
    began = asyncio.Event()
    async with world(a=[answer(began, sse.whole(usage=sse.usage_of(1, 1)))]) as w:
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.wire.responses))
        w.clock.advance(1.25)
        began.set()
        told = await w.end(call, writer)
        assert told.row is not None
        assert (told.row["kind"], told.row["latency_ms"]) == ("settle", 1250)
        detail = told.row["detail"]
        assert detail["order"] == [["a", "chat"]]
        ((tried, _, tried_ms, outcome),) = detail["tried"]
        assert (tried, tried_ms, outcome) == ("a", 1250, "ok")
        upstream = detail["upstream"]
        assert (upstream["status"], upstream["id"]) == (200, "chatcmpl-1")
        assert upstream["finish"] == "stop"
        assert writer.is_row_owned


async def test_stream_is_passed_on_as_it_comes_and_the_usage_chunk_withheld() -> None:
    async with world(a=[answer(*STREAM)]) as w:
        told = await w.call(stream=True)
        assert told.writer.blocks == [STREAM[0], STREAM[1], STREAM[3]]
        assert told.writer.has_ended
        assert told.tokens == (100, 7, 40)
        assert told.status == ("success", None)
        assert w.verdict("a") == "success"
        assert json.loads(w.wire.requests[0].body)["stream_options"] == {"include_usage": True}


async def test_client_that_asked_for_usage_gets_its_chunk() -> None:
    async with world(a=[answer(*STREAM)]) as w:
        told = await w.call(stream=True, usage=True)
        assert told.writer.sent == b"".join(STREAM)


async def test_events_cut_anywhere_are_passed_on_whole() -> None:
    bytes_of_it = b"".join(STREAM)
    pieces = [bytes_of_it[at : at + 1] for at in range(len(bytes_of_it))]
    async with world(a=[answer(*pieces)]) as w:
        told = await w.call(stream=True)
        assert told.writer.blocks == [STREAM[0], STREAM[1], STREAM[3]]
        assert told.tokens == (100, 7, 40)


async def test_several_events_of_one_read_are_one_block() -> None:
    async with world(a=[answer(b"".join(STREAM))]) as w:
        told = await w.call(stream=True)
        assert told.writer.blocks == [STREAM[0] + STREAM[1] + STREAM[3]]


async def test_what_follows_the_terminator_is_passed_on_and_not_counted() -> None:
    late = sse.delta("late") + sse.usage_event(9, 9) + b": bye"
    async with world(a=[answer(b"".join(STREAM) + late, late)]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent.endswith(sse.DONE + late + late)
        assert told.tokens == (100, 7, 40)


async def test_balance_has_moved_when_the_last_bytes_go_out() -> None:
    async with world(a=[answer(*STREAM)]) as w:
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
    head = answer(sse.delta("twelve chars"), more, *STREAM[1:])
    async with world(a=[head]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(writer.blocks))
        (((call_id, so_far),),) = w.live.changed(at_once=10)
        tokens_in = -(-call.content_bytes // 4)
        assert call_id == call.facts.call_id
        cost = tokens_in * INPUT + 3 * OUTPUT
        assert so_far == Delivered(cost, tokens_in, 3, basis="estimated")
        more.set()
        await w.end(call, writer)


async def test_upstream_is_asked_by_its_own_name_with_its_own_key() -> None:
    bound = make_model(Binding("a", "upstream-name"), max_output_tokens=4000)
    async with world(a=[answer(sse.whole())], model=bound) as w:
        await w.call(max_tokens=None)
        (request,) = w.wire.requests
        assert json.loads(request.body)["model"] == "upstream-name"
        assert json.loads(request.body)["max_tokens"] == 4000
        assert ("Authorization", "Bearer api-key-of-a") in request.headers


async def test_free_model_costs_nothing_and_still_has_its_row() -> None:
    free = make_model("a", price=PriceSpec())
    async with world(a=[answer(sse.whole(usage=sse.usage_of(50, 5)))], model=free) as w:
        told = await w.call()
        assert (told.status, told.cost, told.tokens) == (("success", None), 0, (50, 5, 0))
        assert w.ledger.balances[ACCOUNT] == FUNDS


async def test_promotional_multiplier_is_what_is_charged() -> None:
    cheap = make_model("a", multiplier=Decimal("0.3"))
    async with world(a=[answer(sse.whole(usage=sse.usage_of(100, 10, 50)))], model=cheap) as w:
        told = await w.call()
        assert told.cost == (50 * INPUT + 50 * CACHED + 10 * OUTPUT) * 3 // 10


async def test_pinned_conversation_stays_on_its_channel() -> None:
    specs = [make_channel(name) for name in ("a", "b", "c")]
    scripts = {spec.id: [answer(sse.whole())] for spec in specs}
    async with world(scripts, channels=specs) as w:
        for _ in range(6):
            await w.call(pin="acct_a/session")
        assert len(set(w.wire.tried)) == 1
        for number in range(12):
            await w.call(pin=f"acct_a/session-{number}")
        assert set(w.wire.tried) == {"a", "b", "c"}
