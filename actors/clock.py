"""The time, as an argument: real code gets `SystemClock`, tests get one that they can move.

Wall time stamps stored values; monotonic time measures durations. Nothing else in the project reads
either from the operating system.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The interface to time for the rest of the project."""

    def now(self) -> float:
        """Wall time in Unix seconds."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; the zero is arbitrary."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class SystemClock:
    """The operating system's time."""

    # Called directly: a call reads the time twenty times.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
