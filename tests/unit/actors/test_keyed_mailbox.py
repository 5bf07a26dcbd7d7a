"""A mailbox of queues: order within each, turns among them, company, its bound, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.actor import ActorStopped, MailboxFull
from actors.wallet.writer import KeyedMailbox
from tests.support.clock import FakeClock

LINGER_SECONDS = 0.01


def queues(capacity: int = 10) -> KeyedMailbox[str]:
    """Messages go by their first letter."""
    return KeyedMailbox(
        FakeClock(),
        capacity=capacity,
        key_of=lambda message: message[0],
        linger_seconds=LINGER_SECONDS,
    )


def reply() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_queues_take_turns_and_each_keeps_its_order() -> None:
    box = queues()
    for message in ("a1", "a2", "a3", "b1", "c1", "b2"):
        box.put(message, reply())
    assert (len(box), box.length_of("a"), box.length_of("z")) == (6, 3, 0)
    assert sorted(e.message for e in box) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    first = box.next()
    assert first is not None
    assert box.take_next() is first
    box.put("a4", reply())  # behind what waits in its queue, which is the last in turn now
    taken = [e.message for e in await box.take_all()]
    assert [first.message, *taken] == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert (len(box), box.next(), box.take_next()) == (0, None, None)


async def test_what_is_told_goes_along_with_what_is_asked_or_by_itself_after_a_moment() -> None:
    box = queues()
    box.put("a1")
    reading = asyncio.ensure_future(box.take_all())
    await asyncio.sleep(0)
    assert not reading.done()
    assert [e.message for e in await reading] == ["a1"]
    reading = asyncio.ensure_future(box.take_all())
    box.put("a2")
    box.put("b1", reply())
    assert [e.message for e in await reading] == ["a2", "b1"]


async def test_reader_that_left_some_is_woken_at_once() -> None:
    box = queues()
    box.put("a1", reply())
    box.put("a2")
    await box.ready()
    assert box.take_next() is not None
    await box.ready()
    assert box.take_next() is not None
    waiting = asyncio.ensure_future(box.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_nothing_is_handled_in_the_senders_turn() -> None:
    box = queues()
    assert not box.is_free
    box.put("a1", reply())
    await box.take_all()
    assert not box.is_free


async def test_full_mailbox_refuses_askers_but_takes_what_is_owed() -> None:
    box = queues(capacity=2)
    box.put("a1")
    box.put("b1", reply())
    with pytest.raises(MailboxFull):
        box.put("c1", reply())
    box.put("c1")
    assert len(box) == 3


async def test_closed_mailbox_answers_those_who_wait_and_takes_no_more() -> None:
    box = queues()
    asked = reply()
    box.put("a1", asked)
    box.put("b1")
    box.close()
    assert isinstance(asked.exception(), ActorStopped)
    assert len(box) == 0
    with pytest.raises(ActorStopped):
        box.put("c1")
