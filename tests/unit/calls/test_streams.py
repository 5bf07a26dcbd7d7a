"""Streams that go wrong once they have begun: they end early, and nothing else (spec: Errors)."""

from __future__ import annotations

import asyncio

import pytest

from channels.errors import UpstreamCut, UpstreamMalformed
from tests.support.aio import eventually
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import Script, answer
from tests.unit.calls.world import MESSAGES_TOKENS, world
from tests.unit.calls.writer import RecordingWriter

HELLO = sse.delta("Hello")
GOOD = answer(HELLO, sse.DONE)

CUTS: dict[str, Script] = {
    "lost": (HELLO, UpstreamCut()),
    "lost in mid-event": (HELLO, b'data: {"choices": [{"del', UpstreamCut()),
    "ended without the terminator": (HELLO,),
    "ended in mid-event": (HELLO, b'data: {"choices": [{"delta": {"content": "x"}}]}'),
    "ended after its usage": (HELLO, sse.usage_event(MESSAGES_TOKENS, 2)),
    "an event without end": (HELLO, b"data: " + b"x" * (33 * 1024 * 1024)),
    "no chunks of HTTP": (HELLO, UpstreamMalformed()),
}


@pytest.mark.parametrize("steps", CUTS.values(), ids=CUTS.keys())
async def test_stream_cut_in_the_middle_ends_without_terminator_and_is_not_begun_again(
    steps: Script,
) -> None:
    async with world(a=[answer(*steps)], b=[GOOD]) as w:
        told = await w.call(stream=True)
        assert told.error is None
        assert told.writer.sent == HELLO
        assert told.writer.has_ended
        assert told.status == ("error", "upstream_error")
        assert told.tokens == (MESSAGES_TOKENS, 2, 0)
        assert told.attempts == []
        assert w.wire.tried == ["a"]
        assert w.verdict("a") == "failure"


async def test_finish_reason_alone_is_no_end() -> None:
    last = sse.delta(finish="stop")
    async with world(a=[answer(HELLO, last)]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == HELLO + last
        assert told.status == ("error", "upstream_error")


@pytest.mark.parametrize("is_complete", [True, False], ids=["with terminator", "then cut"])
async def test_error_event_is_forwarded_unchanged(is_complete: bool) -> None:
    oops = b'event: error\ndata: {"error":  {"message": "overloaded"}}\n\n'
    end = (sse.DONE,) if is_complete else (UpstreamCut(),)
    async with world(a=[answer(HELLO, oops, *end)], b=[GOOD]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == HELLO + oops + (sse.DONE if is_complete else b"")
        assert told.status == ("error", "upstream_error")
        assert told.tokens == (MESSAGES_TOKENS, 2, 0)  # what came before it was delivered
        assert w.wire.tried == ["a"]
        assert w.verdict("a") == "failure"


async def test_event_that_cannot_be_read_is_passed_on() -> None:
    odd = b"data: {broken\n\n"
    async with world(a=[answer(HELLO, odd, sse.usage_event(5, 5), sse.DONE)]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == HELLO + odd + sse.DONE
        assert (told.status, told.tokens) == (("success", None), (5, 5, 0))


async def test_comments_and_unknown_fields_are_passed_on() -> None:
    steps = (HELLO, sse.KEEP_ALIVE, b"id: 7\nretry: 10\n\n", sse.DONE)
    async with world(a=[answer(*steps)]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == b"".join(steps)


async def test_request_is_kept_until_the_first_event_and_no_longer() -> None:
    """Until then another channel may have to be asked; a stream may last for minutes."""

    begins, ends = asyncio.Event(), asyncio.Event()
    failed = answer(sse.error_body("later"), status=500)
    good = answer(begins, HELLO, ends, sse.DONE)
    async with world(a=[failed], b=[good]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        kept = repr(call.request)
        w.begin(call, writer)
        await eventually(lambda: w.wire.tried == ["a", "b"])
        assert (repr(call.request), writer.has_forgotten) == (kept, False)
        begins.set()
        await eventually(lambda: writer.sent == HELLO)
        assert repr(call.request) == "<PlannedRequest chat 0 bytes>" != kept
        assert writer.has_forgotten
        ends.set()
        told = await w.end(call, writer)
        assert told.status == ("success", None)
        assert told.row is not None
        assert told.row["detail"]["request"], "what it asked for is still told"


async def test_client_that_reads_slowly_holds_back_the_reading_of_the_upstream() -> None:
    reads = asyncio.Event()
    steps = [sse.delta(f"piece {n}") for n in range(50)]
    async with world(a=[answer(*steps, sse.DONE)]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter(reads=reads)
        w.begin(call, writer)
        await eventually(lambda: writer.waiting == 1)
        for _ in range(200):
            await asyncio.sleep(0)
        (response,) = w.wire.responses
        assert (len(writer.blocks), response.pieces_taken) == (1, 1)
        reads.set()
        told = await w.end(call, writer)
        assert told.writer.sent == b"".join(steps) + sse.DONE
        assert told.status == ("success", None)


async def test_upstream_that_ends_its_answer_properly_keeps_its_connection() -> None:
    async with world(a=[answer(HELLO, sse.DONE, 3)]) as w:
        await w.call(stream=True)
        assert w.wire.responses[0].has_ended


async def test_connection_that_breaks_after_the_terminator_breaks_nothing() -> None:
    async with world(a=[answer(HELLO, sse.DONE, UpstreamCut())]) as w:
        told = await w.call(stream=True)
        assert told.status == ("success", None)
        assert w.verdict("a") == "success"
