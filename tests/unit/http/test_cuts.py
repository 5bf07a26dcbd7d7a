"""What a request means does not depend on its packets, and any bytes have an end."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.netutil import bind_sockets

from gw.api.application import GatewayApplication
from gw.api.endpoint import Endpoint
from gw.api.handler import ApiHandler
from gw.config.addresses import ListenAddress
from gw.http.connection import Connection
from gw.http.server import Server
from tests.support.aio import run
from tests.support.rows import each
from tests.unit.api.fakes import KEY, World
from tests.unit.http.client import Address, open_files, served
from tests.unit.http.test_server import Socket

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
KEYS = [KEY, "a", "sk-platform-b", "a b", "a,b", "a\xff", ""]
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
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=3)):
        line = f"a\r\nAuthorization: Bearer {key}\r".encode("latin-1")
        wire = SIZED.replace(b"a\r", line) + wire
    if draw(st.booleans()):
        place = draw(st.integers(0, len(wire)))
        wire = wire[:place] + draw(st.binary(max_size=2)) + wire[place + draw(st.integers(0, 2)) :]
    return wire


Found = list[tuple[str | None, str | None, str | None, bytes]]


class Recorder(ApiHandler):
    """Every path's endpoint: remembers what was asked."""

    async def record(self) -> None:
        found: Found = self.settings["found"]
        request, key = self.request, self.request.headers.get("Authorization")
        found.append((request.method, request.uri, key, request.body))
        self.finish(b"{}")

    on_get = on_head = on_post = record


def recorded(path: str) -> Endpoint:
    """The row of what is remembered."""
    return Endpoint("recorded", path, ("GET", "HEAD", "POST"), Recorder, auth="none", body="json")


async def ours(wire: bytes) -> Found:
    """What the endpoints are asked for by our server."""
    found: Found = []
    application = GatewayApplication([recorded(r".*")], services=World().services, found=found)
    async with served(application) as address:
        await _send(address, wire, found)
    return found


async def tornados(wire: bytes) -> Found:
    """The requests that Tornado's own server finds."""
    found: Found = []

    def record(request: HTTPServerRequest) -> None:
        assert request.uri is not None
        assert request.connection is not None
        uri, key = request.uri.removeprefix("http://gateway"), request.headers.get("Authorization")
        found.append((request.method, uri, key, request.body))
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


# Turns of the loop after which nothing moves any more: a request takes one, its task another.
QUIET_TURNS = 6
_OWN = re.compile(rb"(X-Gateway-Trace|Date): [^\r]*|HTTP/1.1 100 Continue\r\n\r\n")

GET = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: a\r\n"
SIZED = POST + b"Content-Length: 5\r\n\r\nh\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
CORPUS = [
    GET,
    SIZED + GET,
    GET + SIZED + GET,
    b"".join(
        SIZED.replace(b"a\r", b"a\r\nAuthorization: %b\r" % key) for key in (b"a", b"bc", b"a")
    ),
    CHUNKED + b"4\r\n\r\n\r\n\r\n2;x=y\r\nab\r\n0\r\nX: y\r\n\r\n" + GET,
    POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}" + GET,
    POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}" + GET,
    POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\n\r\n" + GET,
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n" + GET,
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n" + GET,
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n" + GET,
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}" + GET,
    b"\r\n\r\n" + GET + b"\r\n" + GET,
    b"GET /a HTTP/1.0\r\n\r\n" + GET,
    b"GET  /a  HTTP/1.1\r\nHost: a\r\nX:\r\nY: \t z \r\n\r\n" + GET,
    b"HEAD http://a/a?b=c HTTP/1.1\r\nHost: a\r\n\r\n" + GET,
    POST + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}" + GET,
    # Refused before or after their body, or for it.
    b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + GET,
    CHUNKED + b"zz\r\n" + GET,
    CHUNKED + b"3\r\nabcdef" + GET,
    CHUNKED + b"0\r\nxx\r\n\r\n" + GET,
    # Methods that nobody knows, or only the parser.
    b"BREW /a HTTP/1.1\r\nHost: a\r\n\r\n" + GET,
    GET + b"BREW /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}" + GET,
    b"G" + GET,
    b"GETS" + GET,
    b"get /a HTTP/1.1\r\nHost: a\r\n\r\n",
    b"BREW /a HTTP/2.0\r\nHost: a\r\n\r\n",
    b"PROPFIND /a HTTP/1.1\r\nHost: a\r\n\r\n" + GET,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    # Not HTTP.
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n" + GET,
    b"GET /a\r\n\r\n" + GET,
    b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n" + GET,
    b"GET /a HTTP/1.2\r\nHost: a\r\n\r\n" + GET,
    b"GET /a HTTP/1.1\nHost: a\n\n" + GET,
    b"GET /a HTTP/1.1\r\nHost : a\r\n\r\n" + GET,
    b"GET /a HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n" + GET,
    b"GET /a HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n" + GET,
    b"GET /a HTTP/1.1\r\nHost: a\rX: y\r\n\r\n" + GET,
    POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" + GET,
    POST + b"Content-Length: +2\r\n\r\n{}" + GET,
    POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}" + GET,
    POST + b"Transfer-Encoding: chunked, identity\r\n\r\n{}" + GET,
]
SHORT = [
    b"G" + b"GET /a HTTP/1.0\r\n\r\n",
    b"BREW /a HTTP/1.1\r\nHost:\r\n\r\n",
    b"\r\nGET / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\r\n",
]

Outcome = tuple[Found, bytes, bool]


class Stand:
    """One listener, on which every wire has a connection of its own."""

    def __init__(self) -> None:
        self.found: Found = []
        application = GatewayApplication(
            [recorded(r"(?:http://a)?/(?:a.*)?")], services=World().services, found=self.found
        )
        self.listener = Server(application, ListenAddress("127.0.0.1", 0), files=open_files())

    async def outcome(self, reads: Sequence[bytes]) -> Outcome:
        """What its endpoints were asked, what was answered, whether that was all."""
        self.found.clear()
        socket = Socket()
        connection = Connection(self.listener._state)
        connection.connection_made(socket)
        for data in reads:
            connection.data_received(data)
            for _ in range(QUIET_TURNS):
                await asyncio.sleep(0)
        for _ in range(4 * QUIET_TURNS):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        return list(self.found), _OWN.sub(b"", socket.written), socket.has_ended

    async def check(self, wire: bytes, cuts: Iterator[Sequence[int]]) -> None:
        await self.listener.start()
        try:
            whole = await self.outcome([wire])
            for places in cuts:
                reads = [wire[start:end] for start, end in pairwise([0, *places, len(wire)])]
                assert await self.outcome(reads) == whole, reads
        finally:
            await self.listener.close()


@each("wire", CORPUS)
async def test_request_cut_at_any_byte_is_answered_as_when_whole(wire: bytes) -> None:
    await Stand().check(wire, ((place,) for place in range(1, len(wire))))


@each("wire", SHORT)
async def test_request_cut_at_any_two_bytes_is_answered_as_when_whole(wire: bytes) -> None:
    await Stand().check(wire, combinations(range(1, len(wire)), 2))


@settings(max_examples=200, deadline=None)
@given(wires(), st.lists(st.integers(1, 400), max_size=8, unique=True).map(sorted))
def test_any_bytes_cut_anywhere_are_answered_as_when_whole(wire: bytes, places: list[int]) -> None:
    every = range(1, len(wire))
    some = [place for place in places if place < len(wire)]

    async def scene() -> None:
        await Stand().check(wire, iter([some, every]))

    run(scene())
