"""The HTTP client when things go wrong."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from channels.http.interfaces import UpstreamRequest
from tests.support.aio import both_loops
from tests.support.rows import cases
from tests.unit.channels.raw_server import (
    OK,
    STREAM,
    Peer,
    RawServer,
    chunk,
    holding,
    new_http,
    once,
    silent,
)

pytestmark = both_loops


async def exhausted(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass


async def test_connection_lost_within_the_head_is_a_cut_even_when_reused() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-")

    async with RawServer(script) as server, new_http() as http:
        await (await http.open(server.request())).read(100)
        with pytest.raises(UpstreamCut):
            await http.open(server.request())
        assert server.connections == 1


@cases(
    "reply",
    STREAM + chunk(b"data: 1\n\n"),
    STREAM + chunk(b"data: 1\n\n") + b"100\r\nhalf",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: 1\n\n",
)
async def test_connection_lost_within_the_body_is_a_cut_after_what_came(reply: bytes) -> None:
    async with RawServer(once(reply)) as server, new_http() as http:
        response = await http.open(server.request())
        pieces = response.chunks()
        assert (await anext(pieces)).startswith(b"data: 1\n\n")
        with pytest.raises(UpstreamCut):
            await exhausted(pieces)
        response = await http.open(server.request())
        with pytest.raises(UpstreamCut):
            await response.read(1000)


@cases("head", STREAM, b"HTTP/1.1 200 OK\r\n\r\n")
async def test_reset_within_the_body_is_a_cut(head: bytes) -> None:
    may_reset = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(head + (chunk(b"data: 1\n\n") if head is STREAM else b"data: 1\n\n"))
        await may_reset.wait()
        # Bytes of ours that the client's socket has not read make it a reset.
        peer.writer.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        peer.reset()

    async with RawServer(script) as server, new_http() as http:
        response = await http.open(server.request())
        pieces = response.chunks()
        assert await anext(pieces) == b"data: 1\n\n"
        may_reset.set()
        with pytest.raises(UpstreamCut):
            await anext(pieces)


async def test_answer_without_a_length_ends_with_the_connection() -> None:
    reply = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: 1\n\ndata: [DONE]\n\n"
    async with RawServer(once(reply)) as server, new_http() as http:
        for _ in range(2):
            response = await http.open(server.request())
            assert await response.read(1000) == b"data: 1\n\ndata: [DONE]\n\n"
        assert server.connections == 2


@cases(
    "reply",
    b"ICY 200 OK\r\n\r\n",
    b"\x16\x03\x01\x02\x00garbage that is not HTTP\r\n\r\n",
    b"HTTP/1.1 abc OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 40_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
)
async def test_answer_that_is_not_http_as_requested_is_malformed(reply: bytes) -> None:
    async with RawServer(once(reply)) as server, new_http() as http:
        with pytest.raises(UpstreamMalformed):
            await http.open(server.request())


@cases("url", "http://no-such-host.invalid/", "http://127.0.0.1:99999/", "http:///nothing")
async def test_address_that_leads_nowhere_is_unreachable(url: str) -> None:
    async with new_http() as http:
        with pytest.raises(UpstreamUnreachable):
            await http.open(UpstreamRequest("POST", url, (), b"{}"))


async def test_connect_time_out_is_unreachable() -> None:
    with silent() as port:
        async with new_http(connect_seconds=0.2) as http:
            url = f"http://127.0.0.1:{port}/"
            with pytest.raises(UpstreamUnreachable):
                await http.open(UpstreamRequest("POST", url, (), b"{}"))


async def test_body_above_the_limit_is_malformed_and_closes() -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 2000
    async with RawServer(holding(reply)) as server, new_http() as http:
        response = await http.open(server.request())
        with pytest.raises(UpstreamMalformed):
            await response.read(1000)
        await server.gone.wait()
