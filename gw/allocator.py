"""Keeps the memory of request bodies at hand within a bound, and gives it back in quiet times.

A body of a megabyte passes through several buffers of its size. Left alone, glibc takes each from
the system and returns it: the system clears its pages every time, which costs as much as reading
what is in them. What is freed between pages that are still used stays with the process in any case,
until it is asked for. Other C libraries are left as they are.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

# Of <malloc.h>.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

# So much free memory at the end of the heap is kept.
KEPT_BYTES = 8 * 1024 * 1024
# A buffer of this size or more is taken from the system for itself, and returned at once.
LARGE_BYTES = 4 * 1024 * 1024
# Giving back takes some milliseconds, in which no call is to wait: not before so long a silence.
QUIET_SECONDS = 15.0
# After so many of them memory is given back: at first, and once every connection that was kept has
# expired, those of clients last (75 s).
QUIET_TIMES = (1, 6)


def keep_buffers() -> bool:
    """For the whole process; before the first request. False where the C library has no say."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(
        set_option(option, size) == 1
        for option, size in ((_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    )


def give_back() -> None:
    """Free what refers to itself, and return every free page to the system, where that can be.

    The collector also empties the interpreter's free lists, of which every small object keeps a
    page from being free.
    """
    gc.collect()
    with suppress(AttributeError, OSError):  # another C library has its own way
        ctypes.CDLL(None).malloc_trim(0)


class Requests(Protocol):
    """Those in flight, and how many there have been."""

    @property
    def entered(self) -> int: ...

    def __len__(self) -> int: ...


class Sleeper(Protocol):
    """The one thing it needs of a clock."""

    async def sleep(self, seconds: float) -> None: ...


class IdleTrimmer:
    """Gives memory back once nothing has been asked for a while, and once more after longer."""

    def __init__(
        self, requests: Requests, clock: Sleeper, *, give_back: Callable[[], None] = give_back
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._give_back = give_back

    def __repr__(self) -> str:
        return f"<IdleTrimmer of {self._requests!r}>"

    async def run(self) -> None:
        """Look until cancelled."""
        seen = 0  # of the requests that have entered
        quiet = 0  # looks in a row that found nothing new and no call waiting
        while True:
            await self._clock.sleep(QUIET_SECONDS)
            entered = self._requests.entered
            quiet = quiet + 1 if entered == seen and len(self._requests) == 0 else 0
            seen = entered
            if entered and quiet in QUIET_TIMES:
                self._give_back()
