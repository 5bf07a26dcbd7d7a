"""A connection's pace: who waits for whom, and for how long.

Writing waits for a client that reads slowly, reading for a request that is not wanted yet, and one
deadline bounds whatever the connection waits for at the moment. What is read and written is
`connection.py`.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from typing import cast

from tornado.iostream import StreamClosedError

# How long a client that was refused, or told to go, may take to read what it was told.
LINGER_SECONDS = 5.0
FOREVER = float("inf")


class PacedConnection(asyncio.Protocol):
    """The transport of one connection and its one deadline."""

    __slots__ = (
        "_deadline",
        "_drained",
        "_is_ending",
        "_is_held",
        "_is_paused",
        "_loop",
        "_ready",
        "_timer",
        "_transport",
        "is_closed",
    )

    _transport: asyncio.Transport

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ready: Future[None], seconds: float
    ) -> None:
        """`ready` is done: what whoever need not wait is given. `seconds` is the first deadline."""
        self.is_closed = False
        self._loop = loop
        self._is_ending = False  # nothing more is read
        self._is_held = False  # reading is paused
        self._is_paused = False  # the transport wants no more for now
        self._ready = ready
        self._drained: Future[None] | None = None
        self._deadline = loop.time() + seconds
        self._timer: asyncio.TimerHandle | None = None

    def is_answering(self) -> bool:
        """Whether somebody waits for an answer, or its end."""
        raise NotImplementedError

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.arm(self._deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_exception(StreamClosedError(exc))
            drained.exception()  # whoever waited has it; nobody need have

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # --- Writing ---

    def send(self, data: bytes) -> None:
        """Write, unless the client has left."""
        if not self.is_closed:
            self._transport.write(data)

    def write(self, data: bytes) -> Future[None]:
        """Write; the future is done when the client keeps up, or fails when it has left."""
        if self.is_closed:
            failed: Future[None] = self._loop.create_future()
            failed.set_exception(StreamClosedError())
            failed.exception()  # raised where it is awaited; nobody need do so
            return failed
        if data:
            self._transport.write(data)
        if not self._is_paused:
            return self._ready
        # Waited for by one task at a time; one that was cancelled has cancelled its future too.
        if self._drained is None or self._drained.done():
            self._drained = self._loop.create_future()
        return self._drained

    # --- Reading ---

    def hold(self) -> None:
        """Read no more for now."""
        if not self._is_held and not self._transport.is_closing():
            self._is_held = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._is_held and not self._transport.is_closing():
            self._is_held = False
            self._transport.resume_reading()

    # --- Ending ---

    def stop(self) -> None:
        """End once what is written is out."""
        self._is_ending = True
        self.arm(self._loop.time() + LINGER_SECONDS)
        self._transport.close()

    def abort(self) -> None:
        """End now."""
        self._is_ending = True
        self._transport.abort()

    def linger(self) -> None:
        """Say that nothing more comes, and let the client read what it was told.

        Closed with unread bytes in its buffer, a socket takes back what it has sent.
        """
        self._is_ending = True
        self.arm(self._loop.time() + LINGER_SECONDS)
        if self._transport.can_write_eof():
            self.resume()
            self._transport.write_eof()
        else:
            self._transport.close()

    # --- The deadline ---

    def arm(self, deadline: float) -> None:
        """Move the deadline; the timer is only made anew when it would come too late."""
        self._deadline = deadline
        timer = self._timer
        if timer is None or timer.when() > deadline:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(deadline, self._expired)

    def disarm(self) -> None:
        """Wait for as long as it takes."""
        self._deadline = FOREVER

    def _expired(self) -> None:
        self._timer = None
        if self.is_closed:
            return
        if self._loop.time() < self._deadline:
            if self._deadline != FOREVER:
                self._timer = self._loop.call_at(self._deadline, self._expired)
            return
        if self.is_answering() or self._transport.is_closing() or self._is_paused:
            self.abort()
        elif self._is_ending:
            self.stop()
        else:
            self.linger()  # what it sends at this very moment must not be answered by a reset
