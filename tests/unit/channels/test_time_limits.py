"""What may take how long: deadlines, limits, waves of calls."""

import asyncio

import pytest

from channels.deadlines import Deadlines, FutureTimeouts, TimeLimit, TimeLimits
from tests.support.aio import eventually, jump
from tests.support.rows import cases


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_time_that_is_over_begins_nothing_and_ends_what_waits_within_it() -> None:
    limits = TimeLimits(10.0)
    limit = limits.begin()
    jump(11.0)
    with pytest.raises(TimeoutError), limit:
        raise AssertionError("it was begun")
    limit = limits.begin()
    asyncio.get_running_loop().call_soon(jump, 11.0)
    with pytest.raises(TimeoutError), limit:
        await _forever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert "0 open" in repr(limits)


async def test_what_ends_in_time_is_left_alone() -> None:
    limits = TimeLimits(60.0)
    limit = limits.begin()
    with limit:
        await asyncio.sleep(0)
    with limit:  # the next try of the same call
        await asyncio.sleep(0)
    limit.end()
    limit.end()
    assert "0 open" in repr(limits)


@cases("expires", False, True)
async def test_cancellation_by_somebody_else_stays_one_though_time_is_over_too(
    expires: bool,
) -> None:
    limit = TimeLimits(60.0).begin()

    async def work() -> None:
        with limit:
            await _forever()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    if expires:
        limit.expire()
    with pytest.raises(asyncio.CancelledError):
        await task
    limit.end()


async def test_time_that_is_over_for_two_reasons_at_once_is_over() -> None:
    limit, loop = TimeLimits(60.0).begin(), asyncio.get_running_loop()
    loop.call_soon(limit.expire)
    loop.call_soon(limit.expire)
    with pytest.raises(TimeoutError), limit:
        await _forever()
    limit.end()


async def test_each_call_has_its_own_time_on_the_one_timer() -> None:
    limits = TimeLimits(10.0)
    ended: list[str] = []

    async def work(name: str, limit: TimeLimit) -> None:
        try:
            with limit:
                await _forever()
        except TimeoutError:
            ended.append(name)
        finally:
            limit.end()

    def begin(name: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(work(name, limits.begin()))

    first = begin("first")
    await asyncio.sleep(0)
    jump(6.0)
    second = begin("second")
    await asyncio.sleep(0)
    jump(6.0)
    await first
    assert ended == ["first"]
    jump(6.0)
    await second
    third = begin("third")  # after the timer has rung for the last time
    await asyncio.sleep(0)
    jump(11.0)
    await third
    assert ended == ["first", "second", "third"]


class TooLate(Exception):
    pass


async def test_each_is_given_up_on_in_its_time_unless_it_was_answered() -> None:
    loop = asyncio.get_running_loop()
    patience = FutureTimeouts(100.0, TooLate)
    served, first, second = (loop.create_future() for _ in range(3))
    patience.begin(served)
    patience.begin(first)
    served.set_result(1)
    jump(60.0)
    patience.begin(second)
    jump(50.0)
    with pytest.raises(TooLate):
        await first
    assert (served.result(), second.done()) == (1, False)
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
