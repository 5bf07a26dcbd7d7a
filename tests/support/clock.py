"""A clock that moves when a test says so; sleepers wake in the order of their time."""

import asyncio
import heapq
import itertools


class FakeClock:
    """Wall and monotonic time under the test's control."""

    def __init__(self, now: float = 1_790_000_000.0) -> None:
        self._offset = now
        self._elapsed = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._offset + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    def advance(self, seconds: float) -> None:
        """Move time on; whoever sleeps until then wakes in the next turn of the loop."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    @property
    def sleepers(self) -> int:
        """How many wait for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)
