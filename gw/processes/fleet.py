"""Runs N workers on one port: restarts dead ones, reloads and stops all of them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from actors.clock import Clock
from gw.processes.parent_metrics import FleetMetrics
from gw.processes.watchdog import WorkerWatchdog
from gw.processes.worker import Worker, WorkerFailed
from metrics.logs import EventLog

# Pauses before the restarts of a worker that fails repeatedly; the first one is immediate.
BACKOFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0)
# A worker that has lived for this long did not fail at its start.
SETTLED_SECONDS = 60.0


class Fleet:
    """The workers of one gateway, by their indexes 0 … N-1; `text` is their configuration."""

    def __init__(
        self,
        text: str,
        *,
        count: int,
        start: Callable[[str], Awaitable[Worker]],
        silence_seconds: float,
        clock: Clock,
        metrics: FleetMetrics,
    ) -> None:
        self._text = text  # the current one, whatever the file contains
        self._start = start
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("gw.processes")
        self._workers: list[Worker | None] = [None] * count
        self._keepers: list[asyncio.Task[None]] = []
        self._watch = WorkerWatchdog(
            workers=self._workers, silence_seconds=silence_seconds, clock=clock, metrics=metrics
        )
        self._watching: asyncio.Task[None] | None = None
        metrics.configured(count)

    @property
    def workers(self) -> Sequence[Worker | None]:
        """The worker at each index; None while it is being replaced."""
        return self._workers

    async def start_workers(self) -> None:
        """Start all workers. Raises WorkerFailed, after stopping all, when one does not serve."""
        try:
            # The first one prepares the database and the secret for the others.
            await self._start_at(0)
            rest = [self._start_at(index) for index in range(1, len(self._workers))]
            results = await asyncio.gather(*rest, return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        except BaseException:
            await self.stop_workers()
            raise
        self._watching = asyncio.create_task(self._watch.run())
        self._keepers = [
            asyncio.create_task(self._keep(index)) for index in range(len(self._workers))
        ]
        self._count()

    async def reload(self, text: str) -> bool:
        """Reload the workers one by one; False, and the rest unchanged, when one refuses."""
        self._text = text
        for index, worker in enumerate(list(self._workers)):
            if worker is None:
                continue  # `_start_at` applies it
            try:
                if not await worker.reload(text):
                    return False
            except WorkerFailed as failed:
                self._log.warning("reload_unanswered", place=index, why=str(failed))
        return True

    async def stop_workers(self) -> list[int]:
        """Drain all workers at the same time; return their exit codes when the last has ended."""
        # First, the tasks that would replace a worker.
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        workers = [worker for worker in self._workers if worker is not None]
        for worker in workers:
            worker.stop()
        codes = [await worker.ended() for worker in workers]
        if self._watching is not None:  # until now: a worker may hang while it drains
            self._watching.cancel()
        return codes

    async def _start_at(self, index: int) -> None:
        text = self._text
        worker = await self._start(text)
        try:
            while text != self._text:  # a reload has missed it
                text = self._text
                await worker.reload(text)
        except BaseException:
            worker.kill()
            await worker.ended()
            raise
        self._workers[index] = worker

    async def _keep(self, index: int) -> None:
        """Replace the worker whenever it has ended, until the fleet stops."""
        failures = 0
        while True:
            worker = self._workers[index]
            assert worker is not None
            began = self._clock.monotonic()
            code = await worker.ended()
            self._workers[index] = None
            self._count()
            self._log.error("process_died", place=index, pid=worker.process.pid, code=code)
            if self._clock.monotonic() - began > SETTLED_SECONDS:
                failures = 0
            while self._workers[index] is None:
                await self._clock.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                failures += 1
                self._metrics.restarted()
                try:
                    await self._start_at(index)
                except (WorkerFailed, OSError) as failed:
                    self._log.error("process_not_started", place=index, why=str(failed))
            self._count()

    def _count(self) -> None:
        self._metrics.running(sum(worker is not None for worker in self._workers))
