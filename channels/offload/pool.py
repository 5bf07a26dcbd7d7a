"""The pool of processes for large bodies, and its queues, one for each account.

Processes are made on demand and replaced when they die. Each has a thread that sends, waits and
receives, none of which holds the interpreter's lock for long.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Protocol

from channels.offload.process import (
    JOB_CPU_SECONDS_MAX,
    Job,
    JobTooLong,
    ProcessDied,
    WorkerProcess,
)

# At least two, even on one core, so that no account has all of them.
PROCESSES_MAX = max(2, min(4, (os.cpu_count() or 2) // 2))
# Limit of queued and running bodies; a single body is always accepted.
QUEUED_BYTES_MAX = 256 * 1024 * 1024
QUEUED_JOBS_MAX = 64
# A process silent for so long is lost; on a busy host a job waits for the processor.
JOB_SECONDS_MAX = 30.0
# If two processes die over a body, the body is the cause.
TRIES_MAX = 2
# Processes without work are ended, which frees their memory; making one takes a second.
REST_SECONDS = 60.0


class Sleeper(Protocol):
    """The part of a clock that the pool needs."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class OffloadFull(Exception):
    """There is no room for another large body now."""


class OffloadFailed(Exception):
    """A process could not do its job, and neither could the next."""


Done = tuple[Any, bytes | None]


class Work(NamedTuple):
    """A job, its body and its small arguments."""

    job: Job
    body: bytes
    arguments: tuple[Any, ...]


@dataclass(slots=True)
class _Part:
    """The jobs of one account in the pool: the waiting ones, oldest first, and the sums of all."""

    waiting: OrderedDict[Future[Done], Work] = field(default_factory=OrderedDict)
    jobs: int = 0
    bytes: int = 0

    @property
    def under_way(self) -> int:
        """Jobs that a process works on."""
        return self.jobs - len(self.waiting)


class Turns:
    """Selects the next job: accounts take turns, and none has all processes or all the room.

    An account may use at most as much as then remains free, of jobs and of bytes: with `n` accounts
    at their bound, a part in `n + 1` is left for the next. A first job only needs to fit.
    """

    def __init__(self, *, processes_max: int, bytes_max: int, jobs_max: int) -> None:
        self._under_way_max = max(1, processes_max - 1)
        self._bytes_max = bytes_max
        self._jobs_max = jobs_max
        self._parts: OrderedDict[str, _Part] = OrderedDict()  # the next turn's account first
        self.jobs = 0
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<Turns of {len(self._parts)} accounts, {self.jobs} jobs, {self.bytes} bytes>"

    def join(self, account_id: str, work: Work) -> Future[Done]:
        """Add work to the end of its account's queue. Raises OffloadFull."""
        size, part = len(work.body), self._parts.get(account_id, _Part())
        free_bytes = self._bytes_max - self.bytes - size
        free_jobs = self._jobs_max - self.jobs - 1
        if free_jobs < 0 or (self.jobs and free_bytes < 0):
            raise OffloadFull
        if part.jobs and (part.jobs + 1 > free_jobs or part.bytes + size > free_bytes):
            raise OffloadFull
        future: Future[Done] = Future()
        part.waiting[future] = work
        self._parts.setdefault(account_id, part)
        self._count(part, 1, size)
        return future

    def take(self) -> tuple[Future[Done], Work] | None:
        """Take the next job; its account's next turn is after all others'. None: none may begin."""
        for account_id, part in self._parts.items():
            if part.waiting and part.under_way < self._under_way_max:
                self._parts.move_to_end(account_id)
                return part.waiting.popitem(last=False)
        return None

    def leave(self, account_id: str, size: int, future: Future[Done]) -> None:
        """Free the room of a job that has ended, or whose caller was cancelled."""
        part = self._parts[account_id]
        part.waiting.pop(future, None)
        self._count(part, -1, -size)
        if not part.jobs:
            del self._parts[account_id]

    def waiting(self) -> list[Future[Done]]:
        """Return the futures of the jobs that have not begun."""
        return [future for part in self._parts.values() for future in part.waiting]

    def _count(self, part: _Part, jobs: int, size: int) -> None:
        part.jobs += jobs
        part.bytes += size
        self.jobs += jobs
        self.bytes += size


