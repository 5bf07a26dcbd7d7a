"""Replies of upstreams are remembered, asked for once, and kept while no better one can be had."""

from __future__ import annotations

import asyncio

from actors.catalogs import REPLIES_MAX, RETRY_SECONDS, Question, ReplyMemory
from channels.media.canonical import CatalogReply, CatalogValue, Failed, Refused
from tests.support.clock import FakeClock
from tests.support.specs import make_channel

FRESH = 600.0
ONE = make_channel("one")
LIST = Question(ONE, "voices")


class Upstream:
    """Answers as it is told, and counts."""

    def __init__(self, reply: CatalogReply[int]) -> None:
        self.reply = reply
        self.asked = 0
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> CatalogReply[int]:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        return self.reply


def made() -> tuple[ReplyMemory, FakeClock]:
    clock = FakeClock()
    return ReplyMemory(fresh_seconds=FRESH, clock=clock), clock


async def test_reply_is_fresh_for_a_while_and_then_asked_for_again() -> None:
    memory, clock = made()
    upstream = Upstream(CatalogValue(1))
    for _ in range(3):
        assert await memory.reply(LIST, upstream) == CatalogValue(1)
    clock.advance(FRESH - 1)
    await memory.reply(LIST, upstream)
    assert upstream.asked == 1
    clock.advance(1)
    upstream.reply = CatalogValue(2)
    assert await memory.reply(LIST, upstream) == CatalogValue(2)


async def test_old_reply_stands_in_for_a_failure_and_its_upstream_is_left_alone_for_now() -> None:
    memory, clock = made()
    upstream = Upstream(CatalogValue(1))
    await memory.reply(LIST, upstream)
    clock.advance(FRESH)
    upstream.reply = Failed(status=503)
    for _ in range(3):
        assert await memory.reply(LIST, upstream) == CatalogValue(1)
    assert upstream.asked == 2
    clock.advance(RETRY_SECONDS)
    upstream.reply = CatalogValue(2)
    assert await memory.reply(LIST, upstream) == CatalogValue(2)


async def test_failure_without_a_memory_is_told_and_not_remembered() -> None:
    memory, _ = made()
    upstream = Upstream(Failed(status=503))
    assert await memory.reply(LIST, upstream) == Failed(status=503)
    upstream.reply = CatalogValue(1)
    assert await memory.reply(LIST, upstream) == CatalogValue(1)


async def test_what_is_gone_is_gone() -> None:
    memory, clock = made()
    upstream = Upstream(CatalogValue(1))
    await memory.reply(LIST, upstream)
    clock.advance(FRESH)
    upstream.reply = Refused(status=404)
    assert await memory.reply(LIST, upstream) == Refused(status=404)
    assert len(memory) == 0


async def test_many_who_wait_are_one_question_and_one_who_leaves_stops_nobody() -> None:
    memory, _ = made()
    upstream = Upstream(CatalogValue(1))
    upstream.gate = asyncio.Event()
    waiting = [asyncio.create_task(memory.reply(LIST, upstream)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    upstream.gate.set()
    assert await asyncio.gather(*waiting[1:]) == [CatalogValue(1)] * 4
    assert upstream.asked == 1


async def test_channel_that_was_changed_is_asked_anew() -> None:
    memory, _ = made()
    upstream = Upstream(CatalogValue(1))
    await memory.reply(LIST, upstream)
    moved = make_channel("one", base_url="http://elsewhere.example")
    upstream.reply = CatalogValue(2)
    assert await memory.reply(Question(moved, "voices"), upstream) == CatalogValue(2)


async def test_ids_that_clients_invent_do_not_fill_the_memory() -> None:
    memory, _ = made()
    for number in range(REPLIES_MAX + 10):
        await memory.reply(Question(ONE, "template", str(number)), Upstream(CatalogValue(number)))
        await memory.reply(Question(ONE, "template", f"no{number}"), Upstream(Refused(status=404)))
    assert len(memory) == REPLIES_MAX


async def test_closing_stops_what_is_asked() -> None:
    memory, _ = made()
    upstream = Upstream(CatalogValue(1))
    upstream.gate = asyncio.Event()
    waiting = asyncio.create_task(memory.reply(LIST, upstream))
    await asyncio.sleep(0)
    await memory.close()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
