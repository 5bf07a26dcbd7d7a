"""Caches summaries for the rest of their minute (reference 6.5).

A minute of the wall clock is a bucket: equal requests within it receive the same bytes, always
within 60 seconds of their creation. Concurrent requests share one read; the error of a read is
raised to its requests and not cached. The processes of one `gw serve` share summaries through the
parent; without its reply each process has its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from actors.clock import Clock
from actors.parent.link import ParentLink, ParentUnavailable

BUCKET_SECONDS = 60
# A response has some kilobytes; above this the oldest of the minute are dropped.
ENTRIES_MAX = 500


class SummaryCache:
    """The responses of the current minute, and the pending ones."""

    def __init__(self, clock: Clock, *, shared: ParentLink | None = None) -> None:
        self._clock = clock
        self._shared = shared
        self._minute = 0
        self._tasks: dict[Hashable, asyncio.Task[bytes]] = {}

    def __repr__(self) -> str:
        return f"<SummaryCache {len(self._tasks)} answers of minute {self._minute}>"

    async def get_summary(
        self, question: Hashable, compute: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> bytes:
        """Return the response to a question, made by `compute` if missing. Raises its error.

        Questions with the same `repr` are equal. Cancelling one caller does not cancel `compute`.
        """
        minute = int(self._clock.now() // BUCKET_SECONDS)
        if minute != self._minute:
            self._minute, self._tasks = minute, {}
        task = self._tasks.get(question)
        if task is None:
            while len(self._tasks) >= ENTRIES_MAX:
                del self._tasks[next(iter(self._tasks))]
            task = self._tasks[question] = asyncio.create_task(
                self._made(question, minute, compute)
            )
            tasks = self._tasks
            task.add_done_callback(lambda done: _forget_failed(tasks, question, done))
        await asyncio.wait([task])
        return task.result()

    async def _made(
        self,
        question: Hashable,
        minute: int,
        compute: Callable[[], Coroutine[Any, Any, bytes]],
    ) -> bytes:
        shared = self._shared
        if shared is None:
            return await compute()
        name = hashlib.sha256(repr(question).encode()).hexdigest()
        try:
            found = await shared.find(name, minute)
        except ParentUnavailable:  # logged by the limits, which use the parent all the time
            return await compute()
        if found is not None:
            return found
        made = await compute()
        try:
            return await shared.store(name, minute, made)
        except ParentUnavailable:
            return made


def _forget_failed(
    tasks: dict[Hashable, asyncio.Task[bytes]], question: Hashable, task: asyncio.Task[bytes]
) -> None:
    has_failed = task.cancelled() or task.exception() is not None
    if has_failed and tasks.get(question) is task:
        del tasks[question]
