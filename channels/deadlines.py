"""Deadlines of equal length share one timer.

A call waits once or twice, and has a time limit. A timeout for each (`asyncio.timeout`) would be a
thirtieth of the cost of a plain call. Deadlines are in the order of their begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Items with a deadline; those not ended after `seconds` are passed to `expire`."""

    __slots__ = ("_expire", "_open", "_seconds", "_timer", "loop")

    loop: asyncio.AbstractEventLoop  # the running loop; set at the first `begin`

    def __init__(self, seconds: float, expire: Callable[[T], None]) -> None:
        self._seconds = seconds
        self._expire = expire
        self._open: dict[T, float] = {}  # deadlines in loop time, the earliest first
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._seconds} s {len(self._open)} open>"

    def __len__(self) -> int:
        """The number of items that have begun and not ended."""
        return len(self._open)

    def begin(self, item: T) -> float:
        """Begin now; return the deadline in loop time."""
        try:
            loop = self.loop
        except AttributeError:  # `get_running_loop` costs as much as all the rest
            loop = self.loop = asyncio.get_running_loop()
        deadline = self._open[item] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._look)
        return deadline

    def end(self, item: T) -> None:
        """End the wait for `item`. Ending it again, or after the deadline, has no effect."""
        self._open.pop(item, None)

    def end_latest(self) -> T | None:
        """End the item that began last, and return it; None if there is none."""
        return self._open.popitem()[0] if self._open else None

    @property
    def earliest(self) -> float:
        """The deadline of the item that began first; infinite if there is none."""
        return next(iter(self._open.values()), float("inf"))

    def end_earliest(self) -> T | None:
        """End the item that began first, and return it; None if there is none."""
        item = next(iter(self._open), None)
        if item is not None:
            del self._open[item]
        return item

    def close(self) -> None:
        """Drop all items; nothing expires afterwards."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Expire items, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        over = []
        for item, deadline in self._open.items():
            if deadline > now:
                self._timer = loop.call_at(deadline, self._look)
                break
            over.append(item)
        for item in over:
            if self._open.pop(item, None) is not None:
                self._expire(item)


class FutureTimeouts(Deadlines[asyncio.Future[Any]]):
    """Fails awaited futures that are not done in time."""

    __slots__ = ("_error",)

    def __init__(self, seconds: float, error: Callable[[], Exception]) -> None:
        super().__init__(seconds, self._give_up)
        self._error = error

    def _give_up(self, reply: asyncio.Future[Any]) -> None:
        if not reply.done():
            reply.set_exception(self._error())


class TimeLimits:
    """Makes the time limits of calls."""

    def __init__(self, seconds: float) -> None:
        self._deadlines: Deadlines[TimeLimit] = Deadlines(seconds, TimeLimit.expire)

    def __repr__(self) -> str:
        return f"<TimeLimits {self._deadlines!r}>"

    def begin(self) -> TimeLimit:
        """Start the time limit of a call."""
        limit = TimeLimit(self._deadlines)
        limit.deadline = self._deadlines.begin(limit)
        return limit


class TimeLimit(Struct, eq=False):
    """The time limit of one call: code within it (`with`) is cancelled when it expires.

    It may be entered several times, one after another, and must be ended. `expire` may be called
    earlier.
    """

    _deadlines: Deadlines[TimeLimit]
    deadline: float = 0.0  # loop time
    _task: asyncio.Task[Any] | None = None  # currently within it
    _before: int = 0  # earlier requests to cancel that task
    _has_cancelled: bool = False

    def __repr__(self) -> str:
        return f"<TimeLimit {self.deadline:.3f}{' over' if self._has_cancelled else ''}>"

    def __enter__(self) -> None:
        """Enter. Raises TimeoutError if the time has already expired."""
        loop = self._deadlines.loop
        if loop.time() >= self.deadline:
            raise TimeoutError
        task = self._task = asyncio.current_task(loop)
        assert task is not None
        self._before = task.cancelling()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise TimeoutError for a cancellation that this time limit caused, and for no other."""
        task, self._task = self._task, None
        if self._has_cancelled:
            self._has_cancelled = False
            assert task is not None
            is_ours = task.uncancel() <= self._before
            if is_ours and error_type is asyncio.CancelledError:
                raise TimeoutError from error

    def seconds_left(self) -> float:
        """Return the time until it expires, at least 0."""
        return max(0.0, self.deadline - self._deadlines.loop.time())

    def end(self) -> None:
        """End the limit."""
        self._deadlines.end(self)

    def expire(self) -> None:
        """Cancel the task within the limit, once."""
        if self._task is not None and not self._has_cancelled:
            self._has_cancelled = True
            self._task.cancel()
