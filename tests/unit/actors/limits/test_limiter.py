"""The limiter by any name: windows without anything to give back, names that do not meet."""

from __future__ import annotations

from actors.limits.accounts import Limiter
from tests.support.clock import FakeClock


async def test_taken_request_counts_for_a_minute_and_is_not_in_flight() -> None:
    clock = FakeClock()
    limiter = Limiter(clock=clock)
    first = await limiter.take("logs:key_1", 2)
    assert (first.refused, first.requests, first.reset_whole_seconds) == (None, 1, 60)
    clock.advance(15.5)
    assert (await limiter.take("logs:key_1", 2)).requests == 2
    refused = await limiter.take("logs:key_1", 2)
    assert (refused.refused, refused.requests) == ("rpm", 2)
    assert (refused.reset_whole_seconds, refused.retry_after_seconds) == (45, 45)
    assert limiter.in_flight("logs:key_1") == 0
    assert (await limiter.take("logs:key_2", 2)).refused is None
    clock.advance(44.5)
    assert (await limiter.take("logs:key_1", 2)).requests == 2


async def test_window_of_one_name_is_not_that_of_another_use() -> None:
    limiter = Limiter(clock=FakeClock())
    await limiter.take("logs:key_1", 1)
    standing, place = await limiter.enter("key_1", rpm=1, concurrency=1)
    assert standing.refused is None
    limiter.leave("key_1", place)
