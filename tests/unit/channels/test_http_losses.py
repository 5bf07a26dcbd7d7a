"""The upstream wire when things go wrong: cut, malformed, unreachable."""

from __future__ import annotations

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
    new_wire,
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

    async with RawServer(script) as server, new_wire() as wire:
        await (await wire.open(server.request())).read(100)
        with pytest.raises(UpstreamCut):
            await wire.open(server.request())
        assert server.connections == 1


@cases(
    "answer",
    STREAM + chunk(b"data: 1\n\n"),
    STREAM + chunk(b"data: 1\n\n") + b"100\r\nhalf",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: 1\n\n",
)
async def test_connection_lost_within_the_body_is_a_cut_after_what_came(answer: bytes) -> None:
    async with RawServer(once(answer)) as server, new_wire() as wire:
        response = await wire.open(server.request())
        pieces = response.chunks()
        assert (await anext(pieces)).startswith(b"data: 1\n\n")
        with pytest.raises(UpstreamCut):
            await exhausted(pieces)
        response = await wire.open(server.request())
        with pytest.raises(UpstreamCut):
            await response.read(1000)


@cases("ends", True, False)
async def test_body_that_is_broken_on_its_way_is_a_cut_after_what_came(ends: bool) -> None:
    is_read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"data: 1\n\n"))
        await is_read.wait()
        await peer.send(b"no size\r\ndata: 2\n\n\r\n")
        if not ends:
            await peer.gone()

    async with RawServer(script) as server, new_wire() as wire:
        pieces = (await wire.open(server.request())).chunks()
        assert await anext(pieces) == b"data: 1\n\n"
        is_read.set()
        async with asyncio.timeout(10):
            with pytest.raises(UpstreamCut):
                await anext(pieces)


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

    async with RawServer(script) as server, new_wire() as wire:
        response = await wire.open(server.request())
        pieces = response.chunks()
        assert await anext(pieces) == b"data: 1\n\n"
        may_reset.set()
        with pytest.raises(UpstreamCut):
            await anext(pieces)


async def test_answer_without_a_length_ends_with_the_connection() -> None:
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: 1\n\ndata: [DONE]\n\n"
    async with RawServer(once(answer)) as server, new_wire() as wire:
        for _ in range(2):
            response = await wire.open(server.request())
            assert await response.read(1000) == b"data: 1\n\ndata: [DONE]\n\n"
        assert server.connections == 2


@cases(
    "answer",
    b"ICY 200 OK\r\n\r\n",
    b"\x16\x03\x01\x02\x00garbage that is not HTTP\r\n\r\n",
    b"HTTP/1.1 abc OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 40_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
)
async def test_answer_that_is_not_http_as_asked_is_malformed(answer: bytes) -> None:
    async with RawServer(once(answer)) as server, new_wire() as wire:
        with pytest.raises(UpstreamMalformed):
            await wire.open(server.request())


async def test_refused_connection_is_unreachable() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    async with new_wire() as wire:
        with pytest.raises(UpstreamUnreachable) as caught:
            await wire.open(UpstreamRequest("POST", f"http://127.0.0.1:{port}/", (), b"{}"))
    assert str(port) not in str(caught.value)
    assert str(port) in caught.value.detail


@cases("url", "http://no-such-host.invalid/", "http://127.0.0.1:99999/", "http:///nothing")
async def test_address_that_leads_nowhere_is_unreachable(url: str) -> None:
    async with new_wire() as wire:
        with pytest.raises(UpstreamUnreachable):
            await wire.open(UpstreamRequest("POST", url, (), b"{}"))


async def test_tls_to_a_plain_server_is_unreachable() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(1)
        await peer.send(OK)
        await peer.gone()

    async with RawServer(script) as server, new_wire() as wire:
        url = f"https://127.0.0.1:{server.port}/"
        with pytest.raises(UpstreamUnreachable):
            await wire.open(UpstreamRequest("POST", url, (), b"{}"))


async def test_connect_time_out_is_unreachable() -> None:
    with silent() as port:
        async with new_wire(connect_seconds=0.2) as wire:
            url = f"http://127.0.0.1:{port}/"
            with pytest.raises(UpstreamUnreachable):
                await wire.open(UpstreamRequest("POST", url, (), b"{}"))


async def test_body_above_the_limit_is_malformed_and_closes() -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 2000)
        await peer.gone()
        gone.set()

    async with RawServer(script) as server, new_wire() as wire:
        response = await wire.open(server.request())
        with pytest.raises(UpstreamMalformed):
            await response.read(1000)
        await gone.wait()
