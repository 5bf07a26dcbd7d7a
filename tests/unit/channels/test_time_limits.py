"""The time of calls: one timer, the oldest first, and whose cancellation it was."""

from __future__ import annotations

import asyncio

import pytest

from channels.resources import TimeLimit, TimeLimits
from tests.support.aio import jump


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


async def test_cancellation_by_somebody_else_stays_one() -> None:
    limits = TimeLimits(60.0)
    limit = limits.begin()

    async def work() -> None:
        with limit:
            await _forever()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    limit.end()


async def test_cancelled_by_both_it_is_a_cancellation() -> None:
    limit = TimeLimits(60.0).begin()

    async def work() -> None:
        with limit:
            await _forever()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    limit.expire()
    with pytest.raises(asyncio.CancelledError):
        await task
    limit.end()


async def test_a_fault_within_it_is_told_as_it_is() -> None:
    limit = TimeLimits(60.0).begin()
    with pytest.raises(ValueError, match="mine"), limit:
        raise ValueError("mine")
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
