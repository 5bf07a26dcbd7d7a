"""What is over after a while, all of a kind after equally long: one timer for each kind.

A call asks once or twice, and has a time of its own. A time-out each (`asyncio.timeout`) would be a
thirtieth of what a plain call costs. What begins later is over later, so the oldest is first.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Generic, TypeVar

from metrics.families import FileMetrics
from metrics.logs import EventLog

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

    def restart(self) -> None:
        """Give the call its whole time again, from now on."""
        self.end()
        self.deadline = self._deadlines.begin(self)

    def end(self) -> None:
        """The call needs it no more."""
        self._deadlines.end(self)

    def expire(self) -> None:
        """The time is over."""
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()


# The files that this process may have open, and what gives way when few are left.
#
# Every client takes one, every connection to an upstream, every connection to the database. The
# system gives a new file the lowest number that is free, so a connection whose number is N proves
# that N others are open, whatever they are: a look at that number notices a shortage, and no file
# has to be counted. The last RESERVE numbers are for the process itself (the watch over the
# embedded PostgreSQL, the database, the admin listener): a client or an upstream that comes by one
# of them has an idle connection closed for it, or is refused.
#
# The limit that a process starts with (often 1,024, and 20,000 in a container) is a default rather
# than anybody's decision. It may be changed from outside while the process runs (`prlimit`), so it
# is read anew each time.

# Enough for 10,000 open streams three times over.
WANTED = 65_536
# No client and no upstream keeps one of the last so many.
RESERVE = 64
# What is open as soon as the process serves: the database, pipes, the listeners, …
STEADY = 64
# However few files there are, so many clients may try.
CLIENTS_MIN = 16
# Who gives way, in this order.
ORDER = ("handshakes", "clients", "upstreams")
# A shortage is logged once in so long.
LOG_SECONDS = 60.0


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether the process, or the system, had no file left: of an error or what it came from."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


def raise_open_files() -> None:
    """Take what the system allows, and no less than is WANTED where this user may request it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        if soft != hard and soft < WANTED:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED, hard))
        return
    if hard < WANTED:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED, WANTED))
        except (OSError, ValueError):
            pass  # not a privileged user; all there is below
        else:
            return
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class OpenFiles:
    """The account of this process: its limit, its reserve, and the parts that take the rest."""

    def __init__(self, metrics: FileMetrics) -> None:
        self.metrics = metrics
        self._parts: dict[str, Callable[[], int]] = {}
        self._idle: dict[str, Callable[[], int]] = {}
        self._give_way: dict[str, Callable[[], bool]] = {}
        self._logged_at = -LOG_SECONDS
        self._log = EventLog("channels.open_files")
        metrics.watch("limit", lambda: self.limit)
        metrics.watch("reserve", lambda: self.reserve)

    def __repr__(self) -> str:
        return f"<OpenFiles {self.limit} {self._counts()}>"

    @property
    def limit(self) -> int:
        """How many this process may have open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return 1_000_000 if soft == resource.RLIM_INFINITY else soft

    @property
    def reserve(self) -> int:
        """How many of them are kept for the process itself."""
        return min(RESERVE, self.limit // 4)

    @property
    def clients_max(self) -> int:
        """How many clients may be connected, an upstream's connection for each."""
        limit = self.limit
        return max(CLIENTS_MIN, (limit - min(RESERVE, limit // 4) - STEADY) // 2)

    @property
    def is_used_up(self) -> bool:
        """Whether a client that connects now would be refused: no file, and no idle one, for it."""
        if any(idle() for idle in self._idle.values()):
            return False
        try:
            number = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            return True
        os.close(number)
        return number >= self.limit - self.reserve

    def add(
        self,
        part: str,
        count: Callable[[], int],
        give_way: Callable[[], bool] | None = None,
        *,
        idle: Callable[[], int] = int,
    ) -> None:
        """Show a part from now on.

        One of ORDER closes one of its `idle` connections by `give_way`, which returns whether
        there was one.
        """
        self._parts[part] = count
        self._idle[part] = idle
        self.metrics.watch(part, count)
        if give_way is not None:
            self._give_way[part] = give_way

    def has_room(self, number: int) -> bool:
        """Whether the new file of this number may stay: at need for an idle one that is closed."""
        if number < self.limit - self.reserve:
            return True
        for part in ORDER:
            give_way = self._give_way.get(part)
            if give_way is not None and give_way():
                self.metrics.freed(part)
                self._say(part)
                return True
        self._say("")
        return False

    def _say(self, freed: str) -> None:
        now = monotonic()
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            self._log.warning(
                "files_running_out",
                limit=self.limit,
                given_up=freed or "none",
                parts=self._counts(),
            )

    def _counts(self) -> dict[str, int]:
        return {part: count() for part, count in self._parts.items()}


# Large request bodies of all clients together, unless the configuration sets another bound.
BODIES_BYTES = 512 * 1024 * 1024


class BodyBudget:
    """The large request bodies that a process holds, from their first bytes to their responses."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def __repr__(self) -> str:
        return f"<BodyBudget {self.held_bytes} of {self.limit_bytes} bytes>"

    def take(self, size_bytes: int) -> bool:
        """Whether there is room for so much more, which is held then."""
        has_room = self.held_bytes + size_bytes <= self.limit_bytes
        if has_room:
            self.held_bytes += size_bytes
        return has_room

    def give_back(self, size_bytes: int) -> None:
        """So much is no longer held."""
        self.held_bytes -= size_bytes
