"""What is over after a while, all of a kind after equally long: one timer for each kind.

A call asks once or twice, and has a time of its own. A time-out each (`asyncio.timeout`) would be a
thirtieth of what a plain call costs. What begins later is over later, so the oldest stands first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Things that have begun; what has not ended after `seconds` is given to `expire`."""

    __slots__ = ("_expire", "_open", "_seconds", "_timer", "loop")

    loop: asyncio.AbstractEventLoop  # the one that is running at first; there once one has begun

    def __init__(self, seconds: float, expire: Callable[[T], None]) -> None:
        self._seconds = seconds
        self._expire = expire
        self._open: dict[T, float] = {}  # deadlines in loop time, the earliest first
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._seconds} s {len(self._open)} open>"

    def __len__(self) -> int:
        """How many have begun and not ended."""
        return len(self._open)

    def begin(self, item: T) -> float:
        """Begin now; return the deadline in loop time."""
        try:
            loop = self.loop
        except AttributeError:  # asking which one runs costs as much as all the rest
            loop = self.loop = asyncio.get_running_loop()
        deadline = self._open[item] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._look)
        return deadline

    def end(self, item: T) -> None:
        """End the wait for `item`. Ending twice, or after the deadline, is harmless."""
        self._open.pop(item, None)

    def end_latest(self) -> T | None:
        """End the one that began last, and return it; None when there is none."""
        return self._open.popitem()[0] if self._open else None

    @property
    def earliest(self) -> float:
        """The deadline of the one that began first; infinite when there is none."""
        return next(iter(self._open.values()), float("inf"))

    def end_earliest(self) -> T | None:
        """End the one that began first, and return it; None when there is none."""
        item = next(iter(self._open), None)
        if item is not None:
            del self._open[item]
        return item

    def close(self) -> None:
        """Nothing expires any more."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End what is over, and look again when the next one will be."""
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
    """Gives calls their time, from now on."""

    def __init__(self, seconds: float) -> None:
        self._deadlines: Deadlines[TimeLimit] = Deadlines(seconds, TimeLimit.expire)

    def __repr__(self) -> str:
        return f"<TimeLimits {self._deadlines!r}>"

    def begin(self) -> TimeLimit:
        """The time of a call that begins now."""
        return TimeLimit(self._deadlines)


class TimeLimit:
    """The time of one call: what is done within it (`with`) is cancelled when it is over.

    It may be entered several times, one after another, and must be ended.
    """

    __slots__ = ("_before", "_deadlines", "_has_cancelled", "_loop", "_task", "deadline")

    def __init__(self, deadlines: Deadlines[TimeLimit]) -> None:
        self.deadline = deadlines.begin(self)  # loop time
        self._deadlines = deadlines
        self._loop = deadlines.loop
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
        """Raise TimeoutError for a cancellation that this time limit caused, and for no other."""
        task, self._task = self._task, None
        if self._has_cancelled:
            self._has_cancelled = False
            assert task is not None
            is_ours = task.uncancel() <= self._before
            if is_ours and error_type is asyncio.CancelledError:
                raise TimeoutError from error

    def end(self) -> None:
        """The call needs it no more."""
        self._deadlines.end(self)

    def expire(self) -> None:
        """The time is over."""
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()
