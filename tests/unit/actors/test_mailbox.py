"""The mailbox: its order, its bound, and askers who are always answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.actor import ActorStopped, Envelope, Mailbox, MailboxFull
from tests.support.clock import FakeClock


def reply() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_everything_that_waits_is_taken_oldest_first() -> None:
    clock = FakeClock()
    box: Mailbox[str] = Mailbox(clock)
    box.put("first")
    clock.advance(2.0)
    box.put("second")
    taken = await box.take_all()
    assert [(e.message, clock.monotonic() - e.put_at) for e in taken] == [
        ("first", 2.0),
        ("second", 0.0),
    ]
    assert len(box) == 0


async def test_waiting_reader_wakes_for_the_first_message_and_takes_all_of_that_turn() -> None:
    box: Mailbox[int] = Mailbox(FakeClock())
    reading = asyncio.ensure_future(box.take_all())
    await asyncio.sleep(0)
    box.put(1)
    box.put(2)
    assert [e.message for e in await reading] == [1, 2]


async def test_cancelled_reader_takes_nothing_with_it() -> None:
    box: Mailbox[int] = Mailbox(FakeClock())
    reading = asyncio.ensure_future(box.take_all())
    await asyncio.sleep(0)
    box.put(1)
    reading.cancel()
    await asyncio.wait([reading])
    box.put(2)
    assert [e.message for e in await box.take_all()] == [1, 2]


async def test_full_mailbox_refuses_askers_but_takes_what_is_owed() -> None:
    box: Mailbox[str] = Mailbox(FakeClock(), capacity=2)
    box.put("ask", reply())
    box.put("ask", reply())
    with pytest.raises(MailboxFull):
        box.put("ask", reply())
    box.put("a lease comes back")
    assert [e.message for e in await box.take_all()] == ["ask", "ask", "a lease comes back"]
    box.put("ask", reply())  # there is room again


async def test_closed_mailbox_answers_those_who_wait_and_takes_no_more() -> None:
    box: Mailbox[str] = Mailbox(FakeClock())
    first, second = reply(), reply()
    box.put("a", first)
    box.put("told")
    box.put("b", second)
    second.cancel()
    box.close()
    assert isinstance(first.exception(), ActorStopped)
    assert len(box) == 0
    with pytest.raises(ActorStopped):
        box.put("c", reply())
    with pytest.raises(ActorStopped):
        box.put("c")


async def test_answer_reaches_the_asker_once() -> None:
    asked = reply()
    envelope = Envelope("m", 0.0, asked)
    assert envelope.resolve(7)
    assert not envelope.resolve(8)
    assert not envelope.fail(ValueError())
    assert await asked == 7


async def test_asker_who_has_gone_is_given_nothing() -> None:
    asked = reply()
    envelope = Envelope("m", 0.0, asked)
    asked.cancel()
    assert not envelope.resolve(7)
    assert not envelope.fail(ValueError())


def test_told_message_has_nobody_to_answer() -> None:
    envelope = Envelope("m", 0.0, None)
    assert not envelope.resolve(7)
    assert not envelope.fail(ValueError())
