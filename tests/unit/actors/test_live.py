"""What a process keeps for a while: calls that live, catalogs, idle entries."""

import asyncio
from uuid import UUID

from actors.reply_memory import REPLIES_MAX, RETRY_SECONDS, Question, ReplyMemory
from actors.wallet.live_calls import Delivered, LiveCalls
from channels.media.replies import CatalogReply, CatalogValue, Failed, Refused
from tests.support.clock import FakeClock
from tests.support.specs import make_channel

FIRST, TWO = UUID(int=1), UUID(int=2)


def delivered(cost: int) -> Delivered:
    return Delivered(cost_nano_usd=cost, input_tokens=1, output_tokens=cost)


def changed(live: LiveCalls) -> dict[UUID, Delivered]:
    """Everything that is listed now."""
    return {call_id: found for moved in live.changed(at_once=10) for call_id, found in moved}


def test_call_lives_between_entering_and_leaving() -> None:
    live = LiveCalls()
    live.enter(FIRST, lambda: None)
    live.enter(TWO, lambda: None)
    assert (len(live), FIRST in live, live.ids()) == (2, True, {1, 2})
    live.leave(FIRST)
    live.leave(FIRST)
    assert (len(live), FIRST in live, live.ids()) == (1, False, {2})


def test_no_list_takes_longer_than_so_many_calls() -> None:
    live = LiveCalls()
    calls = [UUID(int=number) for number in range(5)]
    live.enter(calls[0], lambda: None)
    for call_id in calls[1:]:
        live.enter(call_id, lambda: delivered(1))
    lists = [[call_id for call_id, _ in moved] for moved in live.changed(at_once=2)]
    assert lists == [calls[1:2], calls[2:4], calls[4:]]
    assert list(live.changed(at_once=2)) == [[], [], []]


def test_call_may_end_while_the_lists_are_read() -> None:
    live = LiveCalls()
    live.enter(FIRST, lambda: delivered(1))
    live.enter(TWO, lambda: delivered(2))
    for moved in live.changed(at_once=1):
        live.leave(FIRST)
        live.leave(TWO)
        assert [call_id for call_id, _ in moved] in ([FIRST], [])
    assert len(live) == 0
    live.enter(TWO, lambda: delivered(2))
    assert changed(live) == {TWO: delivered(2)}, "nothing is remembered of a call that has left"


FRESH = 600.0
ONE = make_channel("one")
LIST = Question(ONE, "voices")


class Upstream:
    """Answers as it is told, and counts."""

    def __init__(self, reply: CatalogReply[int]) -> None:
        self.reply = reply
        self.requested = 0
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> CatalogReply[int]:
        self.requested += 1
        if self.gate is not None:
            await self.gate.wait()
        return self.reply


def made() -> tuple[ReplyMemory, FakeClock]:
    clock = FakeClock()
    return ReplyMemory(fresh_seconds=FRESH, clock=clock), clock


async def test_old_reply_stands_in_for_a_failure_and_its_upstream_is_left_alone_for_now() -> None:
    memory, clock = made()
    upstream = Upstream(CatalogValue(1))
    await memory.reply(LIST, upstream)
    clock.advance(FRESH)
    upstream.reply = Failed(status=503)
    for _ in range(3):
        assert await memory.reply(LIST, upstream) == CatalogValue(1)
    assert upstream.requested == 2
    clock.advance(RETRY_SECONDS)
    upstream.reply = CatalogValue(2)
    assert await memory.reply(LIST, upstream) == CatalogValue(2)


async def test_failure_without_a_memory_is_raised_and_not_remembered() -> None:
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
    assert upstream.requested == 1


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
