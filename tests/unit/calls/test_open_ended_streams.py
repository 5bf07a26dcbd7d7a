"""Streams that have no terminator: what ends them, what is held back, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from channels.dialects.chat.dialect import DIALECT as CHAT
from channels.dialects.dialect import ChatDialect
from channels.dialects.gemini.dialect import DIALECT as GEMINI
from channels.dialects.messages.dialect import DIALECT as MESSAGES
from channels.http.interfaces import UpstreamRequest
from gw.calls.request import UpstreamPlan
from gw.calls.stream import ENDING_SECONDS
from tests.support.aio import eventually, jump
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import FOR_EVER, answer
from tests.unit.calls.world import world
from tests.unit.calls.writer import RecordingWriter


def said(text: str, *, index: int = 0, **candidate: Any) -> bytes:
    """A chunk of native-content."""
    content = {"parts": [{"text": text}], "role": "model"}
    return sse.event({"candidates": [{"content": content, "index": index, **candidate}]})


def in_gemini(request: UpstreamRequest) -> UpstreamPlan:
    return UpstreamPlan(request, GEMINI)


ENDED = said("", finishReason="STOP")


async def test_upstream_that_leaves_a_whole_answer_open_is_not_waited_for_long() -> None:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4}
    late = sse.event({"usageMetadata": usage})
    async with world(a=[answer(said("Hello"), ENDED, late, FOR_EVER)]) as w:
        call, writer = w.prepare(stream=True, plan=in_gemini), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: [r.pieces_taken for r in w.wire.responses] == [3])
        assert writer.sent == said("Hello")  # settled first, then the end
        jump(ENDING_SECONDS)
        told = await w.end(call, writer)
        assert told.writer.sent == said("Hello") + ENDED + late
        assert (told.status, told.tokens) == (("success", None), (9, 4, 0))


async def test_candidate_that_begins_after_another_has_ended_comes_after_it() -> None:
    steps = (
        said("One"),
        ENDED,
        said("Two", index=1),
        said("Three", index=1, finishReason="STOP"),
    )
    async with world(a=[answer(*steps)]) as w:
        told = await w.call(stream=True, plan=in_gemini)
        assert told.writer.sent == b"".join(steps)
        assert told.status == ("success", None)


async def test_candidate_that_goes_on_has_all_the_time_of_the_call() -> None:
    goes_on = asyncio.Event()
    steps = (said("One"), ENDED, said("Two", index=1), goes_on)
    last = said("", index=1, finishReason="STOP")
    async with world(a=[answer(*steps, last)]) as w:
        call, writer = w.prepare(stream=True, plan=in_gemini), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: b"Two" in writer.sent)
        jump(ENDING_SECONDS)
        goes_on.set()
        told = await w.end(call, writer)
        assert told.writer.sent.endswith(said("Two", index=1) + last)
        assert told.status == ("success", None)


async def test_candidate_that_never_ends_makes_it_a_cut_stream() -> None:
    steps = (said("One"), said("Two", index=1), ENDED)
    async with world(a=[answer(*steps)]) as w:
        told = await w.call(stream=True, plan=in_gemini)
        assert told.writer.sent == b"".join(steps)
        assert told.status == ("error", "upstream_error")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"], ids=["nothing", "a line feed", "a line end"])
@pytest.mark.parametrize(
    ("dialect", "begun", "last"),
    [
        (CHAT, sse.delta("Hello"), b"data: [DONE]"),
        (
            MESSAGES,
            sse.event({"type": "content_block_delta", "delta": {"text": "Hello"}}),
            b'event: message_stop\ndata: {"type": "message_stop"}',
        ),
        (GEMINI, said("Hello"), ENDED.rstrip(b"\n")),
    ],
    ids=["chat", "messages", "native"],
)
async def test_last_event_without_its_blank_line_is_passed_on_as_it_is(
    dialect: ChatDialect, begun: bytes, last: bytes, end: bytes
) -> None:
    async with world(a=[answer(begun, last + end)]) as w:
        told = await w.call(stream=True, plan=lambda request: UpstreamPlan(request, dialect))
        assert told.writer.sent == begun + last + end
        assert told.status == ("success", None)
