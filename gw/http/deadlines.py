"""The deadlines of a connection: of the next thing it expects, and of a client that should read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

# A client that reads less of a full write buffer within this time is disconnected; 4 KB a second,
# at which a film of an hour takes a day, is a tenth of a slow mobile connection.
UNREAD_SECONDS = 60.0
UNREAD_BYTES_MIN = 240 * 1024
FOREVER = float("inf")


class ConnectionDeadlines:
    """The two deadlines of a connection, on one timer.

    The timer is not one of `channels/deadlines.py`, because its deadline changes in kind and length
    several times a request, which takes two assignments here.
    """

    __slots__ = (
        "_expired",
        "_loop",
        "_timer",
        "head_until",
        "reader_until",
        "unsent_bytes",
        "until",
        "waits_in",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, expired: Callable[[], None]
    ) -> None:
        self.until = loop.time() + seconds
        self.waits_in: Enum | None = None  # the state whose deadline `until` is
        self.head_until = FOREVER  # last moment of a head that is received during a drain
        self.reader_until = FOREVER  # last moment for the client to read something
        self.unsent_bytes = 0  # at the last check of the reader
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, until: float, waits_in: Enum) -> None:
        """Set the deadline; the timer is replaced only if it would fire too late."""
        self.until = until
        self.waits_in = waits_in
        if self._timer is None or self._timer.when() > until:
            self.wake_at(until)

    def disarm(self, waits_in: Enum) -> None:
        """Remove the deadline."""
        self.until = FOREVER
        self.waits_in = waits_in

    def watch_reader(self, unsent_bytes: int) -> None:
        """Set the deadline by which the client must read something."""
        self.unsent_bytes = unsent_bytes
        self.reader_until = self._loop.time() + UNREAD_SECONDS
        self.wake_at(self.reader_until)

    def wake_at(self, until: float) -> None:
        """Call `expired` at this time or earlier."""
        timer = self._timer
        if timer is None or timer.when() > until:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(until, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._expired()

    def cancel(self) -> None:
        """Remove the deadlines for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        del self._expired  # it refers back to the connection
