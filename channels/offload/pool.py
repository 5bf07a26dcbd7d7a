"""The few processes that work on large bodies, and the queue before them.

Made when they are needed, replaced when they die. A thread stands before each: it sends, waits and
receives, and none of that holds the interpreter's lock for long.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Protocol

from channels.offload.process import Job, ProcessDied, WorkerProcess

PROCESSES_MAX = max(1, min(4, (os.cpu_count() or 2) // 2))
# Of what waits or is being worked on; one body alone is always taken.
QUEUED_BYTES_MAX = 256 * 1024 * 1024
QUEUED_JOBS_MAX = 64
# No body that may come takes so long; a process that does is lost.
JOB_SECONDS_MAX = 30.0
# Of two processes that die over a body the body is the cause.
TRIES_MAX = 2
# Processes without work are ended, which gives back their memory; to make one takes a second.
REST_SECONDS = 60.0


class Sleeper(Protocol):
    """What the pool needs of a clock."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class OffloadFull(Exception):
    """There is no room for another large body now."""


class OffloadFailed(Exception):
    """A process could not do its job, and neither could the next."""


class OffloadPool:
    """Has jobs done on large bodies. One per process of the gateway."""

    def __init__(
        self,
        *,
        processes_max: int = PROCESSES_MAX,
        queued_bytes_max: int = QUEUED_BYTES_MAX,
        queued_jobs_max: int = QUEUED_JOBS_MAX,
        job_seconds_max: float = JOB_SECONDS_MAX,
    ) -> None:
        self._threads = ThreadPoolExecutor(processes_max, thread_name_prefix="offload")
        self._queued_bytes_max = queued_bytes_max
        self._queued_jobs_max = queued_jobs_max
        self._job_seconds_max = job_seconds_max
        self._lock = Lock()  # of what the threads share
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._bytes = 0
        self._jobs = 0
        self._begun = 0  # jobs so far
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<OffloadPool {len(self._all)} processes, {self._jobs} jobs, {self._bytes} bytes>"

    @property
    def pids(self) -> list[int]:
        """Of the processes that there are."""
        with self._lock:
            return [process.pid for process in self._all]

    async def run(self, job: Job, body: bytes, *arguments: Any) -> tuple[Any, bytes | None]:
        """Have a job done, a function of this program with this body and these small arguments.

        Raises what the job raises, OffloadFull, or OffloadFailed.
        """
        size = len(body)
        with self._lock:
            is_full = self._jobs > 0 and self._bytes + size > self._queued_bytes_max
            if is_full or self._jobs >= self._queued_jobs_max or self._is_closed:
                raise OffloadFull
            self._bytes += size
            self._jobs += 1
            self._begun += 1
        # A caller that leaves takes its job out of the queue; one under way comes to its end.
        waiting = self._threads.submit(self._do, job, body, arguments)
        waiting.add_done_callback(lambda _: self._done(size))
        try:
            return await asyncio.wrap_future(waiting)
        finally:
            # An exception knows this frame, and a future its exception: the circle would keep the
            # body until the collector comes by.
            del waiting

    def close(self) -> None:
        """End all processes; jobs under way fail."""
        with self._lock:
            self._is_closed = True
            processes, self._idle = list(self._all), []
            self._all.clear()
        for process in processes:
            process.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def rest(self) -> None:
        """End the processes that have nothing to do: no job came for a while."""
        with self._lock:
            resting, self._idle = self._idle, []
            self._all.difference_update(resting)
        for process in resting:
            self._threads.submit(process.end)

    async def tend(self, clock: Sleeper) -> None:
        """Have the processes rest that had nothing to do for a while; until it is cancelled."""
        while True:
            before = self._begun
            await clock.sleep(REST_SECONDS)
            if self._begun == before:
                self.rest()

    def _done(self, size: int) -> None:
        with self._lock:
            self._bytes -= size
            self._jobs -= 1

    # --- In a thread ---

    def _do(self, job: Job, body: bytes, arguments: tuple[Any, ...]) -> tuple[Any, bytes | None]:
        for _ in range(TRIES_MAX):
            process = self._take()
            try:
                done = process.do(job, body, arguments, seconds=self._job_seconds_max)
            except ProcessDied as died:
                self._drop(process)
                fault = str(died)
                continue
            except BaseException:
                self._give_back(process)
                raise
            self._give_back(process)
            return done
        raise OffloadFailed(fault)

    def _take(self) -> WorkerProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        process = WorkerProcess()
        with self._lock:
            if not self._is_closed:
                self._all.add(process)
                return process
        process.end()
        raise OffloadFailed("the gateway ends")

    def _give_back(self, process: WorkerProcess) -> None:
        with self._lock:
            if process in self._all:
                self._idle.append(process)

    def _drop(self, process: WorkerProcess) -> None:
        with self._lock:
            self._all.discard(process)
        process.end()