class Helpers:
    """The processes of a pool, for the calls of one account."""

    def __init__(self, pool: OffloadPool, account_id: str) -> None:
        self._pool = pool
        self._account_id = account_id

    def __repr__(self) -> str:
        return f"<Helpers for {self._account_id} of {self._pool!r}>"

    async def run(self, job: Job, body: bytes, *arguments: Any) -> Done:
        """Run a job, a function of this program, with this body and these small arguments.

        Raises the errors of the job, JobTooLong, OffloadFull, or OffloadFailed.
        """
        # A cancelled caller removes its job from the queue; a running one is completed.
        waiting = self._pool.submit(self._account_id, Work(job, body, arguments))
        try:
            return await asyncio.wrap_future(waiting)
        finally:
            # An exception refers to this frame, and a future to its exception: the cycle would keep
            # the body until garbage collection.
            del waiting


class OffloadPool:
    """Runs jobs on large bodies, through `Helpers`. One per process of the gateway."""

    def __init__(
        self,
        *,
        processes_max: int = PROCESSES_MAX,
        queued_bytes_max: int = QUEUED_BYTES_MAX,
        queued_jobs_max: int = QUEUED_JOBS_MAX,
        job_seconds_max: float = JOB_SECONDS_MAX,
        job_cpu_seconds_max: float = JOB_CPU_SECONDS_MAX,
    ) -> None:
        self._threads = ThreadPoolExecutor(processes_max, thread_name_prefix="offload")
        self._processes_max = processes_max
        self._job_seconds_max = job_seconds_max
        self._job_cpu_seconds_max = job_cpu_seconds_max
        self._lock = Lock()  # of the threads' shared state
        self._turns = Turns(
            processes_max=processes_max, bytes_max=queued_bytes_max, jobs_max=queued_jobs_max
        )
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._at_work = 0  # threads
        self._begun = 0  # jobs so far
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<OffloadPool {len(self._all)} processes, {self._turns!r}>"

    @property
    def pids(self) -> list[int]:
        """The pids of the processes."""
        with self._lock:
            return [process.pid for process in self._all]

    def of(self, account_id: str) -> Helpers:
        """Return the processes for the bodies of this account."""
        return Helpers(self, account_id)

    def submit(self, account_id: str, work: Work) -> Future[Done]:
        """Queue work for its account's turn. Raises OffloadFull."""
        with self._lock:
            if self._is_closed:
                raise OffloadFull
            future = self._turns.join(account_id, work)
            # Before a thread may take it: the thread also uses the room that an ended job frees.
            future.add_done_callback(partial(self._done, account_id, len(work.body)))
            self._begun += 1
            if self._at_work < self._processes_max:
                self._at_work += 1
                self._threads.submit(self._work)
        return future

    def close(self) -> None:
        """End all processes; running jobs fail."""
        with self._lock:
            self._is_closed = True
            processes, self._idle = list(self._all), []
            self._all.clear()
            waiting = self._turns.waiting()
        for future in waiting:
            future.cancel()
        for process in processes:
            process.end()
        self._threads.shutdown(wait=False)

    def rest(self) -> None:
        """End the idle processes, because no job was submitted for a while."""
        with self._lock:
            resting, self._idle = self._idle, []
            self._all.difference_update(resting)
        for process in resting:
            self._threads.submit(process.end)

    async def tend(self, clock: Sleeper) -> None:
        """End processes that were idle for a while; runs until cancelled."""
        while True:
            before = self._begun
            await clock.sleep(REST_SECONDS)
            if self._begun == before:
                self.rest()

    def _done(self, account_id: str, size: int, future: Future[Done]) -> None:
        with self._lock:
            self._turns.leave(account_id, size, future)

    # --- In a thread ---

    def _work(self) -> None:
        """Run jobs until none is left that may begin."""
        while True:
            with self._lock:
                taken = self._turns.take()
                if taken is None:
                    self._at_work -= 1
                    return
            future, work = taken
            if future.set_running_or_notify_cancel():
                try:
                    done = self._do(*work)
                except BaseException as error:  # noqa: BLE001  raised where it is awaited
                    future.set_exception(error)
                else:
                    future.set_result(done)
                    del done
            # An exception refers to this frame, and the next job may not end for long.
            del taken, future, work

    def _do(self, job: Job, body: bytes, arguments: tuple[Any, ...]) -> Done:
        for _ in range(TRIES_MAX):
            process = self._take()
            try:
                done = process.do(job, body, arguments, seconds=self._job_seconds_max)
            except JobTooLong:
                self._drop(process)
                raise
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
        process = WorkerProcess(self._job_cpu_seconds_max)
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
