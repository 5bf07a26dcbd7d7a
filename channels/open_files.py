"""The open files of this process, and which connections are closed when few are left.

Every client takes one, every connection to an upstream, every connection to the database. The
system assigns the lowest free descriptor, so a connection with descriptor N proves that N others
are open: checking that number detects a shortage without counting files. The last RESERVE numbers
are reserved for the process itself (the watch over the embedded PostgreSQL, the database, the
admin listener): for a client or an upstream with one of them an idle connection is closed, or it
is refused.

The limit that a process starts with (often 1,024, and 20,000 in a container) is usually a default
and not chosen. It may be changed from outside while the process runs (`prlimit`), so it is read
each time.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from time import monotonic

from metrics.groups.files import FileMetrics
from metrics.logs import EventLog

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
