"""The time, as an argument: real code gets `SystemClock`, tests get one they can move.

Wall time stamps what is stored; monotonic time measures what passes. Nothing else in the
project asks the operating system for either.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of the project may know of time."""

    def now(self) -> float:
        """Wall time in Unix seconds."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; the zero means nothing."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class SystemClock:
    """The operating system's time."""

    # As they are: a call asks for the time twenty times.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
