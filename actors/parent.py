"""What the workers of one `gw serve` share through their parent: both ends of the socket.

The socket is made before the worker is started: it needs no address, and no other process can
connect. It is never reopened; a response that is too late is ignored.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Sequence
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from actors.clock import Clock
from actors.limits.accounts import SharedWindows
from actors.limits.shared import (
    BackendUnavailable,
    EnterCommand,
    LimitCommand,
    LimitStatus,
    ReleaseCommand,
    RenewCommand,
)
from metrics.logs import EventLog

# Splits the bytes of a socket into lines.


class LineBuffer:
    """Holds an incomplete line; `size` is its length."""

    def __init__(self) -> None:
        self._unfinished = bytearray()

    @property
    def size(self) -> int:
        """The number of bytes held."""
        return len(self._unfinished)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, without their ends."""
        first, *others = data.split(b"\n")
        self._unfinished += first
        if not others:
            return []
        lines = [bytes(self._unfinished), *others[:-1]]
        self._unfinished = bytearray(others[-1])
        return lines


# The protocol of a worker and its parent: one line of JSON for each request and response.
#
# A response has the number of its request, which identifies a late one. Messages about limits are
# the commands of `actors/limits/shared.py`.

# A reconnecting worker sends 16 pieces of 200 requests in one line, of some 40 bytes each; a stored
# summary is the longest line, with every quote escaped.
RESPONSE_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = 8 * RESPONSE_BYTES_MAX


class EnterMessage(Struct, array_like=True, tag="enter"):
    """See `words.EnterCommand`."""

    name: str
    slot: int
    rpm: int | None
    concurrency: int | None


class RenewMessage(Struct, array_like=True, tag="keep"):
    """See `words.RenewCommand`."""

    name: str
    permits: tuple[int, ...]
    window: tuple[tuple[int, float], ...]


class ReleaseMessage(Struct, array_like=True, tag="release"):
    """See `words.ReleaseCommand`."""

    name: str
    slot: int
    from_window: bool


Message: TypeAlias = EnterMessage | RenewMessage | ReleaseMessage


class Begin(Struct, array_like=True, tag="begin"):
    """Drop what this worker has in flight; it is reported again."""


class CommandBatch(Struct, array_like=True, tag="limits"):
    """Commands for limits; the response has as many `statuses`."""

    messages: list[Message]


class FindSummary(Struct, array_like=True, tag="find"):
    """Request a summary stored by another worker in this minute: `text`, or None."""

    question: str
    minute: int


class StoreSummary(Struct, array_like=True, tag="store"):
    """Store a summary for the rest of its minute. The response's `text` is the first one stored."""

    question: str
    minute: int
    text: str


class ParentRequest(Struct, array_like=True):
    """A worker's line."""

    number: int
    body: Begin | CommandBatch | FindSummary | StoreSummary


class ParentReply(Struct, array_like=True):
    """The parent's line."""

    number: int
    statuses: Sequence[LimitStatus | None] = ()  # of `enter` commands; None for others
    text: str | None = None


def message(command: LimitCommand) -> Message:
    """Return the message for `command`."""
    match command:
        case EnterCommand():
            return EnterMessage(command.name, command.slot, command.rpm, command.concurrency)
        case RenewCommand():
            return RenewMessage(command.name, command.permits, command.window)
        case ReleaseCommand():
            return ReleaseMessage(command.name, command.slot, command.from_window)


# The parent serves no clients, so it replies within a millisecond, unless it is collecting metrics.
REPLY_SECONDS = 0.25
# A timeout is waited for in so many steps, so that a loop that was blocked for all of it still
# reads a response that has arrived.
STEPS = 5


class ParentUnavailable(Exception):
    """The parent does not reply in time, or has ended."""


