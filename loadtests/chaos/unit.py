"""A process that is started again when it dies, as systemd does with a unit's main process.

What it leaves behind is left alone: worker processes whose parent was killed find out themselves.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable

from loadtests.rig.process import LINES_KEPT, Process

# RestartSec of `ops/systemd/model-gateway.service`.
RESTART_SECONDS = 2.0
READY_SECONDS = 60.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1


class NotReady(Exception):
    """A process ended, or waited too long, before it served."""


class Unit:
    """What `start` starts, kept running."""

    def __init__(
        self, start: Callable[[], Process], *, is_ready: Callable[[], Awaitable[bool]]
    ) -> None:
        self._start = start
        self._is_ready = is_ready
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
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await self._is_ready():
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotReady(f"{self.process} does not serve:\n{self.process.log()}") from None

    async def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        self.process.popen.terminate()
        try:
            return await asyncio.to_thread(self.process.popen.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return -1
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
