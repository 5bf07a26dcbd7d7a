"""How many bytes a second the copies take."""

from __future__ import annotations

import asyncio

from actors.media_store.copier import Throttle
from tests.support.clock import FakeClock


async def test_bytes_beyond_the_rate_wait_and_a_pause_is_not_made_up_for() -> None:
    clock = FakeClock()
    throttle = Throttle(100, clock)
    await throttle.take(100)  # a second ahead is free
    waits = asyncio.create_task(throttle.take(250))
    await asyncio.sleep(0)
    assert clock.sleepers == 1
    clock.advance(2.4)
    await asyncio.sleep(0)
    assert not waits.done()
    clock.advance(0.2)
    await waits
    clock.advance(1000)
    await throttle.take(100)
    later = asyncio.create_task(throttle.take(100))
    await asyncio.sleep(0)
    assert not later.done()
    clock.advance(1.1)
    await later


async def test_no_rate_lets_all_through() -> None:
    clock = FakeClock()
    await Throttle(0, clock).take(10**12)
    assert clock.sleepers == 0
