"""The HTTP client, ended early, or on a transport that a test holds."""

import asyncio
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from channels.errors import UpstreamCut, UpstreamUnreachable
from channels.http.client import HttpClient
from channels.http.connection import UpstreamConnection
from channels.http.interfaces import UpstreamRequest
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.support.aio import both_loops, eventually
from tests.support.certificates import contexts
from tests.support.rows import cases, each
from tests.unit.channels.raw_server import (
    OK,
    STREAM,
    Peer,
    RawServer,
    answering,
    chunk,
    holding,
    new_http,
)

pytestmark = both_loops


async def test_cancelled_wait_closes_the_connection_at_once() -> None:
    async with RawServer(holding(b"")) as server, new_http() as http:
        task = asyncio.ensure_future(http.open(server.request()))
        await eventually(lambda: bool(server.requests), what="the request")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()


async def test_close_breaks_the_connection_of_an_unread_answer_at_once() -> None:
    async with RawServer(holding(STREAM + chunk(b"data: 1\n\n"))) as server, new_http() as http:
        response = await http.open(server.request())
        pieces = response.chunks()
        assert await anext(pieces) == b"data: 1\n\n"
        response.close()
        response.close()  # harmless
        await server.gone.wait()
        with pytest.raises(UpstreamCut):
            await anext(pieces)


async def test_close_after_the_end_keeps_the_connection() -> None:
    async with RawServer(answering) as server, new_http() as http:
        for _ in range(3):
            response = await http.open(server.request())
            assert [piece async for piece in response.chunks()] == [b"{}"]
            response.close()
        assert server.connections == 1
        assert repr(response) == "<Http1Response 200 closed 0 bytes waiting>"


@cases("is_head_sent", True, False)
async def test_closing_the_wire_wakes_whoever_waits(is_head_sent: bool) -> None:
    came, opened = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        if is_head_sent:
            await peer.send(STREAM)
        came.set()
        await peer.gone()

    async with RawServer(script) as server:
        http = HttpClient(connect_seconds=5)
        await (await http.open(server.request())).read(100)

        async def call() -> None:
            pieces = (await http.open(server.request())).chunks()
            opened.set()
            await anext(pieces)

        task = asyncio.ensure_future(call())
        await (opened if is_head_sent else came).wait()
        assert repr(http) == "<HttpClient open [<OriginPool 1 connections, 0 idle>]>"
        await http.close()
        assert repr(http) == "<HttpClient closed [<OriginPool 0 connections, 0 idle>]>"
        with pytest.raises(UpstreamCut if is_head_sent else UpstreamUnreachable):
            await task
        await server.gone.wait()


async def test_call_cancelled_as_its_connection_is_made_leaves_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = UpstreamConnection.connection_made

    async with RawServer(Peer.gone) as server:
        http = HttpClient(connect_seconds=5)
        task = asyncio.ensure_future(http.open(server.request()))

        def cancelled(self: UpstreamConnection, transport: asyncio.BaseTransport) -> None:
            made(self, transport)
            task.cancel()

        monkeypatch.setattr(UpstreamConnection, "connection_made", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()
        await http.close()


async def test_reading_resumes_after_a_cancelled_wait() -> None:
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        await go_on.wait()
        await peer.send(chunk(b"data: 1\n\n") + b"0\r\n\r\n")

    async with RawServer(script) as server, new_http() as http:
        response = await http.open(server.request())
        pieces = response.chunks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(pieces)
        go_on.set()
        assert [piece async for piece in pieces] == [b"data: 1\n\n"]


# --- Bytes that an upstream sends unasked on a kept connection never reach the next request ---

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
        read = bytearray()
        while not read.endswith(b"\r\n\r\n" + bytes(self.request.body)):
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
