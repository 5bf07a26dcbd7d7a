"""What is over after a while: each in its time, by one timer."""

from __future__ import annotations

import asyncio

import pytest

from channels.resources import Deadlines, FutureTimeouts
from tests.support.aio import eventually, jump


class TooLate(Exception):
    pass


async def test_each_is_given_up_on_in_its_time_unless_it_was_answered() -> None:
    loop = asyncio.get_running_loop()
    patience = FutureTimeouts(100.0, TooLate)
    answered, first, second = (loop.create_future() for _ in range(3))
    patience.begin(answered)
    patience.begin(first)
    answered.set_result(1)
    jump(60.0)
    patience.begin(second)
    jump(50.0)
    with pytest.raises(TooLate):
        await first
    assert (answered.result(), second.done()) == (1, False)
    jump(60.0)
    with pytest.raises(TooLate):
        await second
    assert repr(patience) == "<FutureTimeouts 100.0 s 0 open>"


async def test_what_has_ended_does_not_expire() -> None:
    expired: list[str] = []
    deadlines: Deadlines[str] = Deadlines(10.0, expired.append)
    begun = {name: deadlines.begin(name) for name in ("a", "b", "c")}
    assert list(begun.values()) == sorted(begun.values())
    deadlines.end("a")
    jump(5.0)
    deadlines.begin("d")
    jump(6.0)
    await eventually(lambda: bool(expired))
    assert expired == ["b", "c"]
    deadlines.end("b")
    deadlines.end("d")
    jump(6.0)
    deadlines.begin("e")
    jump(11.0)
    await eventually(lambda: len(expired) > 2)
    assert (expired, repr(deadlines)) == (["b", "c", "e"], "<Deadlines 10.0 s 0 open>")


async def test_one_that_ends_another_in_time_spares_it() -> None:
    expired: list[str] = []

    def expire(name: str) -> None:
        expired.append(name)
        deadlines.end("second")

    deadlines: Deadlines[str] = Deadlines(10.0, expire)
    deadlines.begin("first")
    deadlines.begin("second")
    jump(11.0)
    await eventually(lambda: bool(expired))
    assert expired == ["first"]


async def test_the_latest_is_ended_first_and_after_closing_nothing_expires() -> None:
    expired: list[str] = []
    deadlines: Deadlines[str] = Deadlines(10.0, expired.append)
    for name in ("a", "b", "c"):
        deadlines.begin(name)
    assert [deadlines.end_latest(), len(deadlines)] == ["c", 2]
    deadlines.close()
    jump(11.0)
    deadlines.begin("d")
    assert [deadlines.end_latest(), deadlines.end_latest(), expired] == ["d", None, []]