class ParentLink:
    """The worker's end of the socket `sock`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._numbers = itertools.count(1)
        self._responses: _Responses | None = None

    def __repr__(self) -> str:
        return f"<ParentLink {self._responses!r}>"

    async def open(self) -> None:
        """Attach the socket to this loop, once, before the first request."""
        assert self._responses is None
        loop = asyncio.get_running_loop()
        _, self._responses = await loop.create_unix_connection(_Responses, sock=self._sock)

    async def ask(
        self,
        body: Begin | CommandBatch | FindSummary | StoreSummary,
        *,
        seconds: float = REPLY_SECONDS,
    ) -> ParentReply:
        """Send a request and wait for its response. Raises ParentUnavailable."""
        responses = self._responses
        if responses is None or responses.transport.is_closing():
            raise ParentUnavailable("the parent has ended")
        number = next(self._numbers)
        reply = responses.expect(number)
        try:
            responses.transport.write(msgspec.json.encode(ParentRequest(number, body)) + b"\n")
            for _ in range(STEPS):
                await asyncio.wait([reply], timeout=seconds / STEPS)
                if reply.done():
                    return reply.result()
        finally:
            responses.forget(number)
        raise ParentUnavailable(f"no answer within {seconds:g} s")

    async def find(self, question: str, minute: int) -> bytes | None:
        """Return the summary stored by another worker in this minute. Raises ParentUnavailable."""
        found = (await self.ask(FindSummary(question, minute))).text
        return None if found is None else found.encode()

    async def store(self, question: str, minute: int, response: bytes) -> bytes:
        """Store a summary in UTF-8 for all workers; return the first one stored.

        Raises ParentUnavailable. One that is too long is only used by this worker.
        """
        if len(response) > RESPONSE_BYTES_MAX:
            return response
        held = (await self.ask(StoreSummary(question, minute, response.decode()))).text
        return response if held is None else held.encode()

    async def close(self) -> None:
        """Close the socket, which releases what this process holds."""
        if self._responses is not None:
            self._responses.transport.close()
        else:
            self._sock.close()


class _Responses(asyncio.Protocol):
    """Parses the parent's lines and resolves the requests by number."""

    _decoder = msgspec.json.Decoder(ParentReply)

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._lines = LineBuffer()
        self._replies: dict[int, asyncio.Future[ParentReply]] = {}

    def __repr__(self) -> str:
        return "closed" if self.transport.is_closing() else f"{len(self._replies)} asked"

    def expect(self, number: int) -> asyncio.Future[ParentReply]:
        """Return the future of the response with this number."""
        reply: asyncio.Future[ParentReply] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        return reply

    def forget(self, number: int) -> None:
        """Drop a request that is no longer awaited."""
        self._replies.pop(number, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_exception(ParentUnavailable("the parent has ended"))

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            response = self._decoder.decode(line)
            reply = self._replies.pop(response.number, None)
            if reply is not None and not reply.done():
                reply.set_result(response)
        if self._lines.size > LINE_BYTES_MAX:
            self.transport.abort()


# The limits of a worker, kept by its parent for all workers.

CONNECT_SECONDS = 1.0


class ParentBackend:
    """Uses the link that the worker was started with."""

    name = "parent"
    permits_expire = False  # they end with the link

    def __init__(self, link: ParentLink) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<ParentBackend {self._link!r}>"

    async def connect(self) -> None:
        """Start again over the same link: earlier messages arrive first."""
        try:
            await self._link.ask(Begin(), seconds=CONNECT_SECONDS)
        except ParentUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Send a batch in one round trip."""
        batch = CommandBatch([message(command) for command in commands])
        try:
            return (await self._link.ask(batch, seconds=REPLY_SECONDS * timeout_factor)).statuses
        except ParentUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def close(self) -> None:
        """Close the link, which releases what this process holds."""
        await self._link.close()


# The parent's side of what the processes of one `gw serve` share.
#
# Each worker is started with a socket to it. A worker that ends closes it, and its permits end with
# it. Replies are immediate.

# Summaries that are valid for the rest of their minute in every worker, kept by the parent.
#
# The first one stored is used by all. Only one minute is kept: the latest that any worker has
# named. Sans I/O.

ENTRIES_MAX = 500
BYTES_MAX = 64 * 1024 * 1024


class SharedCache:
    """The summaries of the present minute, by question."""

    def __init__(self) -> None:
        self._minute = 0
        self._entries: dict[str, str] = {}
        self._size = 0

    def __repr__(self) -> str:
        return f"<SharedAnswers {len(self._entries)} of minute {self._minute}>"

    def find(self, question: str, minute: int) -> str | None:
        """Return the summary stored for a question in this minute, if any."""
        return self._entries.get(question) if minute == self._minute else None

    def store(self, question: str, minute: int, text: str) -> str:
        """Store a summary unless there is one; return the one that is stored.

        Beyond the bounds the oldest ones are dropped: a worker that needs one makes it again.
        """
        if minute < self._minute:
            return text  # too slow: the next minute has begun
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


# Limit of responses that a worker does not read. It sends one batch of limits at a time, and
# requests for summaries at the rate limit of call logs; a frozen one sends nothing.
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
        self._book.drop_permits(self._worker)
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if not self._respond(line):
                return
        if self._lines.size > LINE_BYTES_MAX:
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

    def _response(self, request: ParentRequest) -> ParentReply:
        number = request.number
        match request.body:
            case Begin():
                self._book.drop_permits(self._worker)
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
            case RenewMessage(name, permits, window):
                for slot in permits:
                    book.permit(name, (worker, slot))
                for slot, age_seconds in window:
                    book.add_late(name, (worker, slot), at=now - age_seconds)
            case ReleaseMessage(name, slot, from_window):
                book.release(name, (worker, slot), from_window=from_window)
        return None

    def _refuse(self, why: str) -> None:
        self._log.error("worker_refused", why=why)
        self._transport.abort()
