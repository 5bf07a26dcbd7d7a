"""What an upstream sends behind its terminator is the client's, natively and for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from channels.dialects.table import CHAT_DIALECTS
from channels.errors import UpstreamCut
from channels.http.interfaces import UpstreamRequest
from channels.translation.session import TranslatedCall, translation_between
from gw.calls.attempts import CLOSE_SECONDS
from gw.calls.request import UpstreamPlan
from gw.calls.stream import REST_SECONDS
from tests.support.aio import eventually, jump
from tests.support.rows import each
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import FOR_EVER, Script, Step, answer
from tests.unit.calls.relaying import ASKED
from tests.unit.calls.world import World, world
from tests.unit.calls.writer import RecordingWriter

HELLO = sse.delta("Hello")
COMMENT = b": still here\n\n"
# A stream, and its terminator.
STREAMS: dict[str, tuple[bytes, bytes]] = {
    "chat": (HELLO, sse.DONE),
    "messages": (
        sse.event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}),
        b"event: message_stop\n" + sse.event({"type": "message_stop"}),
    ),
    "responses": (
        sse.event({"type": "response.output_text.delta", "delta": "Hi"}),
        sse.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}}),
    ),
}
RESTS: dict[str, list[bytes]] = {
    "the terminator of another protocol": [sse.DONE],
    "comments": [b": bye\n\n", b": bye\r\n\r\n"],
    "half an event": [b'data: {"choices": [{"del'],
    "events and more": [sse.usage_event(9, 9), sse.delta("late"), b"\n", b"x"],
}


def untranslated(protocol: str) -> Callable[[UpstreamRequest], UpstreamPlan]:
    return lambda request: UpstreamPlan(request, CHAT_DIALECTS[protocol])


def over_chat(request: UpstreamRequest) -> UpstreamPlan:
    """A messages client on a channel that speaks chat."""
    translation = translation_between("messages", "chat")
    call = TranslatedCall(translation, ASKED["messages"], redact=lambda text: text)
    return UpstreamPlan(request, CHAT_DIALECTS["chat"], call)


@each("rest", RESTS.values())
@each("comes", ["in one read", "with the terminator", "later"])
@each("protocol", STREAMS)
async def test_rest_is_passed_on_and_changes_nothing(
    protocol: str, comes: str, rest: list[bytes]
) -> None:
    text, end = STREAMS[protocol]
    steps: dict[str, list[Step]] = {
        "in one read": [b"".join((text, end, *rest))],
        "with the terminator": [text, b"".join((end, *rest))],
        "later": [text, end, 3, *rest],
    }
    async with world(a=[answer(text, end), answer(*steps[comes])]) as w:
        without = await w.call(stream=True, plan=untranslated(protocol))
        told = await w.call(stream=True, plan=untranslated(protocol))
        assert told.writer.sent == b"".join((text, end, *rest))
        assert told.status == ("success", None)
        assert (told.tokens, told.cost) == (without.tokens, without.cost)
        assert w.wire.responses[1].has_ended  # and its connection may carry another request


async def test_rest_of_a_stream_without_a_terminator_is_passed_on_as_well() -> None:
    said = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    steps = (sse.event({"candidates": [said]}), b": bye")
    async with world(a=[answer(*steps)]) as w:
        told = await w.call(stream=True, plan=untranslated("native"))
        assert told.writer.sent == b"".join(steps)
        assert told.status == ("success", None)


async def begun(w: World, writer: RecordingWriter) -> asyncio.Task[None]:
    """A call whose terminator has gone out, and which is settled, though its upstream goes on."""
    task = w.begin(w.prepare(stream=True), writer)
    await eventually(lambda: writer.sent.startswith(HELLO + sse.DONE))
    await w.settled()
    assert len(w.ledger.rows) == 1
    assert w.verdict("a") == "success"
    assert not writer.has_ended
    return task


@pytest.mark.parametrize(
    "steps", [(FOR_EVER,), (COMMENT, 2) * 50 + (FOR_EVER,)], ids=["silent", "and goes on"]
)
async def test_upstream_that_does_not_end_is_let_go_in_the_end(steps: Script) -> None:
    async with world(a=[answer(HELLO, sse.DONE, *steps)]) as w:
        writer = RecordingWriter()
        task = await begun(w, writer)
        comments = steps.count(COMMENT)
        await eventually(lambda: writer.sent.count(COMMENT) == comments)
        jump(REST_SECONDS)
        await task
        assert writer.has_ended
        (response,) = w.wire.responses
        assert (response.has_ended, response.is_closed) == (False, True)


async def test_client_that_does_not_read_the_rest_is_not_waited_for_either() -> None:
    reads, goes_on = asyncio.Event(), asyncio.Event()
    reads.set()
    async with world(a=[answer(HELLO, sse.DONE, goes_on, COMMENT, COMMENT)]) as w:
        writer = RecordingWriter(reads=reads)
        task = await begun(w, writer)
        reads.clear()
        goes_on.set()
        await eventually(lambda: writer.waiting == 1)
        jump(REST_SECONDS)
        await task
        assert writer.has_ended
        reads.set()


@pytest.mark.parametrize("leaves", [True, False], ids=["by closing", "found at a write"])
async def test_client_that_leaves_behind_the_terminator_has_had_its_answer(leaves: bool) -> None:
    async with world(a=[answer(HELLO, sse.DONE, COMMENT, FOR_EVER)]) as w:
        call, writer = (
            w.prepare(stream=True),
            RecordingWriter(leaves_after=None if leaves else 2),
        )
        w.begin(call, writer)
        await eventually(lambda: sse.DONE in writer.sent)
        if leaves:
            writer.leave()
        told = await w.end(call, writer)
        assert told.status == ("success", None)
        assert w.wire.responses[0].is_closed


async def test_connection_lost_behind_the_terminator_ends_the_answer() -> None:
    async with world(a=[answer(HELLO, sse.DONE, COMMENT, UpstreamCut())]) as w:
        told = await w.call(stream=True)
        assert (told.writer.sent, told.writer.has_ended) == (HELLO + sse.DONE + COMMENT, True)
        assert told.status == ("success", None)


@pytest.mark.parametrize("end", [(), (UpstreamCut(),)], ids=["whole", "lost"])
async def test_key_of_the_channel_is_masked_in_the_rest(end: Script) -> None:
    rest = b": api-key-of-a at http://a.example\n\n"
    masked = b": [redacted] at http://[host]\n\n"
    async with world(a=[answer(HELLO, sse.DONE + rest, rest[:9], 3, rest[9:], b": x", *end)]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == HELLO + sse.DONE + masked + masked + b": x"


async def test_translated_stream_ends_with_its_terminator() -> None:
    async with world(a=[answer(HELLO, sse.DONE + sse.DONE, sse.delta("late"), FOR_EVER)]) as w:
        call, writer = w.prepare(stream=True, plan=over_chat), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: writer.has_ended)  # nobody waits for the upstream's end
        jump(CLOSE_SECONDS)
        told = await w.end(call, writer)
        assert told.status == ("success", None)
        assert b"late" not in told.writer.sent
        assert told.writer.sent.count(b"message_stop") == 2  # the event's name, and its type
