"""What only the httptools server has to get right: turns, bounds, ends. The rest is in `test_*`."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest

from channels.open_files import OpenFiles
from gw.http import connection
from gw.http import connection as state
from gw.http.connection import LOOKS_MAX, READ_BYTES_MAX, Connection
from gw.http.head import HEAD_BYTES_MAX
from gw.http.server import Server
from loadtests.rig.response import Response
from tests.support.aio import eventually, jump
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.api.fakes import World
from tests.unit.api.handlers import Script, make_app
from tests.unit.http.client import Address, Client, open_files, request, serving

FREE = request("GET", "/v1/free").replace("\n", "\r\n").encode()
PATIENCE_SECONDS = 1.0
PIPELINED = 40


def echo(body: bytes, *headers: str) -> bytes:
    lines = headers or (f"Content-Length: {len(body)}",)
    return request("POST", "/v1/echo", *lines).replace("\n", "\r\n").encode() + body


@asynccontextmanager
async def front(
    world: World,
    script: Script | None = None,
    *,
    connections_max: int = 100,
    files: OpenFiles | None = None,
) -> AsyncIterator[tuple[Server, int]]:
    application = make_app(world, script)
    async with serving(application, files=files, connections_max=connections_max) as (one, address):
        yield one, address.port


def client(port: int) -> AbstractAsyncContextManager[Client]:
    return Address(port).client()


async def silence(of: Client) -> bytes:
    """What the client is sent while it says nothing for longer than anybody waits for it."""
    ended = asyncio.ensure_future(of.reader.read())
    while not ended.done():
        jump(PATIENCE_SECONDS / 2)
        await asyncio.sleep(0.01)
    return await ended


async def responses_of(wire: bytes, size: int, count: int) -> list[Response]:
    """So many answers to bytes that come in pieces of this size."""
    async with front(World()) as (_, port), client(port) as one:
        for start in range(0, len(wire), size):
            await one.send(wire[start : start + size])
        return [await one.response() for _ in range(count)]


@cases("size", 1, 7, 1000, 10**6)
async def test_requests_are_answered_in_their_order_however_they_were_cut(size: int) -> None:
    wire = b"".join(echo(b"%d" % number) for number in range(PIPELINED)) + FREE
    *echoes, free = await responses_of(wire, size, PIPELINED + 1)
    assert [one.json["text"] for one in echoes] == [str(number) for number in range(PIPELINED)]
    assert free.status == 200


@cases("size", 1, 50, 10**6)
@cases(
    "line, body",
    ("Content-Length: 5", b"hello"),
    ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
)
async def test_wish_to_upgrade_is_not_followed_and_its_body_is_no_second_request(
    line: str, body: bytes, size: int
) -> None:
    wire = echo(body, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", line) + FREE
    first, second = await responses_of(wire, size, 2)
    assert (first.json["text"], second.body) == ("hello", b"{}")


async def test_trailers_are_read_and_dropped_and_refused_without_an_end() -> None:
    async with front(World()) as (_, port), client(port) as one:
        body = b"5\r\nhello\r\n0\r\nAuthorization: Bearer x\r\n"
        await one.send(echo(body + b"\r\n", "Transfer-Encoding: chunked") + FREE)
        assert (await one.response()).json["text"] == "hello"
        assert (await one.response()).status == 200
        await one.send(echo(body + b"X: y\r\n" * 1000, "Transfer-Encoding: chunked"))
        assert (await one.response()).status == 400
        assert await one.ended()


class Socket(asyncio.Transport):
    """The connection's transport, of which only what is written counts."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unsent_bytes = 0  # of it; none, unless a test says so
        self.has_ended = False
        self.is_held = False  # nothing is to be read

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        self.is_held = True

    def resume_reading(self) -> None:
        self.is_held = False

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self.has_ended = True

    def abort(self) -> None:
        self.has_ended = True


@asynccontextmanager
async def connected(
    world: World, script: Script | None = None
) -> AsyncIterator[tuple[Connection, Socket]]:
    """A connection whose reads are cut where the test says."""
    async with front(world, script) as (listener, _):
        socket = Socket()
        one = Connection(listener._state)
        one.connection_made(socket)
        try:
            yield one, socket
        finally:
            one.connection_lost(None)


async def test_head_that_begins_behind_a_large_body_is_not_taken_for_large() -> None:
    async with connected(World()) as (one, socket):
        one.data_received(echo(b"x" * 2 * HEAD_BYTES_MAX) + FREE[:10])
        one.data_received(FREE[10:])
        await eventually(lambda: socket.written.count(b"HTTP/1.1 200 ") == 2)


@cases(
    "start",
    b"GET /v1/free?",
    b"GET /v1/free HTTP/1.1\r\nHost: a\r\nX: ",
    echo(b"5\r\nhello\r\n0\r\nX: ", "Transfer-Encoding: chunked"),
    echo(b"5;", "Transfer-Encoding: chunked"),
)
async def test_no_more_is_kept_of_what_has_no_end_than_a_head_may_have(start: bytes) -> None:
    world = World()
    async with connected(world) as (one, socket):
        one.data_received(start)
        sent_bytes = 0
        while not socket.written and sent_bytes <= HEAD_BYTES_MAX + READ_BYTES_MAX:
            one.data_received(b"y" * 1000)
            sent_bytes += 1000
            await asyncio.sleep(0)  # where the head is whole, its handler hears of it
        assert socket.written.startswith(b"HTTP/1.1 400 ")
        assert b"is larger than 64 KB" in socket.written
    assert len(world.in_flight) == 0


