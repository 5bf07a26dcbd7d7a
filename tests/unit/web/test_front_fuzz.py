"""Both HTTP servers read the same bytes, good and bad, and never see different requests in them."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from gw.web.application import GatewayApplication
from gw.web.base import BaseHandler
from gw.web.fronts import Front
from tests.support.aio import run
from tests.unit.web.fakes import KEY, World
from tests.unit.web.wire import FRONT, served

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


class Recorder(BaseHandler):
    """Every path's endpoint: remembers what was asked."""

    auth = "none"

    async def record(self) -> None:
        found: list[tuple[str | None, str | None, bytes]] = self.settings["found"]
        found.append((self.request.method, self.request.uri, self.body))
        self.finish(b"{}")

    on_get = on_head = on_post = record


async def found_by(front: Front, wire: bytes) -> list[tuple[str | None, str | None, bytes]]:
    """What the endpoints were asked, once nothing moves any more."""
    found: list[tuple[str | None, str | None, bytes]] = []
    application = GatewayApplication([(r".*", Recorder)], services=World().services, found=found)
    token = FRONT.set(front)
    try:
        async with served(application) as address, address.client() as client:
            client.writer.write(wire)
            before, quiet = (-1, -1), 0
            while quiet < QUIET_ROUNDS:
                await asyncio.sleep(0)  # a turn of the loop, which both ends share
                now = (len(found), len(client.reader._buffer))  # type: ignore[attr-defined]
                quiet = quiet + 1 if now == before else 0
                before = now
    finally:
        FRONT.reset(token)
    return found


@settings(max_examples=200, deadline=None)
@given(wires())
def test_neither_server_finds_requests_that_the_other_does_not(wire: bytes) -> None:
    ours, theirs = (run(found_by(front, wire)) for front in ("httptools", "tornado"))
    # One may stop where the other reads on, and then it has refused; but they never read
    # different things.
    common = min(len(ours), len(theirs))
    assert ours[:common] == theirs[:common], (wire, ours, theirs)
