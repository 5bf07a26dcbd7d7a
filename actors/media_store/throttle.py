"""The limit of bytes per second of all copies of a process together."""

from __future__ import annotations

from actors.clock import Clock


class Throttle:
    """Limits bytes to a rate; 0 is unlimited. A caller that took too many waits."""

    def __init__(self, bytes_per_second: float, clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._free_at = clock.monotonic()

    async def take(self, count: int) -> None:
        """Wait until these bytes are within the rate."""
        if not self._rate:
            return
        now = self._clock.monotonic()
        self._free_at = max(now, self._free_at) + count / self._rate
        # A second's worth may be ahead, so that small pieces do not sleep one by one.
        ahead = self._free_at - now - 1.0
        if ahead > 0:
            await self._clock.sleep(ahead)
