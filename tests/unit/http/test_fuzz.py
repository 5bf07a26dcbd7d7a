"""Our server and Tornado's read the same bytes, and never see different requests in them."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.netutil import bind_sockets

from gw.api.base import ApiHandler, GatewayApplication
from tests.support.aio import run
from tests.unit.api.fakes import KEY, World
from tests.unit.http.wire import Address, served

QUIET_ROUNDS = 15
LINES = [
    "Content-Length: 2",
    "Content-Length: 0",
    "Content-Length: 02",
    "Content-Length: +2",
    "Content-Length: 2, 2",
    "Content-Length:",
    "Transfer-Encoding: chunked",
    "transfer-encoding: CHUNKED",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: x",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: Upgrade",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "Host: b",
    "X: y",
    "X:\ty ",
    " folded",
    "no colon",
    "",
]
BODIES = [b"", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b"0\r\n\r\n", b"2\n{}\n0\n\n", b"zz\r\n", b"\r\n"]
METHODS = ["GET", "POST", "HEAD", "BREW", "get", "CONNECT"]
TARGETS = ["/v1/free", "/v1/echo", "/nowhere", "*", "http://gateway/v1/free", "/v1/free?x=%zz"]
VERSIONS = ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1"]
ENDS = ["\r\n", "\r\n", "\r\n", "\r\n", "\n"]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    start = " ".join(
        (
            draw(st.sampled_from(METHODS)),
            draw(st.sampled_from(TARGETS)),
            draw(st.sampled_from(VERSIONS)),
        )
    )
    lines = [start, "Host: gateway", f"Authorization: Bearer {KEY}"]
    lines += draw(st.lists(st.sampled_from(LINES), max_size=3))
    end = draw(st.sampled_from(ENDS))
    return (end.join(lines) + end + end).encode() + draw(st.sampled_from(BODIES))


@st.composite
def wires(draw: st.DrawFn) -> bytes:
    wire = b"".join(draw(st.lists(requests(), min_size=1, max_size=3)))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(wire)))
        wire = wire[:place] + draw(st.binary(max_size=2)) + wire[place + draw(st.integers(0, 2)) :]
    return wire


Found = list[tuple[str | None, str | None, bytes]]


class Recorder(ApiHandler):
    """Every path's endpoint: remembers what was asked."""

    auth = "none"

    async def record(self) -> None:
        found: Found = self.settings["found"]
        found.append((self.request.method, self.request.uri, self.request.body))
        self.finish(b"{}")

    on_get = on_head = on_post = record


async def ours(wire: bytes) -> Found:
    """What the endpoints are asked for by our server."""
    found: Found = []
    application = GatewayApplication([(r".*", Recorder)], services=World().services, found=found)
    async with served(application) as address:
        await _send(address, wire, found)
    return found


async def tornados(wire: bytes) -> Found:
    """The requests that Tornado's own server finds."""
    found: Found = []

    def record(request: HTTPServerRequest) -> None:
        assert request.uri is not None
        assert request.connection is not None
        found.append((request.method, request.uri.removeprefix("http://gateway"), request.body))
        start_line = ResponseStartLine("", 200, "OK")
        request.connection.write_headers(start_line, HTTPHeaders({"Content-Length": "0"}))
        request.connection.finish()

    server = HTTPServer(record)
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    try:
        await _send(Address(sockets[0].getsockname()[1]), wire, found)
    finally:
        server.stop()
        await server.close_all_connections()
    return found


async def _send(address: Address, wire: bytes, found: Found) -> None:
    """Send it, and wait until nothing moves any more."""
    async with address.client() as client:
        client.writer.write(wire)
        before, quiet = (-1, -1), 0
        while quiet < QUIET_ROUNDS:
            await asyncio.sleep(0)  # a turn of the loop, which both ends share
            now = (len(found), len(client.reader._buffer))  # type: ignore[attr-defined]
            quiet = quiet + 1 if now == before else 0
            before = now


@settings(max_examples=200, deadline=None)
@given(wires())
def test_neither_server_finds_requests_that_the_other_does_not(wire: bytes) -> None:
    here, there = run(ours(wire)), run(tornados(wire))
    # One may stop where the other reads on, and then it has refused; but they never read
    # different things.
    common = min(len(here), len(there))
    assert here[:common] == there[:common], (wire, here, there)