WORK = request("POST", "/v1/work", "Content-Length: 0").replace("\n", "\r\n").encode()


async def test_one_connection_too_many_is_refused_and_closed() -> None:
    world, script = World(), Script()
    files = open_files()
    async with (
        front(world, script, connections_max=1, files=files) as (listener, port),
        client(port) as one,
    ):
        await one.send(WORK)
        await script.begun.wait()
        assert listener.is_full
        async with client(port) as other:
            response = await other.response()
            assert (response.status, response.code) == (503, "no_channel_available")
            assert response.headers["retry-after"] == "1"
            assert await other.ended()
        assert files.metrics._refused[("connections",)].value == 1
        script.go_on.set()
        assert (await one.response()).status == 200
        assert not listener.is_full


async def test_connection_that_waits_for_longest_is_closed_for_a_new_one() -> None:
    script = Script()
    async with (
        front(World(), script, connections_max=4) as (listener, port),
        client(port) as busy,
        client(port) as beginning,
        client(port) as idle,
        client(port) as kept,
        AsyncExitStack() as stack,
    ):
        await busy.send(WORK)
        await beginning.send(FREE[:-2])
        for one in (kept, idle, kept):  # `idle` is silent for longer
            await one.send(FREE)
            assert (await one.response()).status == 200
        others = []
        for closed in (idle, kept, beginning):
            others.append(await stack.enter_async_context(client(port)))
            await others[-1].send(WORK)
            assert await closed.ended()
        await eventually(lambda: listener.is_full)
        async with client(port) as one_more:
            assert (await one_more.response()).status == 503
        script.go_on.set()
        for one in (busy, *others):
            assert (await one.response()).status == 200


async def test_those_that_leave_are_bounded_and_the_first_of_them_is_cut() -> None:
    script = Script()
    async with (
        front(World(), script, connections_max=1) as (listener, port),
        client(port) as busy,
        AsyncExitStack() as stack,
    ):
        await busy.send(WORK)
        await script.begun.wait()
        for _ in range(2 * LOOKS_MAX):  # each is refused, and stays
            one = await stack.enter_async_context(client(port))
            assert (await one.response()).status == 503
        await eventually(lambda: len(listener._state.connections) == 1 + LOOKS_MAX)
        script.go_on.set()
        assert (await busy.response()).status == 200


@logs("files_running_out")
async def test_shortage_of_files_closes_what_is_idle_before_anybody_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = open_files()
    script = Script()
    async with (
        front(World(), script, files=files) as (listener, port),
        client(port) as busy,
        client(port) as idle,
    ):
        await idle.send(FREE)
        assert (await idle.response()).status == 200
        await busy.send(WORK)
        await script.begun.wait()
        monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))  # far fewer than are open
        async with client(port) as other:
            assert await idle.ended()
            await other.send(WORK)
            for _ in range(3):
                async with client(port) as one_more:
                    response = await one_more.response()
                    assert (response.status, response.code) == (503, "no_channel_available")
                    assert await one_more.ended()
                assert len(listener._state.connections) <= 3  # it keeps no file
            monkeypatch.undo()
            script.go_on.set()
            for one in (busy, other):
                assert (await one.response()).status == 200
    assert files.metrics._freed[("clients",)].value == 1
    assert files.metrics._refused[("files",)].value == 3


@pytest.mark.parametrize(
    ("limit", "start"),
    [
        ("IDLE_SECONDS", b""),
        ("HEAD_SECONDS", b"GET / HTTP/1.1\r\nHost: a"),
        ("BODY_SECONDS", echo(b"{", "Content-Length: 9999")),
    ],
)
async def test_client_that_says_no_more_is_closed(
    monkeypatch: pytest.MonkeyPatch, limit: str, start: bytes
) -> None:
    monkeypatch.setattr(state if limit == "IDLE_SECONDS" else connection, limit, PATIENCE_SECONDS)

    world = World()
    async with front(world) as (_, port), client(port) as one:
        await one.send(start)
        assert await silence(one) == b""
        await eventually(lambda: len(world.in_flight) == 0)
        assert world.limits.in_flight("acct_1") == 0


async def test_call_is_not_cut_for_the_silence_of_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "IDLE_SECONDS", PATIENCE_SECONDS)
    for limit in ("HEAD_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(connection, limit, PATIENCE_SECONDS)

    script = Script()
    async with front(World(), script) as (_, port), client(port) as one:
        await one.send(WORK)
        async with client(port) as other:  # has come later, and is closed for its silence
            assert await silence(other) == b""
        script.go_on.set()
        assert (await one.response()).status == 200


@cases("more, status", (0, 200), (1, 400))
@cases("size", 1, 1000, 2 * HEAD_BYTES_MAX)
async def test_head_is_measured_as_it_came(more: int, status: int, size: int) -> None:
    wire = FREE[:-4] + b"\r\nX: " + b"y" * (HEAD_BYTES_MAX - len(FREE) - 5 + more) + b"\r\n\r\n"

    async with connected(World()) as (one, socket):
        for start in range(0, len(wire), size):
            one.data_received(wire[start : start + size])
        await eventually(lambda: b"HTTP/1.1 %d " % status in socket.written)


async def test_listener_that_closes_lets_go_of_everyone() -> None:
    async with front(World()) as (listener, port), client(port) as one:
        await one.send(FREE)
        assert (await one.response()).status == 200
        await listener.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await one.send(FREE)
        assert (await one.response()).status == 200
        await listener.close()
        assert await one.ended()
        assert "0 connections" in repr(listener)
