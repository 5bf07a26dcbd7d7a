"""Clients that are slow on purpose: every wait for them has an end."""

from __future__ import annotations

import asyncio

import pytest

from gw.config.config import Address
from gw.web import listener
from gw.web.listener import HEADER_BYTES_MAX, Listener
from tests.support.aio import eventually, run
from tests.unit.web.fakes import World
from tests.unit.web.handlers import make_app
from tests.unit.web.wire import Client, request

PATIENCE_SECONDS = 0.2
PAUSE_SECONDS = 0.01


async def trickle(client: Client, data: bytes) -> bytes:
    """Send a byte now and then, again and again, until the server has had enough of it."""
    ended = asyncio.ensure_future(client.reader.read())
    while not ended.done():
        for byte in data:
            client.writer.write(bytes([byte]))
            await asyncio.sleep(PAUSE_SECONDS)
            if ended.done():
                break
    try:
        return await ended
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    ("limit", "start", "more"),
    [
        ("IDLE_SECONDS", "", b"GET / HTTP/1.1\r\nHost: a"),
        ("IDLE_SECONDS", "GET / HTTP/1.1\nHost: a\n", b"X: y\r\n"),
        ("BODY_SECONDS", request("POST", "/v1/echo", "Content-Length: 9999"), b"{"),
        (
            "BODY_SECONDS",
            request("POST", "/v1/echo", "Transfer-Encoding: chunked"),
            b"1\r\nx\r\n",
        ),
    ],
)
def test_client_that_trickles_is_closed(
    monkeypatch: pytest.MonkeyPatch, limit: str, start: str, more: bytes
) -> None:
    async def scene() -> None:
        world = World()
        listening = Listener(make_app(world), Address("127.0.0.1", 0))
        await listening.start()
        port = int(listening.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = Client(reader, writer)
        await client.send(start.replace("\n", "\r\n").encode())
        assert await trickle(client, more) == b""
        writer.close()
        await eventually(lambda: len(world.in_flight) == 0)
        assert world.limits.in_flight("acct_1") == 0
        await listening.close()

    monkeypatch.setattr(listener, limit, PATIENCE_SECONDS)
    run(scene())


async def test_head_without_end_is_closed_when_it_is_far_too_large() -> None:
    listening = Listener(make_app(World()), Address("127.0.0.1", 0))
    await listening.start()
    port = int(listening.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES_MAX)
    assert await reader.read() == b""
    writer.close()
    await listening.close()
