"""Starts the long-lived coroutines in order, restarts one that fails, stops all in reverse order.

A child that keeps failing is not restarted forever: after `intensity` restarts within
`period_seconds` the supervisor gives up and reports it through `failed`, and the process ends.
Persistent state is in PostgreSQL, so a restart is cheap. A failure for lack of file descriptors
is not the child's fault: it is restarted after a pause, any number of times.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from actors.clock import Clock
from channels.open_files import is_out_of_files
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# Pause before the restart of a child that failed for lack of file descriptors.
OUT_OF_FILES_SECONDS = 1.0


class Supervisor:
    """Children in their start order."""

    def __init__(
        self,
        *,
        clock: Clock,
        metrics: Metrics,
        intensity: int = 5,
        period_seconds: float = 30.0,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._intensity = intensity
        self._period_seconds = period_seconds
        self._children: dict[str, asyncio.Task[None]] = {}
        self._restarts: deque[float] = deque()
        self._log = EventLog("actors.supervisor")
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<Supervisor {len(self._children)} children {len(self._restarts)} restarts>"

    def start(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body` under `name` and keep it running."""
        assert name not in self._children, name
        self._children[name] = asyncio.create_task(self._keep(name, body), name=name)

    async def stop_child(self, name: str) -> None:
        """Stop one child and wait for its end. An unknown name is no error."""
        task = self._children.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Stop the children, last started first."""
        for name in reversed(list(self._children)):
            await self.stop_child(name)

    async def _keep(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        while True:
            is_starved = False
            try:
                await body()
            except (Exception, asyncio.CancelledError) as error:
                # Restarted after any error, also after a cancellation that was not requested, which
                # is raised by something that it awaited.
                if isinstance(error, asyncio.CancelledError) and _is_stopping():
                    raise
                is_starved = is_out_of_files(error)
                self._log.error("child_died", exc_info=True, child=name, error=repr(error))
            else:
                self._log.error("child_returned", child=name)
            if _is_stopping():
                return
            if is_starved:
                await self._clock.sleep(OUT_OF_FILES_SECONDS)
            elif not self._may_restart():
                self._log.error("supervisor_gave_up", child=name)
                if not self.failed.done():
                    self.failed.set_result(None)
                return
            self._metrics.actor_restarted(name.partition(":")[0])

    def _may_restart(self) -> bool:
        now = self._clock.monotonic()
        while self._restarts and now - self._restarts[0] > self._period_seconds:
            self._restarts.popleft()
        self._restarts.append(now)
        return len(self._restarts) <= self._intensity


def _is_stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
