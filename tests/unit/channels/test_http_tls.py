"""The upstream wire over TLS: whom it trusts, and that everything else is as without it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

import pytest

from channels.errors import UpstreamUnreachable
from channels.http.client import HttpWire
from channels.http.interfaces import UpstreamRequest
from tests.support.aio import both_loops
from tests.support.certificates import contexts
from tests.support.rows import cases
from tests.unit.channels.raw_server import OK, STREAM, Peer, RawServer, answering, chunk

pytestmark = both_loops

NAME = "localhost"


def request(server: RawServer, host: str = NAME, body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest("POST", f"https://{host}:{server.port}/v1", (), body)


async def test_connection_is_kept_and_bodies_arrive_whole() -> None:
    served, trusting = contexts(NAME)

    sizes: list[int] = []

    async def script(peer: Peer) -> None:
        while True:
            _, body = await peer.request()
            sizes.append(len(body))
            await peer.send(OK)

    async with RawServer(script, tls=served) as server:
        wire = HttpWire(connect_seconds=5, tls=lambda: trusting)
        for size in (2, 3 << 20, 2):
            response = await wire.open(request(server, body=b"x" * size))
            assert await response.read(100) == b"{}"
        assert (sizes, server.connections) == ([2, 3 << 20, 2], 1)
        await wire.close()


class TwoPieces:
    """A script whose answers come in one read or in two, and that leaves the last one out."""

    def __init__(self, reads: Sequence[int]) -> None:
        self._reads = reads
        self.requests = 0
        self.head_is_read = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        for reads in self._reads:
            await peer.request()
            self.requests += 1
            if reads == 2:
                await peer.send(OK[:-2])
                await self.head_is_read.wait()
                self.head_is_read.clear()
            await peer.send(OK[-2:] if reads == 2 else OK)
        await peer.request()
        self.requests += 1
        peer.close()


@cases("reads", (1,), (2,), (1, 2, 2, 1))
async def test_request_that_has_arrived_is_not_sent_twice_nor_keeps_its_connection_from_the_next(
    reads: Sequence[int],
) -> None:
    served, trusting = contexts(NAME)

    script = TwoPieces(reads)
    async with RawServer(script, tls=served) as server:
        wire = HttpWire(connect_seconds=5, tls=lambda: trusting)
        for count in reads:
            response = await wire.open(request(server))
            if count == 2:
                script.head_is_read.set()
            assert await response.read(100) == b"{}"
        with pytest.raises(UpstreamUnreachable):
            await wire.open(request(server))
        assert (server.connections, script.requests) == (1, len(reads) + 1)
        await wire.close()


async def test_closing_a_stream_reaches_the_upstream() -> None:
    served, trusting = contexts(NAME)

    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"data: 1\n\n"))
        await peer.gone()
        gone.set()

    async with RawServer(script, tls=served) as server:
        wire = HttpWire(connect_seconds=5, tls=lambda: trusting)
        response = await wire.open(request(server))
        assert await anext(response.chunks()) == b"data: 1\n\n"
        response.close()
        async with asyncio.timeout(10):
            await gone.wait()
        await wire.close()


@cases("host, tls", ("127.0.0.1", lambda: contexts(NAME)[1]), (NAME, None))
async def test_server_that_is_not_the_one_named_gets_no_request(
    host: str, tls: Callable[[], ssl.SSLContext] | None
) -> None:
    served, _ = contexts(NAME)

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with RawServer(answering, tls=served) as server:
        wire = HttpWire(connect_seconds=5, tls=tls)
        with pytest.raises(UpstreamUnreachable) as caught:
            await wire.open(request(server, host))
        assert "CERTIFICATE_VERIFY_FAILED" in caught.value.detail
        assert server.connections == 0
        await wire.close()


@cases("is_secure", False, True)
async def test_connection_with_a_half_sent_upload_is_not_used_again(is_secure: bool) -> None:
    served, trusting = contexts(NAME)

    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(answer)
        await peer.gone()

    async with RawServer(script, tls=served if is_secure else None) as server:
        wire = HttpWire(connect_seconds=5, tls=lambda: trusting)
        for connections, size in ((1, 16 << 20), (2, 2)):
            body = b"x" * size
            asked = request(server, body=body) if is_secure else server.request(body)
            response = await wire.open(asked)
            assert response.status == 413
            assert await response.read(100) == b"{}"
            assert server.connections == connections
            response.close()
        await wire.close()
