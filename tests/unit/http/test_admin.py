"""The admin listener, and clients of it that are slow on purpose."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest
import ujson
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.web import Application

from gw.config.addresses import ListenAddress
from gw.http import admin
from gw.http.admin import HEADER_BYTES_MAX, READY, AdminServer, make_admin_application
from tests.support.aio import eventually
from tests.support.logs import logs
from tests.unit.api.fakes import FakeMetrics
from tests.unit.config.reading import read
from tests.unit.http.client import Address, Client

MB = 1024 * 1024


class Probe:
    """Why the process is not ready, if it is not."""

    why_not: str | None = None
    more: Mapping[str, str] = MappingProxyType({})
    is_broken = False


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def app(probe: Probe) -> Application:
    async def render(accept: str) -> tuple[bytes, str]:
        if probe.is_broken:
            raise RuntimeError("broken")
        return FakeMetrics().render(accept)

    async def readiness() -> Mapping[str, str]:
        if probe.is_broken:
            raise RuntimeError("broken")
        return {"status": probe.why_not or READY, **probe.more}

    config = read("admin_listen: gw1.example.com:0\nadmin_hosts: [Metrics.Example.com]")
    return make_admin_application(config, render=render, readiness=readiness, new_id=uuid4)


async def get(client: AsyncHTTPClient, url: str, **options: Any) -> HTTPResponse:
    response = await client.fetch(url, raise_error=False, **options)
    assert len(response.headers["x-gateway-trace"]) == 32
    assert "Server" not in response.headers
    return response


@pytest.mark.gen_test
async def test_metrics_come_in_the_format_that_is_requested(
    http_client: AsyncHTTPClient, base_url: str
) -> None:
    response = await get(http_client, f"{base_url}/metrics", headers={"Accept": "text/x"})
    assert response.code == 200
    assert response.body == b"# accept=text/x\n"
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


@logs("tornado.application")
@pytest.mark.gen_test
async def test_page_that_breaks_is_a_scrape_that_fails(
    http_client: AsyncHTTPClient, base_url: str, probe: Probe
) -> None:
    """Which is `up` 0 at Prometheus, and pages; no other route counts it."""
    probe.is_broken = True
    for path in ("/metrics", "/readyz"):
        response = await get(http_client, f"{base_url}{path}")
        assert (response.code, ujson.loads(response.body)["error"]["code"]) == (500, 500)
    assert (await get(http_client, f"{base_url}/healthz")).code == 200


@pytest.mark.gen_test
async def test_a_process_that_drains_is_alive_but_not_ready(
    http_client: AsyncHTTPClient, base_url: str, probe: Probe
) -> None:
    ready = await get(http_client, f"{base_url}/readyz")
    assert (ready.code, ujson.loads(ready.body)) == (200, {"status": "ok"})
    probe.why_not = "draining"
    ready = await get(http_client, f"{base_url}/readyz")
    assert (ready.code, ujson.loads(ready.body)) == (503, {"status": "draining"})
    assert ready.headers["Retry-After"] == "1"
    assert (await get(http_client, f"{base_url}/healthz")).code == 200


@pytest.mark.gen_test
async def test_probes_may_ask_with_head(http_client: AsyncHTTPClient, base_url: str) -> None:
    for path in ("/healthz", "/readyz"):
        response = await get(http_client, f"{base_url}{path}", method="HEAD")
        assert (response.code, response.body) == (200, b"")


@pytest.mark.gen_test
async def test_metrics_are_not_for_a_page_under_a_public_name(
    http_client: AsyncHTTPClient, base_url: str
) -> None:
    for host, status in (
        ("10.0.0.7:9090", 200),
        ("[fd00::7]:9090", 200),
        ("localhost", 200),
        ("gateway:9090", 200),
        ("gateway-admin.model-gateway.svc.cluster.local:9090", 200),
        ("gateway-admin.model-gateway.svc", 200),
        ("GW1.example.com.:9090", 200),
        ("metrics.example.com", 200),
        ("example.com", 421),
        ("rebound.example.com:9090", 421),
        ("local.example.com", 421),
        ("10.0.0.7.example.com", 421),
    ):
        headers = {"Host": host}
        response = await get(http_client, f"{base_url}/metrics", headers=headers)
        assert (response.code, b"accept" in response.body) == (status, status == 200), host
        for probe in ("/healthz", "/readyz"):
            assert (await get(http_client, f"{base_url}{probe}", headers=headers)).code == 200


@pytest.mark.gen_test
async def test_anything_else_is_not_there(http_client: AsyncHTTPClient, base_url: str) -> None:
    assert (await get(http_client, f"{base_url}/v1/models")).code == 404
    response = await get(http_client, f"{base_url}/metrics", method="POST", body=b"")
    assert response.code == 405
    assert ujson.loads(response.body)["error"]["code"] == 405


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("xgzip", False),
        ("", False),
    ],
)
async def test_metrics_are_packed_for_who_takes_it(
    http_client: AsyncHTTPClient, base_url: str, accepted: str, is_packed: bool
) -> None:
    response = await get(
        http_client,
        f"{base_url}/metrics",
        headers={"Accept": "text/x", "Accept-Encoding": accepted},
        decompress_response=False,
    )
    assert response.headers["Vary"] == "Accept, Accept-Encoding"
    assert response.headers.get("Content-Encoding") == ("gzip" if is_packed else None)
    body = gzip.decompress(response.body) if is_packed else response.body
    assert body == b"# accept=text/x\n"


PATIENCE_SECONDS = 0.2
PAUSE_SECONDS = 0.01


@asynccontextmanager
async def connecting(application: Application) -> AsyncIterator[Client]:
    listening = AdminServer(application, ListenAddress("127.0.0.1", 0))
    await listening.start()
    try:
        async with Address(int(listening.url.rpartition(":")[2])).client() as client:
            yield client
    finally:
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
    monkeypatch: pytest.MonkeyPatch, app: Application, limit: str, start: bytes, more: bytes
) -> None:
    monkeypatch.setattr(admin, limit, PATIENCE_SECONDS)
    async with connecting(app) as client:
        await client.send(start)
        assert await trickle(client, more) == b""


async def test_head_without_end_is_closed_when_it_is_far_too_large(app: Application) -> None:
    async with connecting(app) as client:
        client.writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES_MAX)
        assert await client.reader.read() == b""


async def test_more_connections_than_a_few_close_the_one_used_least_lately(
    app: Application,
) -> None:
    async with AsyncExitStack() as stack, connecting(app) as first:
        _, port = first.writer.get_extra_info("peername")
        others, healthz = [first], "GET /healthz HTTP/1.1\nHost: a\n\n"
        for _ in range(admin.CONNECTIONS_MAX):
            assert (await first.request(healthz)).status == 200
            others.append(await stack.enter_async_context(Address(port).client()))
            assert (await others[-1].request(healthz)).status == 200
        assert await others.pop(1).ended()
        assert (await others[1].request(healthz)).status == 200
        assert (await first.request(healthz)).status == 200


async def test_connection_that_is_served_gives_way_to_nobody(app: Application) -> None:
    """Silent strangers give way to each other; where all are served the newcomer is closed."""
    may_respond = asyncio.Event()

    async def render(accept: str) -> tuple[bytes, str]:
        await may_respond.wait()
        return b"page", "text/plain"

    app.settings["render"] = render
    metrics = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    async with AsyncExitStack() as stack, connecting(app) as served:
        server: AdminServer = app.settings["server"]
        _, port = served.writer.get_extra_info("peername")
        await served.send(metrics)
        await eventually(lambda: len(server._serving) == 1)
        for _ in range(3 * admin.CONNECTIONS_MAX):
            stranger = await stack.enter_async_context(Address(port).client())
            await stranger.send(b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        others = [await stack.enter_async_context(Address(port).client()) for _ in range(31)]
        for other in others:
            await other.send(metrics)
        await eventually(lambda: len(server._serving) == admin.CONNECTIONS_MAX)
        newcomer = await stack.enter_async_context(Address(port).client())
        assert await newcomer.ended()
        may_respond.set()
        for client in (served, *others):
            assert (await client.response()).body == b"page"


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/nothing"])
async def test_body_that_nobody_requested_is_not_kept(app: Application, path: str) -> None:
    async with connecting(app) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {80 * MB}\r\n\r\n"
        await client.send(head.encode())
        tracemalloc.start()
        try:
            for _ in range(80):
                client.writer.write(bytes(MB))
                await client.writer.drain()
            assert (await client.response()).status in (404, 405)
            assert tracemalloc.get_traced_memory()[1] < 8 * MB
        finally:
            tracemalloc.stop()


def test_body_takes_the_memory_of_its_length_however_small_its_pieces_are() -> None:
    handler = admin.AdminApiHandler.__new__(admin.AdminApiHandler)
    handler.initialize(admin.API_PATH)
    size = admin.API_PATH.body_bytes_max
    tracemalloc.start()
    try:
        for number in range(size // 2):
            handler.data_received(b"%02d" % (number % 100))
        assert tracemalloc.get_traced_memory()[1] < 2 * size
    finally:
        tracemalloc.stop()
    assert len(handler.body) == size
    handler.data_received(b"x")
    assert handler.body == b""
