"""Clients of the admin listener that are slow on purpose: every wait for them has an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

import pytest

from gw.config.config import ListenAddress
from gw.http import admin
from gw.http.admin import HEADER_BYTES_MAX, AdminServer, make_admin_application
from tests.unit.config.reading import read
from tests.unit.http.wire import Client

PATIENCE_SECONDS = 0.2
PAUSE_SECONDS = 0.01


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    async def render(accept: str) -> tuple[bytes, str]:
        return b"", accept

    async def readiness() -> str | None:
        return None

    application = make_admin_application(read(""), render=render, readiness=readiness, new_id=uuid4)
    listening = AdminServer(application, ListenAddress("127.0.0.1", 0))
    await listening.start()
    port = int(listening.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        await listening.close()


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
        ("IDLE_SECONDS", b"", b"GET / HTTP/1.1\r\nHost: a"),
        ("IDLE_SECONDS", b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n"),
        ("BODY_SECONDS", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n", b"{"),
    ],
)
async def test_client_that_trickles_is_closed(
    monkeypatch: pytest.MonkeyPatch, limit: str, start: bytes, more: bytes
) -> None:
    monkeypatch.setattr(admin, limit, PATIENCE_SECONDS)
    async with connected() as client:
        await client.send(start)
        assert await trickle(client, more) == b""


async def test_head_without_end_is_closed_when_it_is_far_too_large() -> None:
    async with connected() as client:
        client.writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES_MAX)
        assert await client.reader.read() == b""


async def test_more_connections_than_a_few_close_the_one_that_was_used_least_lately() -> None:
    async with AsyncExitStack() as stack, connected() as first:
        host, port = first.writer.get_extra_info("peername")
        others = []
        for _ in range(admin.CONNECTIONS_MAX - 1):
            reader, writer = await asyncio.open_connection(host, port)
            stack.callback(writer.close)
            others.append(Client(reader, writer))
        healthz = "GET /healthz HTTP/1.1\nHost: a\n\n"
        for one in (*others, first):
            assert (await one.ask(healthz)).status == 200
        reader, writer = await asyncio.open_connection(host, port)
        stack.callback(writer.close)
        assert (await Client(reader, writer).ask(healthz)).status == 200
        assert await others[0].ended()
        assert (await others[1].ask(healthz)).status == 200
        assert (await first.ask(healthz)).status == 200
