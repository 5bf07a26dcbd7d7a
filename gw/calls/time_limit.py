"""Bounds calls in time, all by the same number of seconds: one timer serves them all.

A time-out of its own (`asyncio.timeout`) was a thirtieth of what a plain call cost. Calls begin in
the order in which their time is over, so the oldest stands first, and only it is looked at.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class TimeLimit:
    """The time of one call: what is done within it (`with`) is cancelled when it is over.

    It may be entered several times, one after another, and must be ended.
    """

    __slots__ = ("_before", "_has_cancelled", "_limits", "_loop", "_task", "deadline")

    def __init__(
        self, limits: TimeLimits, loop: asyncio.AbstractEventLoop, deadline: float
    ) -> None:
        self.deadline = deadline  # loop time
        self._limits = limits
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None  # that is within it
        self._before = 0  # requests to cancel it that were there before
        self._has_cancelled = False

    def __repr__(self) -> str:
        return f"<TimeLimit {self.deadline:.3f}{' over' if self._has_cancelled else ''}>"

    def __enter__(self) -> None:
        """Raises TimeoutError when the time is over already."""
        if self._loop.time() >= self.deadline:
            raise TimeoutError
        task = self._task = asyncio.current_task(self._loop)
        assert task is not None
        self._before = task.cancelling()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raises TimeoutError for the cancellation that was the time's and nobody else's."""
        task, self._task = self._task, None
        if self._has_cancelled:
            self._has_cancelled = False
            assert task is not None
            is_ours = task.uncancel() <= self._before
            if is_ours and error_type is asyncio.CancelledError:
                raise TimeoutError from error

    def end(self) -> None:
        """The call needs it no more."""
        self._limits.forget(self)

    def expire(self) -> None:
        """The time is over."""
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()


class TimeLimits:
    """Gives calls their time, from now on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[TimeLimit, None] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<TimeLimits {self._seconds} s {len(self._open)} open>"

    def begin(self) -> TimeLimit:
        """The time of a call that begins now."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds
        limit = TimeLimit(self, loop, deadline)
        self._open[limit] = None
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._look)
        return limit

    def forget(self, limit: TimeLimit) -> None:
        """It was ended, or is over."""
        self._open.pop(limit, None)

    def _look(self) -> None:
        """End what is over, and look again when the next one will be."""
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._open:
            oldest = next(iter(self._open))
            if oldest.deadline > loop.time():
                self._timer = loop.call_at(oldest.deadline, self._look)
                return
            self.forget(oldest)
            oldest.expire()
