"""Flow control towards a client: writes, and waiting until more may be written."""

from __future__ import annotations

import asyncio
from asyncio import Future

from tornado.iostream import StreamClosedError


class Outbound:
    """The sending side of one connection, with its flow control."""

    __slots__ = (
        "_drained",
        "_ready",
        "is_closed",
        "is_paused",
        "loop",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, ready: Future[None]) -> None:
        """`ready` is a done future, returned by writes that need not wait."""
        self.is_closed = False
        self.is_paused = False  # the transport's write buffer is full
        self.loop = loop
        self._ready = ready
        self._drained: Future[None] | None = None

    @property
    def unsent_bytes(self) -> int:
        """Written bytes that the system has not accepted yet."""
        return self.transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Write, unless the connection is closed."""
        if not self.is_closed:
            self.transport.write(data)

    def write(self, data: bytes) -> Future[None]:
        """Write; the future is done when more may be written, and fails if the client has left."""
        if self.is_closed:
            failed: Future[None] = self.loop.create_future()
            failed.set_exception(StreamClosedError())
            failed.exception()  # marks it as retrieved: awaiting it is optional
            return failed
        if data:
            self.transport.write(data)
        if not self.is_paused:
            return self._ready
        # One task waits at a time; a cancelled one has cancelled its future too.
        if self._drained is None or self._drained.done():
            self._drained = self.loop.create_future()
        return self._drained

    def resume(self) -> None:
        """The write buffer has room again."""
        self.is_paused = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def close(self, error: Exception | None) -> None:
        """The client has left."""
        self.is_closed = True
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_exception(StreamClosedError(error))
            drained.exception()  # marks it as retrieved: awaiting it is optional
