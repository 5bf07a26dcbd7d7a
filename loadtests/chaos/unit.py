"""A process that is started again when it dies, as systemd does with a unit's main process.

What it leaves behind is left alone: worker processes whose parent was killed find out themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from loadtests.rig.own_time import OwnTime
from loadtests.rig.process import LINES_KEPT, Process

# RestartSec of `ops/systemd/model-gateway.service`.
RESTART_SECONDS = 2.0
# Of its own time: a start takes four seconds of CPU.
READY_SECONDS = 60.0
STOP_SECONDS = 60.0


class NotReady(Exception):
    """A process ended, or waited too long, before it served."""


class Unit:
    """What `start` starts, kept running."""

    def __init__(
        self,
        start: Callable[[], Process],
        *,
        why_not_ready: Callable[[], Awaitable[str]],
        own_time: OwnTime,
    ) -> None:
        """`why_not_ready`: what it says of itself; empty when it serves."""
        self._start = start
        self._why_not_ready = why_not_ready
        self._own_time = own_time
        self.restart_seconds = RESTART_SECONDS
        self._ended: list[Process] = []
        self._past: deque[str] = deque(maxlen=LINES_KEPT)
        self._keeper: asyncio.Task[None]
        self.process: Process

    @property
    def lines(self) -> list[str]:
        """What its processes have logged."""
        return [*self._past, *(line for one in self._all for line in one.lines)]

    @property
    def _all(self) -> list[Process]:
        return [*self._ended, self.process]

    def follow(self, earlier: Unit) -> None:
        """Have the lines of one whose place it took before its own."""
        self._past.extendleft(reversed(earlier.lines))

    async def start(self) -> None:
        """Start it, and keep it running from then on. Raises NotReady."""
        self.process = self._start()
        await self.ready()
        self._keeper = asyncio.create_task(self._keep())

    async def ready(self) -> None:
        """Wait until it serves. Raises NotReady."""
        why, began_at = "", time.monotonic()

        async def is_ready() -> bool:
            nonlocal why
            why = await self._why_not_ready()
            return not why

        if not await self._own_time.until(is_ready, READY_SECONDS):
            waited = f"after {time.monotonic() - began_at:.0f} s ({self._own_time!r})"
            raise NotReady(f"{self.process} does not serve {waited}: {why}\n{self.process.log()}")

    async def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        popen = self.process.popen
        popen.terminate()

        async def has_ended() -> bool:
            return popen.poll() is not None

        try:
            has_stopped = await self._own_time.until(has_ended, STOP_SECONDS)
            return popen.wait() if has_stopped else -1
        finally:
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Make sure that it is gone, with what it has started."""
        if self.process.popen.poll() is None:
            self.process.kill_all()
        for one in self._all:
            one.close()

    async def _keep(self) -> None:
        while True:
            await asyncio.to_thread(self.process.popen.wait)
            await asyncio.sleep(self.restart_seconds)
            self._ended.append(self.process)
            self._let_go()
            self.process = self._start()

    def _let_go(self) -> None:
        """Keep of the ended processes, once nobody writes into their logs, the lines alone."""
        for one in [*self._ended]:
            if one.has_ended_log:
                self._past += one.lines
                one.close()
                self._ended.remove(one)
