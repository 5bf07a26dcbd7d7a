"""A worker's way to its parent, which keeps what the workers of one `gw serve` share.

One socket, made before the worker was started: there is nothing to find, and no other process can
connect. It is never opened again; a response that did not come in time is passed over when it
comes.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import cast

import msgspec

from actors.parent.lines import LineBuffer
from actors.parent.messages import (
    LINE_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    Begin,
    CommandBatch,
    FindSummary,
    ParentReply,
    ParentRequest,
    StoreSummary,
)

# The parent serves no client, so that it answers within a millisecond; it may be collecting
# metrics.
REPLY_SECONDS = 0.25
# A time-out is waited for in so many steps, so that a loop that was busy for as long as all of them
# still reads a response that has long been there.
STEPS = 5


class ParentUnavailable(Exception):
    """The parent does not answer in time, or has ended."""


class ParentLink:
    """The worker's end of the socket `sock`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._numbers = itertools.count(1)
        self._responses: _Responses | None = None

    def __repr__(self) -> str:
        return f"<ParentLink {self._responses!r}>"

    async def open(self) -> None:
        """Make the socket this loop's; to be done once, before anything is asked."""
        assert self._responses is None
        loop = asyncio.get_running_loop()
        _, self._responses = await loop.create_unix_connection(_Responses, sock=self._sock)

    async def ask(
        self,
        body: Begin | CommandBatch | FindSummary | StoreSummary,
        *,
        seconds: float = REPLY_SECONDS,
    ) -> ParentReply:
        """Ask, and wait so long for the response. Raises ParentUnavailable."""
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
        """Return what another worker has answered in this minute. Raises ParentUnavailable."""
        found = (await self.ask(FindSummary(question, minute))).text
        return None if found is None else found.encode()

    async def store(self, question: str, minute: int, response: bytes) -> bytes:
        """Give a reply in UTF-8 to all workers; return the one that was first.

        Raises ParentUnavailable. One that is too long stays this worker's.
        """
        if len(response) > RESPONSE_BYTES_MAX:
            return response
        held = (await self.ask(StoreSummary(question, minute, response.decode()))).text
        return response if held is None else held.encode()

    async def close(self) -> None:
        """Close the socket: what this process holds is given back with it."""
        if self._responses is not None:
            self._responses.transport.close()
        else:
            self._sock.close()


class _Responses(asyncio.Protocol):
    """Reads the parent's lines and hands each to who waits for its number."""

    _decoder = msgspec.json.Decoder(ParentReply)

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._lines = LineBuffer()
        self._replies: dict[int, asyncio.Future[ParentReply]] = {}

    def __repr__(self) -> str:
        return "closed" if self.transport.is_closing() else f"{len(self._replies)} asked"

    def expect(self, number: int) -> asyncio.Future[ParentReply]:
        """Return what will have the response of this number."""
        reply: asyncio.Future[ParentReply] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        return reply

    def forget(self, number: int) -> None:
        """Forget a request whose reply is no longer awaited."""
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
