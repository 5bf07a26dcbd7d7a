"""Bytes that an upstream sends unasked on a kept connection never reach the next request."""

import asyncio
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from channels.http.client import HttpClient
from channels.http.interfaces import UpstreamRequest
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.support.aio import both_loops
from tests.support.certificates import contexts
from tests.support.rows import cases, each
from tests.unit.channels.raw_server import (
    OK,
)

pytestmark = both_loops

NAME = "localhost"
UNASKED = {
    "a whole answer": b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nstolen!",
    "two": b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nstolen!" * 2,
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "one byte": b"H",
    "an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
    "anything": b"\x00\xff garbage",
}


def response_of(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class BlockingServer:
    """One connection after the other, without a loop: what it sends is there when it returns."""

    def __init__(
        self, listener: socket.socket, tls: ssl.SSLContext | None, body: bytes = b"{}"
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._peer: Any = None
        self.connections = 0
        scheme = "http" if tls is None else "https"
        url = f"{scheme}://{NAME}:{listener.getsockname()[1]}/v1"
        self.request = UpstreamRequest("POST", url, (), body)

    def accept(self) -> None:
        """Take the next connection."""
        if self._peer is not None:
            self._peer.close()
        peer, _ = self._listener.accept()
        peer.settimeout(PATIENCE_SECONDS)
        self._peer = peer if self._tls is None else self._tls.wrap_socket(peer, server_side=True)
        self.connections += 1

    def serve(self, data: bytes) -> None:
        """Read a request, and answer it with this."""
        read, end = bytearray(), b"\r\n\r\n" + bytes(self.request.body)
        while len(read) < len(end) or not read.endswith(end):
            piece = self._peer.recv(65536)
            assert piece
            read += piece
        self.say(data)

    def say(self, data: bytes) -> None:
        """Send this."""
        self._peer.sendall(data)

    def is_closed(self) -> bool:
        """Wait until the other end has closed the connection."""
        try:
            return not self._peer.recv(1)
        except (ConnectionError, ssl.SSLError):
            return True

    def close(self, *, resets: bool = False) -> None:
        """Close the connection; the client, whose loop stands still, learns of it late."""
        if resets:
            linger = struct.pack("ii", 1, 0)  # not at all
            self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if self._peer is not None:
            self._peer.close()


def wait_for_bytes(http: HttpClient) -> None:
    """Wait until the system has something for the one connection there is."""
    (place,) = http._routes.values()
    (one,) = place.pool._all
    assert select.select([one._transport.get_extra_info("socket")], [], [], PATIENCE_SECONDS)[0]


@contextmanager
def serving(tls: ssl.SSLContext | None, body: bytes = b"{}") -> Iterator[BlockingServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        server = BlockingServer(listener, tls, body)
        try:
            yield server
        finally:
            server.close()


async def request_of(
    http: HttpClient, server: BlockingServer, sends: bytes, *, dials: bool
) -> bytes:
    """Make a request that the server answers with this, and read the answer."""

    def play() -> None:
        if dials:
            server.accept()
        server.serve(sends)

    playing = asyncio.ensure_future(asyncio.to_thread(play))
    try:
        return await (await http.open(server.request)).read(1000)
    finally:
        await playing


@each("unrequested", UNASKED.values())
@each("comes", ["with the answer", "while idle", "just being taken"])
@each("is_secure", [False, True])
async def test_next_request_gets_its_own_answer_on_another_connection(
    is_secure: bool, comes: str, unrequested: bytes
) -> None:
    served, trusting = contexts(NAME) if is_secure else (None, None)

    with serving(served) as server:
        tls = None if trusting is None else lambda: trusting
        http = HttpClient(connect_seconds=5, tls=tls)
        first = response_of(b"first") + (unrequested if comes == "with the answer" else b"")
        assert await request_of(http, server, first, dials=True) == b"first"
        if comes != "with the answer":
            server.say(unrequested)
            wait_for_bytes(http)  # and the loop has no turn to read them
        if comes == "while idle":
            assert await asyncio.to_thread(server.is_closed)
        assert await request_of(http, server, response_of(b"second"), dials=True) == b"second"
        assert server.connections == 2
        await http.close()


@cases(
    "size, resets", (2, False), (200_000, False), (20_000_000, False), (2, True), (200_000, True)
)
async def test_stale_connection_is_replaced(size: int, resets: bool) -> None:
    with serving(None, b"x" * size) as server:
        http = HttpClient(connect_seconds=5)
        for _ in range(3):
            assert await request_of(http, server, OK, dials=True) == b"{}"
            server.close(resets=resets)
        assert server.connections == 3
        await http.close()
