"""The reference's way to its upstream: kept connections and answers read as they come."""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

JOINED_BYTES_MAX = 64 * 1024


class UpstreamGone(Exception):
    """The upstream closed or said something that is not HTTP."""


class Connection(asyncio.Protocol):
    """One connection to the upstream, of one answer at a time."""

    transport: asyncio.Transport

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._has_head = False
        self._is_whole = True
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._wake()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()
        self._wake()

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self._is_whole = True

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send a request; returns when the head of the answer is there. Raises UpstreamGone."""
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = self._is_whole = False
        for data in (head + body,) if len(body) < JOINED_BYTES_MAX else (head, body):
            self.transport.write(data)
        while not self._has_head:
            await self._more()

    async def piece(self) -> bytes:
        """What has come since the last time, b"" at the end. Raises UpstreamGone."""
        while not self._pieces:
            if self._is_whole:
                return b""
            await self._more()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        return data

    def leave(self) -> None:
        """Keep the connection for the next request, or drop it in the middle of an answer."""
        if self._is_whole and not self._is_lost and not self._pieces:
            self._pool.idle.append(self)
        else:
            self.transport.abort()

    async def _more(self) -> None:
        if self._is_lost:
            raise UpstreamGone
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Pool:
    """Connections to one address."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.idle: list[Connection] = []

    async def take(self) -> Connection:
        """An idle connection, or a new one. Raises OSError."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.transport.is_closing():
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: Connection(self), self._host, self._port)
        return made
