"""The memory of a process: the allocator, the collector of cycles, idle times, huge pages."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import Protocol

# Reuses the memory of request bodies within a bound, and returns it when the process is idle.
#
# A body of a megabyte is copied through several buffers of its size. By default, glibc maps and
# unmaps each: the kernel clears its pages every time, which costs as much as reading them. Memory
# freed between used pages stays with the process anyway, until it is trimmed. Other C libraries are
# left as they are.

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


class Sleeper(Protocol):
    """The part of the clock that is used here."""

    async def sleep(self, seconds: float) -> None: ...


class IdleTrimmer:
    """Returns memory to the system after an idle time, and again after a longer one."""

    def __init__(
        self, requests: Requests, clock: Sleeper, *, give_back: Callable[[], None] = give_back
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._give_back = give_back

    def __repr__(self) -> str:
        return f"<IdleTrimmer of {self._requests!r}>"

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


# Tunes Python's collector of cycles: frequent collections of new objects, rare ones of old objects.
#
# Calls make no cycles, so their objects are freed by reference counts. The collector nevertheless
# walks all objects created since its last run, and an open stream has some 130. A small first
# generation is walked while it is still in the processor's cache. The old generation holds all
# surviving objects, and with ten thousand open streams its collection stops the process for a third
# of a second: it is collected in idle times, and otherwise only after a net growth by some twenty
# million objects.

NEW_OBJECTS_MAX = 20_000
LOOKS_AT_NEW = 1_000  # per collection of the middle generation
LOOKS_AT_OLD = 50  # per collection of the old one


def freeze() -> None:
    """Freeze all objects created at the start: they are never walked again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, LOOKS_AT_NEW, LOOKS_AT_OLD)


# Moves the heap to huge pages, on Linux 6.1 and newer.
#
# With thousands of accounts a call reads objects on more pages than the processor keeps the
# addresses of, and each lookup of one costs as much as some ten lines of Python. A huge page holds
# what 512 do. The interpreter maps its memory in pieces that are too small for one, and neighbours
# become one mapping later: the kernel moves them when it is asked to.

_MADV_COLLAPSE = 25  # of <linux/mman.h>
HUGE_PAGE_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
PAGE_MAP = Path("/proc/self/pagemap")
LOOK_SECONDS = 5.0
# A move takes half a millisecond, or several where the host has to find the memory: one at a time.
PAUSE_SECONDS = 0.05
MOVE_SECONDS_MIN = 0.000_1
# A move also takes memory for pages of the region that are not in use: at most an eighth.
SHARE_IN_USE_MIN = 7 / 8
# Of an entry in the page map, the last byte of a page that is not in memory.
_ABSENT = bytes(range(0x80))


def huge_page_bytes() -> int | None:
    """Return the size of a huge page; None without them, or without access to the page map."""
    try:
        with PAGE_MAP.open("rb"):
            return int(HUGE_PAGE_SIZE.read_text(encoding="ascii"))
    except OSError:
        return None


def regions(maps: str, huge_bytes: int) -> Iterator[int]:
    """Yield the addresses of regions of the heap that would fill a huge page.

    `maps` is the text of `/proc/self/maps`.
    """
    for line in maps.splitlines():
        span, mode, _, _, file, *name = line.split(maxsplit=5)
        if mode == "rw-p" and file == "0" and (not name or name[0].startswith(("[heap", "[anon"))):
            start, end = (int(address, 16) for address in span.split("-"))
            yield from range(-(-start // huge_bytes) * huge_bytes, end - huge_bytes + 1, huge_bytes)


def moves(huge_bytes: int) -> Iterator[tuple[int, float]]:
    """Move the regions in use, and yield the address of each and the CPU seconds that it took.

    The wait for the interpreter's lock, which is long under load, does not count. A region on a
    huge page takes some microseconds. One that was unmapped meanwhile, or that the kernel has no
    huge page for, stays as it is.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    pages = huge_bytes // mmap.PAGESIZE
    with PAGE_MAP.open("rb") as page_map:
        for address in regions(Path("/proc/self/maps").read_text(encoding="utf-8"), huge_bytes):
            entries = os.pread(page_map.fileno(), pages * 8, address // mmap.PAGESIZE * 8)
            if len(entries[7::8].translate(None, _ABSENT)) < pages * SHARE_IN_USE_MIN:
                continue
            began = thread_time()
            if madvise(address, huge_bytes, _MADV_COLLAPSE) == 0:
                yield address, thread_time() - began


class HugePages:
    """Moves what the heap has grown by: a region at a time, in a thread."""

    def __init__(self, clock: Sleeper, huge_bytes: int) -> None:
        self._clock = clock
        self._huge_bytes = huge_bytes

    def __repr__(self) -> str:
        return f"<HugePages of {self._huge_bytes} bytes>"

    async def run(self) -> None:
        """Move until cancelled."""
        while True:
            with suppress(OSError):  # too many open files: the rest is moved another time
                left = moves(self._huge_bytes)
                while await asyncio.to_thread(_move_next, left):
                    await self._clock.sleep(PAUSE_SECONDS)
            await self._clock.sleep(LOOK_SECONDS)


def _move_next(left: Iterator[tuple[int, float]]) -> bool:
    """Return False when no region is left that takes time."""
    return any(seconds >= MOVE_SECONDS_MIN for _, seconds in left)
