"""A client's connection as `connection.py` has it, of which an event loop carries many at once."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

from loadtests.rig.client import CHAT, chat_body
from loadtests.rig.response import Disconnected, Response, ResponseReader, request_bytes
from loadtests.rig.waiting import PATIENCE_SECONDS


class AsyncConnection:
    """One connection, on which any bytes may be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._responses = ResponseReader()
        self.is_kept = True  # as far as the server has said

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        trust: ssl.SSLContext | None = None,
        server_name: str | None = None,
        receive_buffer_bytes: int | None = None,
        reads: bool = True,
    ) -> Self:
        """Connect, with so small a buffer if wanted, to read nothing if wanted. Raises OSError."""
        sock = socket.socket()
        try:
            sock.setblocking(False)
            if receive_buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
            reader, writer = await asyncio.open_connection(
                sock=sock, ssl=trust, server_hostname=server_name
            )
            if not reads:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
        except BaseException:
            sock.close()
            raise
        return cls(reader, writer)

    @property
    def is_open(self) -> bool:
        """May another request be sent, as far as the client can know?"""
        if not self.is_kept or self.reader.at_eof() or self.reader.exception():
            return False
        # Its end may have come and not been read yet; libraries look, too.
        ended = select.poll()
        ended.register(self.writer.get_extra_info("socket"), select.POLLIN | select.POLLRDHUP)
        return not ended.poll(0)

    async def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def response(
        self, response: Response | None = None, *, has_body: bool = True
    ) -> Response:
        """The next final response, put into `response` as it comes. Raises Disconnected."""
        response = response or Response()
        for _ in self._responses.read(response, has_body=has_body):
            await self._receive()
        if response.is_broken or response.headers.get("connection", "").lower() == "close":
            self.is_kept = False
        return response

    async def head(self) -> bytes:
        """The next head as it stands: of a response that is not final."""
        head = bytearray()
        for _ in self._responses.read_head(head):
            await self._receive()
        return bytes(head)

    async def exactly(self, size: int) -> bytes:
        """So many bytes that belong to no response."""
        while len(self._responses.pending) < size:
            await self._receive()
            assert not self._responses.has_ended
        return self._responses.take(size)

    async def ended(self) -> bool:
        """Read what is left; True when that is nothing and the server has closed."""
        try:
            return not self._responses.take() + await self.reader.read()
        except ConnectionResetError:
            return True

    async def _receive(self) -> None:
        try:
            data = await self.reader.read(65536)
        except ConnectionError:
            data = b""
        self._responses.feed(data)

    def leave(self) -> None:
        """Close it without a word, whatever it was doing."""
        self.is_kept = False
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close it as one does who is done."""
        self.is_kept = False
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


async def exchange(
    url: str,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    headers: Mapping[str, str],
    response: Response | None = None,
) -> Response:
    """One request on a connection of its own; its response is put into `response` as it comes.

    Raises OSError.
    """
    response, parts = response or Response(), urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        connection = await AsyncConnection.open(parts.hostname, parts.port)
        try:
            await connection.send(request_bytes(method, path, headers, body, host=parts.netloc))
            return await connection.response(response)
        finally:
            connection.leave()


async def chat(url: str, key: str, response: Response | None = None, **members: Any) -> Response:
    """One chat call of many at once; it never raises for what the gateway does."""
    response = response or Response()
    body = json.dumps(chat_body(**members), separators=(",", ":")).encode()
    headers = {"Authorization": f"Bearer {key}"}
    try:
        return await exchange(url, "POST", CHAT, body, headers=headers, response=response)
    except (Disconnected, OSError):
        response.is_broken = True
        return response
