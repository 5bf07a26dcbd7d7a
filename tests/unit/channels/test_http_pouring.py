"""A body poured into a sink: piece by piece as it is read, stopped by whoever does not keep up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from channels.errors import UpstreamCut
from channels.http.connection import WAITING_BYTES_MAX, UpstreamConnection
from channels.http.interfaces import Sink, UpstreamResponse
from channels.http.response import TURN_BYTES, TURN_LINES
from tests.support.aio import both_loops, eventually
from tests.support.rows import cases
from tests.unit.channels.raw_server import STREAM, Peer, RawServer, chunk, new_http

pytestmark = both_loops

END = b"0\r\n\r\n"


class Bucket(Sink):
    """Keeps what it is given; does with each piece what the test says."""

    def __init__(self, holds: Callable[[bytes], asyncio.Future[None] | None]) -> None:
        self._holds = holds
        self.taken = bytearray()
        self.is_full = False

    def has(self, pieces: bytes) -> bool:
        return self.taken == pieces

    @property
    def is_over(self) -> bool:
        return self.is_full

    def take(self, piece: bytes) -> asyncio.Future[None] | None:
        self.taken += piece
        return self._holds(piece)


@asynccontextmanager
async def pouring() -> AsyncIterator[tuple[UpstreamResponse, Peer]]:
    """A stream whose head is here, and whose body is the test's to send."""
    there: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        there.set_result(peer)
        await peer.gone()

    async with RawServer(script) as server, new_http() as http:
        response = await http.open(server.request())
        yield response, await there
        response.close()


async def test_pieces_are_handed_over_without_waking_whoever_pours() -> None:
    async with pouring() as (response, peer):
        bucket = Bucket(lambda _: None)
        task = asyncio.ensure_future(response.pour(bucket))
        expected = b""
        for n in range(3):
            event = b"data: %d\n\n" % n
            await peer.send(chunk(event))
            expected += event
            await eventually(partial(bucket.has, expected), what="the piece")
            assert not task.done()
        assert not response.has_ended
        await peer.send(chunk(b"data: x\n\n") + END)
        await task
        assert response.has_ended
        assert bucket.taken == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: x\n\n"


async def test_what_waits_already_comes_first_and_what_is_left_stays() -> None:
    async with pouring() as (response, peer):
        bucket = Bucket(lambda _: None)
        await peer.send(chunk(b"first"))
        await eventually(lambda: "0 bytes" not in repr(response), what="the first piece")

        def until_third(piece: bytes) -> None:
            bucket.is_full = b"third" in bucket.taken

        bucket = Bucket(until_third)
        task = asyncio.ensure_future(response.pour(bucket))
        await eventually(lambda: bucket.taken == b"first", what="the first piece")
        await peer.send(chunk(b"second"))
        await eventually(lambda: bucket.taken == b"firstsecond", what="the second piece")
        await peer.send(chunk(b"third"))
        await task
        await peer.send(chunk(b"fourth") + END)
        assert await response.read(100) == b"fourth"


async def test_sink_that_does_not_keep_up_stops_the_upstream() -> None:
    async with pouring() as (response, peer):
        go_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bucket = Bucket(lambda _: go_on)
        task = asyncio.ensure_future(response.pour(bucket))
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(400):
                await peer.send(chunk(b"x" * 65536))
                sent += 65536
            await peer.send(END)

        sending = asyncio.ensure_future(send())
        before = -1
        while before != sent or not bucket.taken:  # until there is no progress any more
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 400 * 65536
        assert len(bucket.taken) <= 4 * WAITING_BYTES_MAX
        go_on.set_result(None)
        await task
        await sending
        assert len(bucket.taken) == 400 * 65536


@cases("is_waited_for", False, True)
async def test_what_the_sink_raises_is_raised(is_waited_for: bool) -> None:
    async with pouring() as (response, peer):

        def fail(_: bytes) -> asyncio.Future[None]:
            if not is_waited_for:
                raise ZeroDivisionError
            late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(late.set_exception, ZeroDivisionError())
            return late

        task = asyncio.ensure_future(response.pour(Bucket(fail)))
        await asyncio.sleep(0)
        await peer.send(chunk(b"data"))
        with pytest.raises(ZeroDivisionError):
            await task


