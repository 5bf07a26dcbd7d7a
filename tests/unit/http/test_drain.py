"""Requests in flight, and the wait for their end."""

from __future__ import annotations

import asyncio

from gw.http.application import CUT_SECONDS, RequestsInFlight
from tests.support.aio import eventually, run
from tests.support.clock import FakeClock


class Request:
    """Ends when it is cut, or not even then."""

    def __init__(self, in_flight: RequestsInFlight, *, is_stubborn: bool = False) -> None:
        self.in_flight = in_flight
        self.is_stubborn = is_stubborn
        self.is_cut = False
        in_flight.enter(self)

    def cut(self) -> None:
        self.is_cut = True
        if not self.is_stubborn:
            self.in_flight.leave(self)


def test_an_idle_process_is_drained_at_once() -> None:
    in_flight = RequestsInFlight()
    assert run(in_flight.drain(seconds=30, clock=FakeClock())) == 0
    assert in_flight.is_draining


async def test_a_drain_ends_with_the_last_request() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    first, second = Request(in_flight), Request(in_flight)
    draining = asyncio.create_task(in_flight.drain(seconds=30, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    assert repr(in_flight) == "<RequestsInFlight 2 requests draining>"
    in_flight.leave(first)
    in_flight.leave(first)
    clock.advance(29)
    await asyncio.sleep(0)
    assert not draining.done()
    in_flight.leave(second)
    assert await draining == 0
    assert not any(request.is_cut for request in (first, second))
    assert clock.sleepers == 0


async def test_what_outlasts_the_drain_is_cut_and_counted() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    late = [Request(in_flight), Request(in_flight)]
    draining = asyncio.create_task(in_flight.drain(seconds=30, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    clock.advance(30)
    assert await draining == 2
    assert all(request.is_cut for request in late)
    assert len(in_flight) == 0


async def test_what_does_not_even_end_when_cut_is_not_waited_for_for_ever() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    Request(in_flight, is_stubborn=True)
    draining = asyncio.create_task(in_flight.drain(seconds=0, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    clock.advance(0)
    await eventually(lambda: clock.sleepers == 1 and not draining.done())
    clock.advance(CUT_SECONDS)
    assert await draining == 1


async def test_request_that_slips_in_behind_the_last_one_is_waited_for_and_not_cut() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    first = Request(in_flight)
    draining = asyncio.create_task(in_flight.drain(seconds=30, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    in_flight.leave(first)
    second = Request(in_flight)  # before whoever waits has had a look
    for _ in range(10):
        await asyncio.sleep(0)
    assert not draining.done()
    in_flight.leave(second)
    assert await draining == 0
    assert not second.is_cut
