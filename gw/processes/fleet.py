"""N workers on one port: one that dies is started again, all are reloaded and stopped in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from actors.clock import Clock
from gw.processes.worker import Worker, WorkerFailed
from metrics.fleet import FleetMetrics
from metrics.logs import EventLog

# Between the ends of a worker that dies again and again; the first one is replaced at once.
BACKOFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0)
# One that has lived for so long has not died of its start.
SETTLED_SECONDS = 60.0


class Fleet:
    """The workers of one gateway, by their places 0 … N-1."""

    def __init__(
        self,
        *,
        count: int,
        start: Callable[[], Awaitable[Worker]],
        clock: Clock,
        metrics: FleetMetrics,
    ) -> None:
        self._start = start
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("gw.processes")
        self._workers: list[Worker | None] = [None] * count
        self._keepers: list[asyncio.Task[None]] = []
        self._is_stopping = False

    def __repr__(self) -> str:
        return f"<Fleet {self._workers}>"

    @property
    def workers(self) -> Sequence[Worker | None]:
        """Who stands at each place; None while it is being replaced."""
        return self._workers

    async def start(self) -> None:
        """Start all. Raises WorkerFailed, and leaves none behind, when one does not serve."""
        try:
            # The first one prepares the database and the secret for the others.
            first = await self._start()
            self._workers[0] = first
            rest = [self._start_at(place) for place in range(1, len(self._workers))]
            results = await asyncio.gather(*rest, return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        except BaseException:
            await self.stop()
            raise
        self._keepers = [
            asyncio.create_task(self._keep(place)) for place in range(len(self._workers))
        ]
        self._count()

    async def reload(self) -> bool:
        """Reload one after the other; False, and the rest left alone, when one refuses."""
        for place, worker in enumerate(list(self._workers)):
            if worker is None:
                continue  # it will start with what the file says then
            try:
                if not await worker.reload():
                    return False
            except WorkerFailed as failed:
                self._log.warning("reload_unanswered", place=place, why=str(failed))
        return True

    async def stop(self) -> None:
        """Let all drain at the same time, and wait for one after the other."""
        self._is_stopping = True
        workers = [worker for worker in self._workers if worker is not None]
        for worker in workers:
            worker.stop()
        for worker in workers:
            await worker.ended()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def _start_at(self, place: int) -> None:
        self._workers[place] = await self._start()

    async def _keep(self, place: int) -> None:
        """Stand another one in the place of a worker that has ended, for as long as we run."""
        failures = 0
        while True:
            worker = self._workers[place]
            assert worker is not None
            began = self._clock.monotonic()
            code = await worker.ended()
            if self._is_stopping:
                return
            self._workers[place] = None
            self._count()
            self._log.error("process_died", place=place, pid=worker.process.pid, code=code)
            if self._clock.monotonic() - began > SETTLED_SECONDS:
                failures = 0
            while self._workers[place] is None:
                await self._clock.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                failures += 1
                self._metrics.restarted()
                try:
                    await self._start_at(place)
                except (WorkerFailed, OSError) as failed:
                    self._log.error("process_not_started", place=place, why=str(failed))
            self._count()

    def _count(self) -> None:
        self._metrics.running(sum(worker is not None for worker in self._workers))
