"""A connection's pace: who waits for whom, and for how long.

Writing waits for a client that reads slowly, and then nothing more is read from it; reading waits
for a request that is not wanted yet. One deadline bounds whatever the connection waits for at the
moment, another the timeout of a client that takes nothing of what it was sent. What is read and
written is `connection.py`.

The timer is the connection's own and not one of `channels/deadlines.py`: its deadline changes in
kind and length several times a request, and moving it is two assignments here.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from typing import Any, cast

from tornado.iostream import StreamClosedError

# How long a client that was refused, or told to go, may take to read what it was told, and how
# much of what it still sends meanwhile is read and dropped.
LINGER_SECONDS = 5.0
LINGER_BYTES_MAX = 1024 * 1024
# A client that takes nothing of what waits for it for so long is cut.
UNREAD_SECONDS = 60.0
FOREVER = float("inf")


class FlowControl(asyncio.BufferedProtocol):
    """The transport of one connection and its deadlines."""

    __slots__ = (
        "_deadline",
        "_drained",
        "_dropped_bytes",
        "_is_ending",
        "_is_held",
        "_is_paused",
        "_reader_deadline",
        "_ready",
        "_timer",
        "_transport",
        "_unsent_bytes",
        "is_closed",
        "loop",
        "remote_ip",
    )

    _transport: asyncio.Transport

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ready: Future[None], seconds: float
    ) -> None:
        """`ready` is a done future, for callers that need not wait. `seconds` is the first
        deadline.
        """
        self.is_closed = False
        self.remote_ip = ""
        self.loop = loop
        self._is_ending = False  # nothing more is read
        self._is_held = False  # reading is paused
        self._is_paused = False  # the transport wants no more for now
        self._ready = ready
        self._drained: Future[None] | None = None
        self._deadline = loop.time() + seconds
        self._reader_deadline = FOREVER  # until then the client takes something
        self._unsent_bytes = 0  # of what was written, when that was looked at last
        self._dropped_bytes = 0  # read since nothing more is parsed
        self._timer: asyncio.TimerHandle | None = None

    def is_responding(self) -> bool:
        """Whether a client waits for a response, or its end."""
        raise NotImplementedError

    @property
    def farewell_seconds(self) -> float:
        """How long a client that said nothing may take to leave, once nothing more is heard."""
        raise NotImplementedError

    # --- For its request ---

    @property
    def has_unread(self) -> bool:
        """Whether something was read that is not parsed yet."""
        raise NotImplementedError

    def read_on(self) -> None:
        """Parse what waits, as far as it is its turn."""
        raise NotImplementedError

    def drain(self) -> None:
        """Keep it for a moment only where no client waits for a response: the process ends."""
        raise NotImplementedError

    def response_sent(self, request: Any, last: bytes) -> None:
        """Go on to the next request: the response is complete but for its last bytes."""
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
            drained.exception()  # a waiting writer has it; none need wait

    def pause_writing(self) -> None:
        self._is_paused = True
        self.hold()
        self._look_at_reader()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._reader_deadline = FOREVER
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
            failed: Future[None] = self.loop.create_future()
            failed.set_exception(StreamClosedError())
            failed.exception()  # raised where it is awaited, which is optional
            return failed
        if data:
            self._transport.write(data)
        if not self._is_paused:
            return self._ready
        # Waited for by one task at a time; one that was cancelled has cancelled its future too.
        if self._drained is None or self._drained.done():
            self._drained = self.loop.create_future()
        return self._drained

    # --- Reading ---

    def hold(self) -> None:
        """Read no more for now."""
        if not self._is_held and not self._transport.is_closing():
            self._is_held = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on, unless what was written waits for its reader."""
        if self._is_held and not self._is_paused and not self._transport.is_closing():
            self._is_held = False
            self._transport.resume_reading()

    def drop(self, data_bytes: int) -> None:
        """Count what is read and no longer wanted; there is an end to that, too."""
        self._dropped_bytes += data_bytes
        if self._dropped_bytes > LINGER_BYTES_MAX:
            self.abort()

    # --- Ending ---

    def stop(self) -> None:
        """End once what is written is out."""
        self._is_ending = True
        self.arm(self.loop.time() + LINGER_SECONDS)
        self._transport.close()

    def abort(self) -> None:
        """End now."""
        self._is_ending = True
        self._transport.abort()

    def linger(self, seconds: float = LINGER_SECONDS) -> None:
        """Say that nothing more comes, and let the client read what it was told.

        Closed with unread bytes in its buffer, a socket takes back what it has sent.
        """
        self._is_ending = True
        self.arm(self.loop.time() + seconds)
        if self._transport.can_write_eof():
            self.resume()
            self._transport.write_eof()
        else:
            self._transport.close()

    # --- The deadlines ---

    def arm(self, deadline: float) -> None:
        """Move the deadline; the timer is only made anew when it would come too late."""
        self._deadline = deadline
        self._wake_at(deadline)

    def disarm(self) -> None:
        """Wait for as long as it takes."""
        self._deadline = FOREVER

    def _look_at_reader(self) -> None:
        """Give the client time to take something of what waits for it."""
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._reader_deadline = self.loop.time() + UNREAD_SECONDS
        self._wake_at(self._reader_deadline)

    def _wake_at(self, deadline: float) -> None:
        timer = self._timer
        if timer is None or timer.when() > deadline:
            if timer is not None:
                timer.cancel()
            self._timer = self.loop.call_at(deadline, self._expired)

    def _expired(self) -> None:
        self._timer = None
        if self.is_closed:
            return
        now = self.loop.time()
        unsent_bytes = self._transport.get_write_buffer_size()
        if self._reader_deadline <= now:
            if unsent_bytes >= self._unsent_bytes > 0:
                self.abort()
                return
            if unsent_bytes:
                self._look_at_reader()
            else:
                self._reader_deadline = FOREVER
        if self._deadline <= now and not self._is_over(now, unsent_bytes):
            return
        deadline = min(self._deadline, self._reader_deadline)
        if deadline != FOREVER:
            self._wake_at(deadline)

    def _is_over(self, now: float, unsent_bytes: int) -> bool:
        """The deadline has come; False when that ends the connection."""
        if self.is_responding():
            self.abort()
        elif unsent_bytes:  # for its reader as long as that takes any of it
            self._deadline = now + UNREAD_SECONDS
            if self._reader_deadline == FOREVER:
                self._look_at_reader()
            return True
        elif self._transport.is_closing():
            self.abort()
        elif self._is_ending:
            self.stop()
        else:
            # What it sends at this very moment must not be answered by a reset.
            self.linger(self.farewell_seconds)
        return False
