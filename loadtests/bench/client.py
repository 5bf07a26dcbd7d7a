"""A load generator in one process: keep-alive connections, each asking again when answered.

It parses as little as it can, because it shares the machine with what it measures: an answer with a
length ends at that length, a chunked one at its last chunk.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What one window saw."""

    answers: int = 0
    failures: int = 0
    latencies: list[float] = field(default_factory=list)


class Connection(asyncio.Protocol):
    """One connection that sends the same request over and over until told to stop."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self._request = request
        self._tally = tally
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._sent_at = 0.0
        self._is_stopping = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not _is_complete(self._buffer):
            return
        tally = self._tally
        if self._buffer.startswith(b"HTTP/1.1 200"):
            tally.answers += 1
            tally.latencies.append(time.perf_counter() - self._sent_at)
        else:
            tally.failures += 1
        self._buffer = b""
        if self._is_stopping:
            assert self._transport is not None
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_stopping:
            self._tally.failures += 1
        if not self.ended.done():
            self.ended.set_result(None)

    def stop(self) -> None:
        """Let the answer under way be the last."""
        self._is_stopping = True

    def _send(self) -> None:
        assert self._transport is not None
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)


def _is_complete(buffer: bytes) -> bool:
    head, found, body = buffer.partition(b"\r\n\r\n")
    if not found:
        return False
    lowered = head.lower()
    place = lowered.find(b"content-length:")
    if place >= 0:
        length = int(lowered[place + 15 :].split(b"\r\n", 1)[0])
        return len(body) >= length
    return body.endswith(b"0\r\n\r\n")


class Load:
    """So many connections against one address."""

    def __init__(self, host: str, port: int, request: bytes, connections: int) -> None:
        self._host = host
        self._port = port
        self._request = request
        self._count = connections
        self._open: list[Connection] = []
        self.tally = Tally()

    async def start(self) -> None:
        """Open the connections; each begins at once."""
        loop = asyncio.get_running_loop()
        for _ in range(self._count):
            _, protocol = await loop.create_connection(
                lambda: Connection(self._request, self.tally), self._host, self._port
            )
            self._open.append(protocol)

    async def window(self, seconds: float) -> Tally:
        """Measure for so long."""
        tally = self.tally = Tally()
        for connection in self._open:
            connection._tally = tally
        await asyncio.sleep(seconds)
        return tally

    async def stop(self) -> None:
        """Let every answer under way arrive, then close."""
        for connection in self._open:
            connection.stop()
        await asyncio.wait([connection.ended for connection in self._open], timeout=30)


def http_request(path: str, host: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of one POST."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
