"""Memory goes back to the system in quiet times, and lies on huge pages where it is in use."""

import asyncio
import ctypes
import mmap
import os

from gw.http import admin, connection
from gw.http.drain import RequestsInFlight
from gw.runtime import huge_pages, memory
from tests.support.clock import FakeClock


class Request:
    """One that is in flight, or has been."""

    def cut(self) -> None:
        raise AssertionError("nothing is drained here")


class Looks(FakeClock):
    """A clock on which each sleep ends with the next of some events, and then never again."""

    def __init__(self, *events: str) -> None:
        super().__init__()
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
        quiet = memory.IdleTrimmer(
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
    idle_seconds = max(connection.IDLE_SECONDS, admin.IDLE_SECONDS)
    assert memory.QUIET_TIMES[-1] * memory.QUIET_SECONDS > idle_seconds


def test_memory_is_not_touched_while_a_request_is_in_flight() -> None:
    assert Looks("enters", "", "", "leaves", "").run() == [4]


def test_process_without_requests_keeps_what_it_has() -> None:
    assert Looks("", "", "").run() == []


HUGE = 0x200000
MAPS = """\
400000-c00000 r-xp 00000000 fe:00 26723 /usr/bin/python
1100000-17fffff rw-p 00000000 00:00 0 [heap]
2000000-2400000 rw-p 00000000 00:00 0
3000000-3400000 rw-p 00000000 fe:00 26723 /var/lib/a file
4000000-4400000 rw-s 00000000 00:01 7 /dev/zero (deleted)
5000000-5400000 rw-p 00000000 00:00 0 [stack]
6000000-6200000 ---p 00000000 00:00 0
"""


def test_whole_regions_of_private_memory_are_eligible_for_huge_pages() -> None:
    assert list(huge_pages.regions(MAPS, HUGE)) == [0x1200000, 0x1400000, 0x2000000, 0x2200000]


def test_used_region_is_moved_with_its_content_and_a_sparse_one_is_left() -> None:
    huge = huge_pages.huge_page_bytes()
    assert huge
    with mmap.mmap(-1, 3 * huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        used = -(-start // huge) * huge
        content = os.urandom(huge + huge // 2)
        mapped[used - start : used - start + len(content)] = content
        moved = [address for address, _ in huge_pages.moves(huge)]
        assert mapped[used - start : used - start + len(content)] == content
    assert used + huge not in moved
    has_support = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 1)
    assert (used in moved) == has_support
