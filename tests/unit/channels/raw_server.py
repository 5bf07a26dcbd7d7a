"""An HTTP upstream written by hand, byte for byte, so that it can also misbehave."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self

from channels.http.client import HttpClient
from channels.http.interfaces import UpstreamRequest

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Peer:
    """One connection of the client under test."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: "RawServer"
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.number = server.connections  # of the connection, from 1
        self._server = server

    async def request(self) -> tuple[bytes, bytes]:
        """Read one request, and note it: head and body. IncompleteReadError when none comes."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request = head, await self.reader.readexactly(length)
        self._server.requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        """Write and wait until the client has room."""
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        self._server.gone.set()

    def close(self) -> None:
        """Close in an orderly way."""
        self.writer.close()

    def reset(self) -> None:
        """Close with a reset, whether or not all has been read."""
        linger = struct.pack("ii", 1, 0)  # not at all
        peer = self.writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class RawServer:
    """Runs `script` for every connection; a context manager."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.connections = 0
        self.requests: list[tuple[bytes, bytes]] = []
        self.gone = asyncio.Event()  # a client for whose end a script has waited
        self.errors: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not self.errors, self.errors

    def request(self, body: bytes = b"{}", method: str = "POST") -> UpstreamRequest:
        """A request to this server."""
        return UpstreamRequest(
            method,
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            (("Content-Type", "application/json"), ("X-Test", "1")),
            body,
        )

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        peer = Peer(reader, writer, self)
        task = asyncio.get_running_loop().create_task(self._run(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, peer: Peer) -> None:
        try:
            await self._script(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left between requests
        except AssertionError as error:
            self.errors.append(error)
        except asyncio.CancelledError:
            peer.reset()
            raise
        finally:
            peer.close()  # what is still buffered goes out first


def chunk(data: bytes) -> bytes:
    """One piece of a body in chunked transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def answering(peer: Peer) -> None:
    """A script that answers every request."""
    while True:
        await peer.request()
        await peer.send(OK)


def once(response: bytes) -> Script:
    """A script that answers one request and ends the connection in an orderly way."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(response)
        peer.writer.write_eof()
        await peer.gone()

    return script


def holding(response: bytes) -> Script:
    """A script that answers one request and waits until the client leaves."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(response)
        await peer.gone()

    return script


@asynccontextmanager
async def new_http(connect_seconds: float = 5.0) -> AsyncIterator[HttpClient]:
    """A client that is closed at the end."""
    http = HttpClient(connect_seconds=connect_seconds)
    try:
        yield http
    finally:
        await http.close()


@contextmanager
def silent() -> Iterator[int]:
    """A port of 127.0.0.1 that lets whoever comes wait: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        try:
            yield address[1]
        finally:
            for filler in fillers:
                filler.close()
