"""Moves the heap to huge pages, on Linux 6.1 and newer.

With thousands of accounts a call reads objects on more pages than the processor keeps the
addresses of, and each lookup of one costs as much as some ten lines of Python. A huge page holds
what 512 do. The interpreter maps its memory in pieces that are too small for one, and neighbours
become one mapping later: the kernel moves them when it is asked to.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import thread_time

from actors.clock import Clock

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

    def __init__(self, clock: Clock, huge_bytes: int) -> None:
        self._clock = clock
        self._huge_bytes = huge_bytes

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
