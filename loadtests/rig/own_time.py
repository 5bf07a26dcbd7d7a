"""Time as it passes for processes that have to share their CPU with others.

A limit in wall-clock seconds condemns what is merely slow beside other work. Linux counts for each
thread how long it ran and how long it could have run and others did: only the share of the time
that a process was given counts against its limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.1
SAMPLE_SECONDS = 0.5
# What idles beside other work is given hardly any of the CPU that it hardly wants: a limit is at
# most so many times as long in wall-clock seconds.
STRETCH_MAX = 5.0
# Threads that together wanted less of a second than this wait for something else than a CPU.
WANTED_RATIO = 0.05


class OwnTime:
    """The time of the processes that `pids` returns, from now on."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        *,
        clock: Callable[[], float] = time.monotonic,
        scheduled: Callable[[int], dict[Path, tuple[int, int]]] | None = None,
    ) -> None:
        self._pids = pids
        self._clock = clock
        self._scheduled = scheduled or scheduled_of
        self._began = self._at = clock()
        self._own = 0.0
        self._known: dict[Path, tuple[int, int]] = self._look()

    def __repr__(self) -> str:
        return f"<OwnTime {self._own:.1f} of {self._at - self._began:.1f} s>"

    def seconds(self) -> float:
        """How much of it has passed."""
        now = self._clock()
        passed = now - self._at
        if passed >= SAMPLE_SECONDS:
            known = self._look()
            ran = waited = 0
            for thread, figures in known.items():
                before = self._known.get(thread, (0, 0))
                ran += figures[0] - before[0]
                waited += figures[1] - before[1]
            wanted = ran + waited
            share = ran / wanted if wanted > WANTED_RATIO * passed * 1e9 else 1.0
            self._own += passed * max(share, 1 / STRETCH_MAX)
            self._at, self._known = now, known
        return self._own

    async def until(
        self,
        condition: Callable[[], Awaitable[bool]],
        seconds: float,
        *,
        pause: float = POLL_SECONDS,
    ) -> bool:
        """Wait until something is true; whether it came true within so much of it."""
        deadline = self.seconds() + seconds
        while not await condition():
            if self.seconds() > deadline:
                return False
            await asyncio.sleep(pause)
        return True

    def _look(self) -> dict[Path, tuple[int, int]]:
        return {
            thread: figures
            for pid in self._pids()
            for thread, figures in self._scheduled(pid).items()
        }


def scheduled_of(pid: int) -> dict[Path, tuple[int, int]]:
    """How long each thread of a process ran, and waited for a CPU, in nanoseconds.

    Empty for one that has ended, and where the kernel does not count it.
    """
    found = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                ran, waited, *_ = map(int, (thread / "schedstat").read_text().split())
                found[thread] = (ran, waited)
    return found
