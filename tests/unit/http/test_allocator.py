"""Memory goes back to the system in quiet times, and never while anybody waits."""

import asyncio

import pytest

from gw.http import admin
from gw.http import connection as state
from gw.http.application import RequestsInFlight
from gw.runtime import QUIET_SECONDS, QUIET_TIMES, IdleTrimmer

pytestmark = pytest.mark.long


class Request:
    """One that is in flight, or has been."""

    def cut(self) -> None:
        raise AssertionError("nothing is drained here")


class Looks:
    """A clock on which each sleep ends with the next of some events, and then never again."""

    def __init__(self, *events: str) -> None:
        self.in_flight = RequestsInFlight()
        self.given_back: list[int] = []  # after how many of the events
        self._events = events
        self._count = 0
        self._request = Request()

    async def sleep(self, seconds: float) -> None:
        if self._count == len(self._events):
            raise asyncio.CancelledError
        event = self._events[self._count]
        self._count += 1
        if event in ("enters", "passes"):
            self.in_flight.enter(self._request)
        if event in ("leaves", "passes"):
            self.in_flight.leave(self._request)

    def run(self) -> list[int]:
        quiet = IdleTrimmer(
            self.in_flight, self, give_back=lambda: self.given_back.append(self._count)
        )
        try:
            asyncio.run(quiet.run())
        except asyncio.CancelledError:
            return self.given_back
        raise AssertionError("it ends by being cancelled only")


def test_memory_goes_back_once_in_a_short_quiet_time() -> None:
    assert Looks("passes", "", "", "", "passes", "passes", "", "").run() == [2, 7]


def test_memory_goes_back_once_more_when_kept_connections_are_gone() -> None:
    assert Looks("passes", *[""] * 20).run() == [2, 7]
    idle_seconds = max(state.IDLE_SECONDS, admin.IDLE_SECONDS)
    assert QUIET_TIMES[-1] * QUIET_SECONDS > idle_seconds


def test_memory_is_not_touched_while_a_request_is_in_flight() -> None:
    assert Looks("enters", "", "", "leaves", "").run() == [4]


def test_process_that_was_asked_nothing_keeps_what_it_has() -> None:
    assert Looks("", "", "").run() == []
