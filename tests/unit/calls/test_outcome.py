"""Calls that end before their answer does: time-outs, clients that leave, a process that stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from channels.errors import UpstreamUnreachable
from tests.support.aio import eventually, jump
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import FOR_EVER, Script, answer
from tests.unit.calls.world import (
    ACCOUNT,
    FUNDS,
    MESSAGES_TOKENS,
    TIMEOUT_SECONDS,
    Told,
    World,
    world,
)
from tests.unit.calls.writer import RecordingWriter

HELLO = sse.delta("Hello")
GOOD = answer(HELLO, sse.DONE)
CHARGED = MESSAGES_TOKENS * 1000 + 2 * 10_000


async def time_out(
    w: World,
    until: Callable[[RecordingWriter], object],
    *,
    reads: asyncio.Event | None = None,
    stream: bool = True,
) -> Told:
    """A call whose time is over as soon as `until` is true."""
    call, writer = w.prepare(stream=stream), RecordingWriter(reads=reads)
    w.begin(call, writer)
    await eventually(lambda: bool(until(writer)))
    jump(TIMEOUT_SECONDS + 1)
    return await w.end(call, writer)


@pytest.mark.parametrize("where", ["before the head", "before the first event", "in the body"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_time_out_before_anything_was_sent_is_504_and_no_retry(
    where: str, stream: bool
) -> None:
    scripts: dict[str, Script] = {
        "before the head": (FOR_EVER, *GOOD),
        "before the first event": answer(sse.KEEP_ALIVE, FOR_EVER),
        "in the body": answer(b'{"cho', FOR_EVER),
    }
    async with world(a=[scripts[where]], b=[GOOD]) as w:
        told = await time_out(w, lambda _: w.wire.opening or w.wire.responses, stream=stream)
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (504, "upstream_timeout")
        assert told.status == ("interrupted", "upstream_timeout")
        assert (told.cost, told.attempts) == (0, ["upstream_timeout"])
        assert w.wire.tried == ["a"]
        assert w.verdict("a") == "failure"


async def test_time_limit_is_one_for_all_attempts_together() -> None:
    gate = asyncio.Event()
    slow, refused = (FOR_EVER,), (gate, UpstreamUnreachable())
    async with world(a=[refused], b=[slow], c=[GOOD]) as w:
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: w.wire.tried == ["a"])
        jump(TIMEOUT_SECONDS * 0.6)
        gate.set()
        await eventually(lambda: w.wire.tried == ["a", "b"])
        jump(TIMEOUT_SECONDS * 0.6)
        told = await w.end(call, writer)
        assert told.error is not None
        assert told.error.http_status == 504
        assert told.attempts == ["upstream_unreachable", "upstream_timeout"]
        assert w.wire.tried == ["a", "b"]


async def test_time_out_in_mid_stream_ends_it_early_and_charges_what_went_out() -> None:
    async with world(a=[answer(HELLO, FOR_EVER)], b=[GOOD]) as w:
        told = await time_out(w, lambda writer: writer.blocks)
        assert told.error is None
        assert (told.writer.sent, told.writer.has_ended) == (HELLO, True)
        assert told.status == ("interrupted", "upstream_timeout")
        assert told.cost == CHARGED
        assert w.verdict("a") == "failure"


async def test_time_out_for_a_client_that_does_not_read_says_nothing_of_the_channel() -> None:
    async with world(a=[answer(HELLO, HELLO, sse.DONE)]) as w:
        told = await time_out(w, lambda writer: writer.waiting, reads=asyncio.Event())
        assert told.status == ("interrupted", "upstream_timeout")
        assert told.cost == CHARGED
        assert w.verdict("a") is None


async def test_client_that_leaves_before_its_hold_pays_nothing_and_has_a_row() -> None:
    async with world(a=[GOOD]) as w:
        w.ledger.gate = asyncio.Event()
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.writer.unsettled()))
        writer.leave()
        await asyncio.sleep(0)
        w.ledger.gate.set()
        told = await w.end(call, writer)
        assert told.status == ("interrupted", "client_disconnected")
        assert writer.is_row_owned  # nobody else writes a second one
        assert w.wire.tried == []
        assert w.ledger.balances[ACCOUNT] == FUNDS


@pytest.mark.parametrize("where", ["before the head", "before the first event"])
async def test_client_that_leaves_during_an_attempt_cancels_it_and_pays_nothing(where: str) -> None:
    script = (FOR_EVER,) if where == "before the head" else answer(FOR_EVER)
    async with world(a=[script], b=[GOOD]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.wire.opening or w.wire.responses))
        writer.leave()
        told = await w.end(call, writer)
        assert told.status == ("interrupted", "client_disconnected")
        assert (told.cost, w.wire.tried) == (0, ["a"])
        assert w.verdict("a") is None


async def test_client_that_leaves_during_the_second_attempt_finds_the_first_in_its_row() -> None:
    async with world(a=[answer(status=500)], b=[(FOR_EVER,)]) as w:
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: w.wire.tried == ["a", "b"])
        writer.leave()
        told = await w.end(call, writer)
        assert told.attempts == ["upstream_500"]
        assert (w.verdict("a"), w.verdict("b")) == ("failure", None)


async def test_client_that_leaves_in_mid_stream_is_charged_for_what_went_out() -> None:
    async with world(a=[answer(HELLO, FOR_EVER, HELLO)]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(writer.blocks))
        (response,) = w.wire.responses
        writer.leave()
        await asyncio.sleep(0)
        assert response.is_closed  # at once: the upstream stops working
        told = await w.end(call, writer)
        assert told.status == ("interrupted", "client_disconnected")
        assert told.cost == CHARGED
        assert w.verdict("a") is None


async def test_client_that_leaves_after_the_usage_came_is_charged_by_it() -> None:
    steps = (HELLO, sse.usage_event(40, 4), FOR_EVER)
    async with world(a=[answer(*steps)]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(writer.blocks))
        for _ in range(5):
            await asyncio.sleep(0)
        writer.leave()
        told = await w.end(call, writer)
        assert told.tokens == (40, 4, 0)


@pytest.mark.parametrize("after", [0, 1])
async def test_client_found_gone_at_a_write_ends_the_call(after: int) -> None:
    async with world(a=[answer(HELLO, HELLO, sse.DONE)]) as w:
        told = await w.call(RecordingWriter(leaves_after=after), stream=True)
        assert told.error is None
        assert told.status == ("interrupted", "client_disconnected")
        assert w.wire.responses[0].is_closed
        assert w.verdict("a") is None


async def test_client_that_leaves_while_it_is_not_reading_is_charged_once() -> None:
    async with world(a=[answer(HELLO, HELLO, sse.DONE)]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter(reads=asyncio.Event())
        w.begin(call, writer)
        await eventually(lambda: writer.waiting == 1)
        writer.leave()
        told = await w.end(call, writer)
        assert told.status == ("interrupted", "client_disconnected")
        assert told.cost == CHARGED


async def test_client_that_leaves_after_the_last_bytes_changes_nothing() -> None:
    async with world(a=[answer(HELLO, sse.DONE, FOR_EVER)]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: writer.has_ended)
        writer.leave()  # the upstream's end is still being waited for
        told = await w.end(call, writer)
        assert told.status == ("success", None)


@pytest.mark.parametrize("where", ["at the hold", "at the upstream", "in mid-stream"])
async def test_call_cut_by_a_drain_is_interrupted_by_the_gateway(where: str) -> None:
    script = answer(HELLO, FOR_EVER) if where == "in mid-stream" else answer(FOR_EVER)
    async with world(a=[script]) as w:
        gate = w.ledger.gate = asyncio.Event()
        call, writer = w.prepare(stream=True), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.writer.unsettled()))
        if where != "at the hold":
            gate.set()
            await eventually(lambda: bool(w.wire.responses))
        if where == "in mid-stream":
            await eventually(lambda: bool(writer.blocks))
        writer.cut()
        await asyncio.sleep(0)
        gate.set()
        told = await w.end(call, writer)
        assert told.status == ("interrupted", "gateway_stopping")
        assert told.cost == (CHARGED if where == "in mid-stream" else 0)
        assert writer.is_row_owned
