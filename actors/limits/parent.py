"""A worker's way to its parent, which keeps the limits of all workers of one `gw serve`.

One socket, made before the worker was started: there is nothing to find, and nobody else can come.
It is never opened again; after an answer that did not come in time, `connect` says over the same
socket that everything is said anew, and answers to earlier questions are passed over.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Sequence
from typing import cast

import msgspec

from actors.limits.backend import BackendUnavailable
from actors.limits.messages import LINE_BYTES_MAX, Request, Response, message
from actors.limits.standing import Standing
from actors.limits.words import Word

# The parent serves nobody, so that it answers within a millisecond; it may be collecting metrics.
ANSWER_SECONDS = 0.25
CONNECT_SECONDS = 1.0
# A time-out is waited for in so many steps, so that a loop that was busy for as long as all of them
# still reads an answer that has long been there.
STEPS = 5


class ParentBackend:
    """The worker's end of the socket `sock`."""

    name = "parent"
    leases_expire = False  # they end with the socket

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._numbers = itertools.count(1)
        self._answers: _Answers | None = None

    def __repr__(self) -> str:
        return f"<ParentBackend {self._answers!r}>"

    async def connect(self) -> None:
        """Begin anew."""
        if self._answers is None:
            loop = asyncio.get_running_loop()
            _, self._answers = await loop.create_unix_connection(_Answers, sock=self._sock)
        await self._ask(None, CONNECT_SECONDS)

    async def call(self, words: Sequence[Word], *, patience: int = 1) -> Sequence[Standing | None]:
        """Say a batch in one round trip."""
        return await self._ask(words, ANSWER_SECONDS * patience)

    async def close(self) -> None:
        """Close the socket: what this process holds is given back with it."""
        if self._answers is not None:
            self._answers.transport.close()
        else:
            self._sock.close()

    async def _ask(self, words: Sequence[Word] | None, seconds: float) -> Sequence[Standing | None]:
        answers = self._answers
        assert answers is not None
        request = Request(
            next(self._numbers), None if words is None else [message(word) for word in words]
        )
        reply = answers.expect(request.number)
        answers.transport.write(msgspec.json.encode(request) + b"\n")
        try:
            for _ in range(STEPS):
                await asyncio.wait([reply], timeout=seconds / STEPS)
                if reply.done():
                    return reply.result()
        finally:
            answers.expect_none()
        raise BackendUnavailable(f"no answer within {seconds:g} s")


class _Answers(asyncio.Protocol):
    """Reads the parent's answers; one question at a time is waited for."""

    _decoder = msgspec.json.Decoder(Response)

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._unfinished = bytearray()
        self._number = 0
        self._reply: asyncio.Future[Sequence[Standing | None]] | None = None

    def __repr__(self) -> str:
        return "closed" if self.transport.is_closing() else "open"

    def expect(self, number: int) -> asyncio.Future[Sequence[Standing | None]]:
        """Return what will have the answer of this number, in place of any earlier one."""
        reply: asyncio.Future[Sequence[Standing | None]]
        reply = asyncio.get_running_loop().create_future()
        self._number, self._reply = number, reply
        if self.transport.is_closing():
            self._fail("the parent has ended")
        return reply

    def expect_none(self) -> None:
        """Nobody waits for an answer any more."""
        self._reply = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the parent has ended")

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._unfinished += line
            whole, self._unfinished = self._unfinished, bytearray()
            response = self._decoder.decode(whole)
            if response.number == self._number and self._reply is not None:
                reply, self._reply = self._reply, None
                if not reply.done():
                    reply.set_result(response.standings)
        self._unfinished += rest
        if len(self._unfinished) > LINE_BYTES_MAX:
            self.transport.abort()

    def _fail(self, why: str) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_exception(BackendUnavailable(why))