async def test_body_cut_short_is_a_cut_after_what_came() -> None:
    async with pouring() as (response, peer):
        bucket = Bucket(lambda _: None)
        await peer.send(chunk(b"data"))
        peer.close()
        with pytest.raises(UpstreamCut):
            await response.pour(bucket)
        assert bucket.taken == b"data"


async def test_nothing_is_handed_over_once_it_is_cancelled() -> None:
    async with pouring() as (response, peer):
        bucket = Bucket(lambda _: None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await response.pour(bucket)
        await peer.send(chunk(b"late") + END)
        assert await response.read(100) == b"late"
        assert bucket.taken == b""


def lines_in(piece: bytes) -> int:
    return piece.count(b"\n") + piece.count(b"\r")


@cases(
    "unit",
    pytest.param(b"\n", id="blank lines"),
    pytest.param(b"\r", id="bare CR"),
    pytest.param(b"event:\n", id="lines without end"),
    pytest.param(b"data: {}\n\n", id="tiny events"),
    pytest.param(b": \r\n\r\n", id="comments"),
    pytest.param(b"data: " + b"x" * 300 + b"\n\n", id="the usual events"),
    pytest.param(b"x" * 100_000, id="an image"),
)
async def test_fast_upstream_has_its_share_of_each_turn(unit: bytes) -> None:
    body = unit * (3_000_000 // len(unit))
    turn = 0
    bytes_of: Counter[int] = Counter()
    lines_of: Counter[int] = Counter()
    events_cut = 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def note(piece: bytes) -> None:
        nonlocal events_cut
        bytes_of[turn] += len(piece)
        lines_of[turn] += lines_in(piece)
        events_cut += not piece.endswith(b"\n\n")

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        await peer.send(body)

    async with RawServer(script) as server, new_http() as http:
        response = await http.open(server.request())
        bucket = Bucket(note)
        counting = asyncio.ensure_future(count_turns())
        await response.pour(bucket)
        counting.cancel()
        response.close()
    assert bucket.taken == body
    # A read may bring its first share in the turn that has had one.
    assert max(bytes_of.values()) <= 2 * TURN_BYTES
    assert max(lines_of.values()) <= 2 * TURN_LINES
    if unit.endswith(b"\n\n"):
        assert events_cut < len(bytes_of) / 3, "events are not cut where they need not be"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
IN_LINES = {
    "chunks of a byte": CHUNKED + chunk(b"x") * 200_000 + END,
    "chunks of lines": CHUNKED + chunk(b"\n" * 1000) * 200 + END,
    "trailers": CHUNKED + chunk(b"x") + END[:-2] + b"a:\r\n" * 8000 + b"\r\n",
    "a head": CHUNKED[:-2] + b"a:\r\n" * 8000 + b"\r\n" + chunk(b"x") + END,
    "interim responses": b"HTTP/1.1 100 \r\n\r\n" * 1500 + CHUNKED + chunk(b"x") + END,
}


@pytest.mark.parametrize("sent", IN_LINES.values(), ids=IN_LINES)
async def test_fast_upstream_has_its_share_of_each_turn_however_it_is_framed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    turn = 0
    steps: Counter[int] = Counter()

    def counted(method: Any) -> Any:
        def step(*arguments: Any) -> None:
            steps[turn] += 1
            method(*arguments)

        return step

    for name in ("on_header", "on_body", "on_headers_complete"):
        monkeypatch.setattr(UpstreamConnection, name, counted(getattr(UpstreamConnection, name)))

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def script(peer: Peer) -> None:
        for _ in range(2):
            await peer.request()
            await peer.send(sent)

    async with RawServer(script) as server, new_http() as http:
        counting = asyncio.ensure_future(count_turns())
        for _ in range(2):  # the second one on the same connection
            response = await http.open(server.request())
            assert len(await response.read(10**6)) in (1, 200_000)
        counting.cancel()
        assert server.connections == 1
    assert sum(steps.values()) >= 500
    assert max(steps.values()) <= TURN_LINES + 1
