"""The worker's end of the socket to its parent.

The socket is made before the worker is started: it needs no address, and no other process can
connect. It is never reopened; a response that is too late is ignored.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import cast

import msgspec

from actors.parent import protocol

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

    async def open(self) -> None:
        """Attach the socket to this loop, once, before the first request."""
        assert self._responses is None
        loop = asyncio.get_running_loop()
        _, self._responses = await loop.create_unix_connection(_Responses, sock=self._sock)

    async def ask(
        self,
        body: protocol.Begin | protocol.CommandBatch | protocol.FindSummary | protocol.StoreSummary,
        *,
        seconds: float = REPLY_SECONDS,
    ) -> protocol.ParentReply:
        """Send a request and wait for its response. Raises ParentUnavailable."""
        responses = self._responses
        if responses is None or responses.transport.is_closing():
            raise ParentUnavailable("the parent has ended")
        number = next(self._numbers)
        reply = responses.expect(number)
        try:
            responses.transport.write(
                msgspec.json.encode(protocol.ParentRequest(number, body)) + b"\n"
            )
            for _ in range(STEPS):
                await asyncio.wait([reply], timeout=seconds / STEPS)
                if reply.done():
                    return reply.result()
        finally:
            responses.forget(number)
        raise ParentUnavailable(f"no answer within {seconds:g} s")

    async def find(self, question: str, minute: int) -> bytes | None:
        """Return the summary stored by another worker in this minute. Raises ParentUnavailable."""
        found = (await self.ask(protocol.FindSummary(question, minute))).text
        return None if found is None else found.encode()

    async def store(self, question: str, minute: int, response: bytes) -> bytes:
        """Store a summary in UTF-8 for all workers; return the first one stored.

        Raises ParentUnavailable. One that is too long is only used by this worker.
        """
        if len(response) > protocol.RESPONSE_BYTES_MAX:
            return response
        held = (await self.ask(protocol.StoreSummary(question, minute, response.decode()))).text
        return response if held is None else held.encode()

    async def close(self) -> None:
        """Close the socket, which releases what this process holds."""
        if self._responses is not None:
            self._responses.transport.close()
        else:
            self._sock.close()


class _Responses(asyncio.Protocol):
    """Parses the parent's lines and resolves the requests by number."""

    _decoder = msgspec.json.Decoder(protocol.ParentReply)

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._lines = protocol.LineBuffer()
        self._replies: dict[int, asyncio.Future[protocol.ParentReply]] = {}

    def expect(self, number: int) -> asyncio.Future[protocol.ParentReply]:
        """Return the future of the response with this number."""
        reply: asyncio.Future[protocol.ParentReply] = asyncio.get_running_loop().create_future()
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
        if self._lines.size > protocol.LINE_BYTES_MAX:
            self.transport.abort()
