"""A client that reports exactly what it saw of one request: nothing, a part, a whole response.

It tries nothing again. A connection is kept where the server lets it, as most libraries do.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self

# Far above what any call here takes, and any time-out of the gateway: such a wait is a hang.
HANGS_SECONDS = 60.0

# How it ended: `nothing` came; the response was `cut`; it is `whole`; the client `left`; it `hung`.
End = Literal["nothing", "cut", "whole", "left", "hung"]


@dataclass
class Seen:
    """What the client has seen by now; names of headers in lower case, status 0 without a head."""

    end: End = "nothing"
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    @property
    def trace(self) -> str:
        """The id of the call, empty where no head has come."""
        return self.headers.get("x-gateway-trace", "")


class Connection:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._is_kept = True

    @classmethod
    async def open(cls, port: int, *, receive_bytes: int | None = None, reads: bool = True) -> Self:
        """Connect, with so small a buffer if wanted, to read nothing if wanted. Raises OSError."""
        sock = socket.socket()
        try:
            sock.setblocking(False)
            if receive_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=sock)
            if not reads:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
        except BaseException:
            sock.close()
            raise
        return cls(reader, writer)

    @property
    def is_open(self) -> bool:
        """May another request be sent, as far as the client can know?"""
        if not self._is_kept or self._reader.at_eof() or self._reader.exception():
            return False
        # Its end may have come and not been read yet; libraries look, too.
        ended = select.poll()
        ended.register(self._writer.get_extra_info("socket"), select.POLLIN | select.POLLRDHUP)
        return not ended.poll(0)

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self._writer.write(data)

    async def ask(self, request: bytes, seen: Seen) -> None:
        """Send a request and note what comes back. Raises nothing that the server can cause."""
        try:
            async with asyncio.timeout(HANGS_SECONDS):
                self._writer.write(request)
                await self._read(seen)
                seen.end = "whole"
        except TimeoutError:
            seen.end = "hung"
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            seen.end = "cut" if seen.status else "nothing"
        if seen.end != "whole" or seen.headers.get("connection", "").lower() == "close":
            self.leave()

    def leave(self) -> None:
        """Close it, whatever it was doing."""
        self._is_kept = False
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close it as one does who is done."""
        self._is_kept = False
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self, seen: Seen) -> None:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        seen.headers = {name.lower(): value.strip() for name, _, value in pairs}
        seen.status = int(first.split(" ", 2)[1])
        if seen.headers.get("transfer-encoding", "").lower() == "chunked":
            await self._read_chunks(seen)
        else:
            await self._read_bytes(int(seen.headers.get("content-length", "0")), seen)

    async def _read_chunks(self, seen: Seen) -> None:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            await self._read_bytes(size, seen)
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")

    async def _read_bytes(self, left: int, seen: Seen) -> None:
        while left:
            data = await self._reader.read(min(left, 65536))
            if not data:
                raise EOFError
            seen.body += data
            left -= len(data)
