"""The parent's side of what the processes of one `gw serve` share.

Each worker has a socket to it from its birth (`link.py` is the other end). A worker that ends
closes it, and its leases end with it at once. Answers without ever waiting.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import cast

import msgspec

from actors.clock import Clock
from actors.limits.accounts import SharedWindows
from actors.limits.shared import LimitStatus
from actors.parent.link import (
    LINE_BYTES_MAX,
    Begin,
    CommandBatch,
    EnterMessage,
    FindSummary,
    LineBuffer,
    Message,
    ParentReply,
    ParentRequest,
    ReleaseMessage,
    RenewMessage,
    StoreSummary,
)
from metrics.logs import EventLog

# Summaries that hold for the rest of their minute in every worker, kept by the parent.
#
# The first one that is stored is everybody's. Only one minute is kept: the latest that any worker
# has named. Sans I/O.

ENTRIES_MAX = 500
BYTES_MAX = 64 * 1024 * 1024


class SharedCache:
    """The replies of the present minute, by their questions."""

    def __init__(self) -> None:
        self._minute = 0
        self._entries: dict[str, str] = {}
        self._size = 0

    def __repr__(self) -> str:
        return f"<SharedAnswers {len(self._entries)} of minute {self._minute}>"

    def find(self, question: str, minute: int) -> str | None:
        """Return the reply that was given to a question in this minute, if any."""
        return self._entries.get(question) if minute == self._minute else None

    def store(self, question: str, minute: int, text: str) -> str:
        """Keep a reply unless there is one; return the one that holds.

        Beyond the bounds the oldest ones go: a worker that asks for them again makes them anew.
        """
        if minute < self._minute:
            return text  # its maker was slow: the next minute has begun
        if minute > self._minute:
            self._minute, self._entries, self._size = minute, {}, 0
        found = self._entries.get(question)
        if found is not None:
            return found
        self._entries[question] = text
        self._size += len(text)
        while len(self._entries) > ENTRIES_MAX or self._size > BYTES_MAX:
            self._size -= len(self._entries.pop(next(iter(self._entries))))
        return text


# Of responses that a worker does not read. It asks about limits once at a time, and for summaries
# as often as the rate of the call logs lets its clients; a frozen one asks nothing.
UNREAD_BYTES_MAX = 4 * LINE_BYTES_MAX


class ParentServer:
    """Serves any number of workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._book = SharedWindows()
        self._cache = SharedCache()
        self._numbers = itertools.count()
        self._connections: set[_Connection] = set()

    def __repr__(self) -> str:
        return f"<ParentServer {self._book!r} {self._cache!r} {self.workers} workers>"

    @property
    def workers(self) -> int:
        """How many are served."""
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
        """Let go of some of the names that are not in use; to be called every second."""
        self._book.forget_idle(self._clock.monotonic())

    def close(self) -> None:
        """Let go of all workers."""
        for connection in list(self._connections):
            connection.close()


class _Connection(asyncio.Protocol):
    """One worker: lines come in, each is answered."""

    _decoder = msgspec.json.Decoder(ParentRequest)

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
        self._lines = LineBuffer()
        self._transport: asyncio.Transport
        self._log = EventLog("actors.parent")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._book.drop_leases(self._worker)
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if not self._respond(line):
                return
        if self._lines.size > LINE_BYTES_MAX:
            self._refuse("a line is too long")

    def close(self) -> None:
        """Let go of the worker."""
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

    def _response(self, request: ParentRequest) -> ParentReply:
        number = request.number
        match request.body:
            case Begin():
                self._book.drop_leases(self._worker)
                return ParentReply(number)
            case CommandBatch(messages):
                now = self._clock.monotonic()
                return ParentReply(number, [self._judged(message, now) for message in messages])
            case FindSummary(question, minute):
                return ParentReply(number, text=self._cache.find(question, minute))
            case StoreSummary(question, minute, text):
                return ParentReply(number, text=self._cache.store(question, minute, text))

    def _judged(self, message: Message, now: float) -> LimitStatus | None:
        book, worker = self._book, self._worker
        match message:
            case EnterMessage(name, slot, rpm, concurrency):
                return book.enter(name, (worker, slot), rpm=rpm, concurrency=concurrency, now=now)
            case RenewMessage(name, leases, window):
                for slot in leases:
                    book.lease(name, (worker, slot))
                for slot, age_seconds in window:
                    book.add_late(name, (worker, slot), at=now - age_seconds)
            case ReleaseMessage(name, slot, from_window):
                book.release(name, (worker, slot), from_window=from_window)
        return None

    def _refuse(self, why: str) -> None:
        self._log.error("worker_refused", why=why)
        self._transport.abort()
