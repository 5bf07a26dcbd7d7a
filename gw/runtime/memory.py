"""The memory of a process: kept for its next requests, and returned when it is idle.

A body of a megabyte is copied through several buffers of its size. By default, glibc maps and
unmaps each: the kernel clears its pages every time, which costs as much as reading them. Memory
freed between used pages stays with the process anyway, until it is trimmed. Other C libraries are
left as they are.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from actors.clock import Clock

# Of <malloc.h>.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

# Free memory kept at the end of the heap.
KEPT_BYTES = 8 * 1024 * 1024
# A buffer of at least this size is mapped separately, and unmapped at once.
LARGE_BYTES = 4 * 1024 * 1024
# Trimming takes some milliseconds, which should delay no call: only after this long without any.
QUIET_SECONDS = 15.0
# The numbers of such intervals after which memory is trimmed: the first, and the one by which every
# idle connection has expired, those of clients last (75 s).
QUIET_TIMES = (1, 6)


def keep_buffers() -> bool:
    """Configure the allocator of the whole process, before the first request.

    Returns False if the C library has no such setting.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(
        set_option(option, size) == 1
        for option, size in ((_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    )


def give_back() -> None:
    """Collect cycles, and return every free page to the system, if possible.

    The collector also empties the interpreter's free lists, whose small objects keep pages in use.
    """
    gc.collect()
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


class Requests(Protocol):
    """The requests in flight, and the number of all so far."""

    @property
    def entered(self) -> int: ...

    def __len__(self) -> int: ...


class IdleTrimmer:
    """Returns memory to the system after an idle time, and again after a longer one."""

    def __init__(
        self, requests: Requests, clock: Clock, *, give_back: Callable[[], None] = give_back
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._give_back = give_back

    async def run(self) -> None:
        """Check until cancelled."""
        seen = 0  # requests counted so far
        quiet = 0  # consecutive checks without new requests or calls in flight
        while True:
            await self._clock.sleep(QUIET_SECONDS)
            entered = self._requests.entered
            quiet = quiet + 1 if entered == seen and len(self._requests) == 0 else 0
            seen = entered
            if entered and quiet in QUIET_TIMES:
                self._give_back()


# Walked in less than a millisecond.
NEW_OBJECTS_MAX = 5_000
LOOKS_AT_NEW = 4_000  # per collection of the middle generation
LOOKS_AT_OLD = 50  # per collection of the old one


def freeze() -> None:
    """Freeze all objects created at the start; tune the collector of cycles for the others.

    Calls make no cycles (those of errors are broken: `gw/http/handled_errors.py`), so their objects
    are freed by reference counts. The collector nevertheless
    walks all objects created since its last run, and an open stream has some 130. A small first
    generation is walked while it is still in the processor's cache. The old generation holds all
    surviving objects, and with ten thousand open streams its collection stops the process for a
    third of a second: it is collected in idle times, and otherwise only after a net growth by some
    twenty million objects. Frozen objects are never walked again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, LOOKS_AT_NEW, LOOKS_AT_OLD)
