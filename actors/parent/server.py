"""The parent's side of what the processes of one `gw serve` share.

Each worker is started with a socket to it. A worker that ends closes it, and its permits end with
it. Replies are immediate.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import cast

import msgspec

from actors.clock import Clock
from actors.limits.status import LimitStatus
from actors.parent import protocol
from actors.parent.shared_cache import SharedCache
from actors.parent.windows import SharedWindows
from metrics.logs import EventLog

# Limit of responses that a worker does not read. It sends one batch of limits at a time, and
# requests for summaries at the rate limit of call logs; a frozen one sends nothing.
UNREAD_BYTES_MAX = 4 * protocol.LINE_BYTES_MAX


class ParentServer:
    """Serves any number of workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._book = SharedWindows()
        self._cache = SharedCache()
        self._numbers = itertools.count()
        self._connections: set[_Connection] = set()

    @property
    def workers(self) -> int:
        """The number of workers served."""
        return len(self._connections)

    async def attach(self, sock: socket.socket) -> None:
        """Serve one worker over a connected stream socket, until either end closes it."""
        worker = next(self._numbers)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(
            lambda: _Connection(self._book, self._cache, worker, self._clock, self._connections),
            sock=sock,
        )

    def forget_idle(self) -> None:
        """Drop some of the idle names; called every second."""
        self._book.forget_idle(self._clock.monotonic())

    def close(self) -> None:
        """Close the connections to all workers."""
        for connection in list(self._connections):
            connection.close()


class _Connection(asyncio.Protocol):
    """One worker: each of its lines gets a reply."""

    _decoder = msgspec.json.Decoder(protocol.ParentRequest)

    def __init__(
        self,
        book: SharedWindows,
        cache: SharedCache,
        worker: int,
        clock: Clock,
        connections: set[_Connection],
    ) -> None:
        self._book = book
        self._cache = cache
        self._worker = worker
        self._clock = clock
        self._connections = connections
        self._lines = protocol.LineBuffer()
        self._transport: asyncio.Transport
        self._log = EventLog("actors.parent")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._book.drop_permits(self._worker)
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if not self._respond(line):
                return
        if self._lines.size > protocol.LINE_BYTES_MAX:
            self._refuse("a line is too long")

    def close(self) -> None:
        """Close the connection to the worker."""
        self._transport.close()

    def _respond(self, line: bytes) -> bool:
        try:
            request = self._decoder.decode(line)
        except (msgspec.DecodeError, ValueError) as error:
            self._refuse(str(error))
            return False
        self._transport.write(msgspec.json.encode(self._response(request)) + b"\n")
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self._refuse("it does not read")
            return False
        return True

    def _response(self, request: protocol.ParentRequest) -> protocol.ParentReply:
        number = request.number
        match request.body:
            case protocol.Begin():
                self._book.drop_permits(self._worker)
                return protocol.ParentReply(number)
            case protocol.CommandBatch(messages):
                now = self._clock.monotonic()
                return protocol.ParentReply(
                    number, [self._judged(message, now) for message in messages]
                )
            case protocol.FindSummary(question, minute):
                return protocol.ParentReply(number, text=self._cache.find(question, minute))
            case protocol.StoreSummary(question, minute, text):
                return protocol.ParentReply(number, text=self._cache.store(question, minute, text))

    def _judged(self, message: protocol.LimitMessage, now: float) -> LimitStatus | None:
        book, worker = self._book, self._worker
        match message:
            case protocol.EnterMessage(name, slot, rpm, concurrency):
                return book.enter(name, (worker, slot), rpm=rpm, concurrency=concurrency, now=now)
            case protocol.RenewMessage(name, permits, window):
                for slot in permits:
                    book.permit(name, (worker, slot))
                for slot, age_seconds in window:
                    book.add_late(name, (worker, slot), at=now - age_seconds)
            case protocol.ReleaseMessage(name, slot, from_window):
                book.release(name, (worker, slot), from_window=from_window)
        return None

    def _refuse(self, why: str) -> None:
        self._log.error("worker_refused", why=why)
        self._transport.abort()
