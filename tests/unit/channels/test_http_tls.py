"""The HTTP client over TLS: whom it trusts, and that everything else is as without it."""

import asyncio
import itertools
import random
import ssl
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from channels.errors import UpstreamLost, UpstreamUnreachable
from channels.http.client import HttpClient
from channels.http.connection import UpstreamConnection
from channels.http.interfaces import UpstreamRequest
from channels.http.request_writer import PIECE_BYTES, BodyPieces
from tests.support.aio import both_loops
from tests.support.certificates import contexts
from tests.support.rows import cases
from tests.unit.channels.raw_server import OK, Peer, RawServer, answering
from tests.unit.channels.test_http_every_cut import NoOwner

pytestmark = both_loops

NAME = "localhost"


def request(server: RawServer, host: str = NAME, body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest("POST", f"https://{host}:{server.port}/v1", (), body)


async def test_connection_is_kept_and_bodies_arrive_whole() -> None:
    served, trusting = contexts(NAME)
    async with RawServer(answering, tls=served) as server:
        http = HttpClient(connect_seconds=5, tls=lambda: trusting)
        for size in (2, 3 << 20, 2):
            response = await http.open(request(server, body=b"x" * size))
            assert await response.read(100) == b"{}"
        sizes = [len(body) for _, body in server.requests]
        assert (sizes, server.connections) == ([2, 3 << 20, 2], 1)
        await http.close()


@cases("host, tls", ("127.0.0.1", lambda: contexts(NAME)[1]), (NAME, None))
async def test_server_that_is_not_the_one_named_gets_no_request(
    host: str, tls: Callable[[], ssl.SSLContext] | None
) -> None:
    served, _ = contexts(NAME)

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with RawServer(answering, tls=served) as server:
        http = HttpClient(connect_seconds=5, tls=tls)
        with pytest.raises(UpstreamUnreachable) as caught:
            await http.open(request(server, host))
        assert "CERTIFICATE_VERIFY_FAILED" in caught.value.detail
        assert server.connections == 0
        await http.close()


@cases("is_secure", False, True)
async def test_connection_with_a_half_sent_upload_is_not_used_again(is_secure: bool) -> None:
    served, trusting = contexts(NAME)

    reply = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(reply)
        await peer.gone()

    async with RawServer(script, tls=served if is_secure else None) as server:
        http = HttpClient(connect_seconds=5, tls=lambda: trusting)
        for connections, size in ((1, 16 << 20), (2, 2)):
            body = b"x" * size
            requested = request(server, body=body) if is_secure else server.request(body)
            response = await http.open(requested)
            assert response.status == 413
            assert await response.read(100) == b"{}"
            assert server.connections == connections
            response.close()
        await http.close()


class CountingTransport:
    """Counts the bytes that a transport is given, and the most of one turn of the loop."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.given = self.turn = self.turn_most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self.turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self.given += len(data)
        self.turn += len(data)
        self.turn_most = max(self.turn_most, self.turn)
        self._transport.write(data)  # type: ignore[attr-defined]

    def writelines(self, pieces: Iterable[bytes]) -> None:
        for one in pieces:
            self.write(one)

    def _end_turn(self) -> None:
        self.turn = 0


class CountedConnection(UpstreamConnection):
    """A connection over a transport that counts."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.counted = CountingTransport(transport)
        super().connection_made(self.counted)  # type: ignore[arg-type]


BODY_BYTES = 48 << 20
# The buffers of the two systems, at most: those of the receiver grow to 6 MB and more.
SYSTEM_BYTES = 24 << 20


def in_pieces(body: bytes) -> BodyPieces:
    """Views of very different lengths, as of a form with files, and what is written between."""
    view = memoryview(body)
    ends = (0, 100, 100, 5 << 20, (5 << 20) + 7, (5 << 20) + 8, len(body) - 30, len(body))
    return BodyPieces([view[start:end] for start, end in itertools.pairwise(ends)])


@cases("as_sent", bytes, in_pieces)
@cases("is_secure, ending", *itertools.product((False, True), ("read", "lost", "closed")))
async def test_large_body_is_written_as_fast_as_the_upstream_reads_it(
    is_secure: bool, ending: str, as_sent: Callable[[bytes], bytes | BodyPieces]
) -> None:
    served, trusting = contexts(NAME)
    body = random.Random(1).randbytes(1 << 20) * (BODY_BYTES >> 20)
    began, may_read = asyncio.Event(), asyncio.Event()
    received = b""

    async def script(peer: Peer) -> None:
        nonlocal received
        await peer.reader.readuntil(b"\r\n\r\n")
        began.set()
        await may_read.wait()
        if ending == "read":
            received = await peer.reader.readexactly(len(body))
            await peer.send(OK)
        elif ending == "lost":
            peer.reset()
        else:
            await peer.gone()

    async with RawServer(script, tls=served if is_secure else None) as server:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: CountedConnection(NoOwner()),
            "127.0.0.1",
            server.port,
            ssl=trusting if is_secure else None,
            server_hostname=NAME if is_secure else None,
        )
        transport = connection.counted
        head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        response = connection.exchange(head, as_sent(body))
        await began.wait()
        given = -1
        while given != transport.given:  # until it is stuck
            given = transport.given
            for _ in range(100):
                await asyncio.sleep(0)
        assert 0 < given < SYSTEM_BYTES
        assert transport.get_write_buffer_size() <= 3 * PIECE_BYTES
        may_read.set()
        if ending == "read":
            await response.arrival()
            assert await response.read(100) == b"{}"
            assert received == body
            assert transport.given == len(head) + len(body)
        elif ending == "lost":
            await response.arrival()
            assert type(response.fault) is UpstreamLost  # which another channel is tried after
        else:
            response.close()
            await asyncio.sleep(0)
            assert transport.given < SYSTEM_BYTES
        assert transport.turn_most <= len(head) + PIECE_BYTES
        connection.abort()
