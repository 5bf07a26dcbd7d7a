"""What wakes the deliverer of a process: the database's pushes, and its own attempts."""

from __future__ import annotations

import asyncio


class Nudges:
    """Whether something has changed since it was last looked at."""

    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._is_changed = self._is_written = True

    def changed(self) -> None:
        """Note that webhooks were made, changed or deleted, or may have been."""
        self._is_changed = True
        self._wake.set()

    def written(self) -> None:
        """Note that events were written, or may have been."""
        self._is_written = True
        self._wake.set()

    def wake(self) -> None:
        """Begin the next round early."""
        self._wake.set()

    def take_changed(self) -> bool:
        """Return whether webhooks may have changed since this was asked."""
        was, self._is_changed = self._is_changed, False
        return was

    def take_written(self) -> bool:
        """Return whether events may have been written since this was asked."""
        was, self._is_written = self._is_written, False
        return was

    async def wait(self, seconds: float) -> None:
        """Wait until something is noted, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
