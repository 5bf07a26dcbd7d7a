"""The HTTP client, request by request: what is sent, kept, lost, cut and ended early."""

import pytest

from channels.answers import KEEPER
from channels.errors import UpstreamUnreachable
from tests.support.aio import both_loops
from tests.support.rows import cases
from tests.unit.channels.raw_server import (
    OK,
    Peer,
    RawServer,
    new_http,
    once,
)

pytestmark = both_loops


async def test_request_carries_headers_body_and_nothing_of_the_library() -> None:
    async with RawServer(once(OK)) as server, new_http() as http:
        response = await http.open(server.request(b'{"a":1}'))
        assert response.status == 200
        assert response.header("content-TYPE") == "application/json"
        assert response.header("x-none") is None
        assert await response.read(100) == b"{}"
        response.close()
    ((sent, body),) = server.requests
    assert body == b'{"a":1}'
    head = sent.lower()
    assert head.startswith(b"post /v1/chat/completions http/1.1\r\n")
    assert b"\r\nuser-agent: gw/" in head
    assert b"\r\naccept-encoding: identity\r\n" in head
    assert b"\r\nx-test: 1\r\n" in head
    assert head.count(b"content-type:") == 1
    for unwanted in (b"aiohttp", b"accept: ", b"transfer-encoding", b"expect", b"cookie"):
        assert unwanted not in head


@cases("is_reset", False, True)
async def test_request_that_has_arrived_is_not_sent_twice(is_reset: bool) -> None:
    """Whoever took it may be carrying it out: another channel may be tried, this one not."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        peer.reset() if is_reset else peer.close()

    async with RawServer(script) as server, new_http() as http:
        await (await http.open(server.request())).read(100)
        with pytest.raises(UpstreamUnreachable):
            await http.open(server.request())
        assert (server.connections, len(server.requests)) == (1, 2)


class Room:
    """An `AnswerKeeper` that has room for everything."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def keep(self, size_bytes: int) -> None:
        self.asked.append(size_bytes)


@cases("is_stated", False, True)
async def test_room_for_a_large_body_is_taken_at_once_where_its_length_is_stated(
    is_stated: bool,
) -> None:
    size, room = 3 << 20, Room()
    head = b"Content-Length: %d" % size if is_stated else b"Connection: close"
    KEEPER.set(room)
    answer = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (head, bytes(size))
    async with RawServer(once(answer)) as server, new_http() as http:
        body = await (await http.open(server.request())).read(size)
    assert len(body) == size
    assert (room.asked == [size]) is is_stated
    assert room.asked[-1] >= size
