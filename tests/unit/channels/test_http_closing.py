"""The HTTP client, ended early, or on a transport that a test holds."""

import asyncio

import pytest

from channels.errors import UpstreamCut, UpstreamUnreachable
from channels.http.client import HttpClient
from channels.http.connection import UpstreamConnection
from tests.support.aio import both_loops, eventually
from tests.support.rows import cases
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
