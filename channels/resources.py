"""Deadlines of equal length share one timer.

A call waits once or twice, and has a time limit. A timeout for each (`asyncio.timeout`) would be a
thirtieth of the cost of a plain call. Deadlines are in the order of their begin.
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

from msgspec import Struct

from metrics.groups.files import FileMetrics
from metrics.logs import EventLog

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

    It may be entered several times, one after another, and must be ended.
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
        """Cancel the task within the limit."""
        if self._task is not None:
            self._has_cancelled = True
            self._task.cancel()


# The turns of the event loop.


def end_of_lines(data: bytes, start: int, end: int, lines: int) -> int:
    """Return the end of a part that begins at `start` and has at most `lines` line feeds.

    The part has at least `lines` bytes, if available; work is linear in its length.
    """
    at, size, found = start, lines, 0
    while at + size < end:
        found += data.count(b"\n", at, at + size)
        if found > lines:
            return at
        at += size
        size = at - start
    return end if found + data.count(b"\n", at, end) <= lines else at


# The open files of this process, and which connections are closed when few are left.
#
# Every client takes one, every connection to an upstream, every connection to the database. The
# system assigns the lowest free descriptor, so a connection with descriptor N proves that N others
# are open: checking that number detects a shortage without counting files. The last RESERVE numbers
# are reserved for the process itself (the watch over the embedded PostgreSQL, the database, the
# admin listener): for a client or an upstream with one of them an idle connection is closed, or it
# is refused.
#
# The limit that a process starts with (often 1,024, and 20,000 in a container) is usually a default
# and not chosen. It may be changed from outside while the process runs (`prlimit`), so it is read
# each time.

# Enough for 10,000 open streams three times over.
WANTED = 65_536
# Descriptors that no client and no upstream keeps.
RESERVE = 64
# Files open as soon as the process serves: the database, pipes, the listeners, …
STEADY = 64
# This many clients are accepted, however few files there are.
CLIENTS_MIN = 16
# The parts that close idle connections, in this order.
ORDER = ("handshakes", "clients", "upstreams")
# A shortage is logged once in this time.
LOG_SECONDS = 60.0


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether this error, or its cause, is that the process or the system had no file left."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


def raise_open_files() -> None:
    """Raise the limit to what the system allows, and to WANTED if this user may exceed that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        if soft != hard and soft < WANTED:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED, hard))
        return
    if hard < WANTED:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED, WANTED))
        except (OSError, ValueError):
            pass  # not privileged; use the hard limit below
        else:
            return
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class OpenFiles:
    """The open files of this process: its limit, its reserve, and the parts that use the rest."""

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
        """How many files this process may have open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return 1_000_000 if soft == resource.RLIM_INFINITY else soft

    @property
    def reserve(self) -> int:
        """How many of them are reserved for the process itself."""
        return min(RESERVE, self.limit // 4)

    @property
    def clients_max(self) -> int:
        """How many clients may be connected, with an upstream connection for each."""
        limit = self.limit
        return max(CLIENTS_MIN, (limit - min(RESERVE, limit // 4) - STEADY) // 2)

    @property
    def is_used_up(self) -> bool:
        """Whether a new client would be refused: no file is left, and no idle connection."""
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
        """Add a part and its metric.

        A part in ORDER closes one of its `idle` connections by `give_way`, which returns whether
        there was one.
        """
        self._parts[part] = count
        self._idle[part] = idle
        self.metrics.watch(part, count)
        if give_way is not None:
            self._give_way[part] = give_way

    def has_room(self, number: int) -> bool:
        """Whether a new file with this number may stay; an idle connection may be closed for it."""
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


# Default bound of the large request bodies of all clients.
BODIES_BYTES = 512 * 1024 * 1024


class BodyBudget:
    """The large request bodies of a process, from their first bytes to their responses.

    An owner (an account, `channels/shares.py`) has at most `each_bytes`, or one body.
    """

    __slots__ = ("_of_owners", "each_bytes", "limit_bytes", "reclaim", "used_bytes")

    def __init__(self, limit_bytes: int, each_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.each_bytes = limit_bytes if each_bytes is None else each_bytes
        self.used_bytes = 0
        self._of_owners: dict[str, int] = {}
        # Gives back at least so many bytes, if it can, of what is kept only while there is room.
        self.reclaim: Callable[[int], None] | None = None

    def __repr__(self) -> str:
        return f"<BodyBudget {self.used_bytes} of {self.limit_bytes} bytes>"

    def take(self, size_bytes: int, owner: str = "") -> bool:
        """Use so many more bytes if there is room or can be made, and return whether there was."""
        used = self._of_owners.get(owner, 0)
        if owner and used and used + size_bytes > self.each_bytes:
            return False
        lacking = self.used_bytes + size_bytes - self.limit_bytes
        if lacking > 0 and self.reclaim is not None:
            self.reclaim(lacking)
        if not self.take_spare(size_bytes):
            return False
        if owner:
            self._of_owners[owner] = used + size_bytes
        return True

    def take_spare(self, size_bytes: int) -> bool:
        """Use so many more bytes if there is room, and return whether there was."""
        has_room = self.used_bytes + size_bytes <= self.limit_bytes
        if has_room:
            self.used_bytes += size_bytes
        return has_room

    def give_back(self, size_bytes: int, owner: str = "") -> None:
        """Release so many bytes."""
        self.used_bytes -= size_bytes
        if owner:
            left = self._of_owners.pop(owner, 0) - size_bytes
            if left:
                self._of_owners[owner] = left
