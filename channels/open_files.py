"""The files that this process may have open, and what gives way when few are left.

Every client takes one, every connection to an upstream, every connection to the database. The
system gives a new file the lowest number that is free, so a connection whose number is N proves
that N others are open, whatever they are: a look at that number notices a shortage, and no file
has to be counted. The last RESERVE numbers are for the process itself (the watch over the embedded
PostgreSQL, the database, the admin listener): a client or an upstream that comes by one of them
has an idle connection closed for it, or is refused.

The limit that a process starts with (often 1,024, and 20,000 in a container) is a default rather
than anybody's decision. It may be changed from outside while the process runs (`prlimit`), so it is
read anew each time.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable
from time import monotonic

from metrics.families import FileMetrics
from metrics.logs import EventLog

# Enough for 10,000 open streams three times over.
WANTED = 65_536
# No client and no upstream keeps one of the last so many.
RESERVE = 64
# What is open as soon as the process serves: the database, pipes, the listeners, …
STEADY = 64
# However few files there are, so many clients may try.
CLIENTS_MIN = 16
# Who gives way, in this order.
ORDER = ("clients", "upstreams")
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
    """Take what the system allows, and no less than is WANTED where this user may ask for it."""
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

    def add(
        self, part: str, count: Callable[[], int], give_way: Callable[[], bool] | None = None
    ) -> None:
        """Show a part from now on; one of ORDER closes an idle connection of its own by `give_way`,

        which returns whether there was one.
        """
        self._parts[part] = count
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
