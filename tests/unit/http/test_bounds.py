"""What a connection holds of a client that has shown no key, in every state that it can be kept in.

Counted exactly, by what Python has allocated, on real sockets: what the system buffers is its own.
"""

import asyncio
import dataclasses
import gc
import socket
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from gw.http import connection, deadlines
from gw.http.body import InboundBody
from gw.http.connection import CONNECTION_BYTES_MAX, READ_BYTES_MAX, Connection
from gw.http.head import HEAD_BYTES_MAX
from gw.http.parser import TURN_LINES, RequestParser
from gw.keys.principal import Principal
from tests.support.aio import eventually, jump, run
from tests.support.rows import each
from tests.unit.api.fakes import FakeConfig, FakeKeys, World
from tests.unit.api.handlers import Script
from tests.unit.http.client import request
from tests.unit.http.test_server import FREE, Socket, connected, echo, front

CLIENTS = 20
SENT_BYTES = 4 * 1024 * 1024  # by each client, unless the gateway reads no more
QUIET_ROUNDS = 50
KEYLESS = request("GET", "/v1/free", key=None).replace("\n", "\r\n").encode()
LINES = b"".join(b"X-Name-%03d: %s\r\n" % (number, b"y" * 200) for number in range(250))


class PendingKeys(FakeKeys):
    """The database does not say yet whose a key is."""

    def __init__(self) -> None:
        super().__init__()
        self.remembers = False
        self.go_on = asyncio.Event()

    async def read(self, key_text: str, touch: bool) -> Principal:
        await self.go_on.wait()
        return await super().read(key_text, touch)


def in_chunks(body: bytes, size: int) -> bytes:
    """A body of pieces that are all alike, in chunks of this size."""
    piece, count = body[:size], len(body) // size or 1
    assert piece * count == body[: len(piece) * count]
    return b"%x\r\n%b\r\n" % (len(piece), piece) * count


def post(path: str, *headers: str) -> bytes:
    return request("POST", path, *headers).replace("\n", "\r\n").encode()


CHUNKED_HEAD = post("/v1/echo", "Transfer-Encoding: chunked")
# What each client sends, in this order and as far as it may.
KINDS = {
    "slow head": b"GET /v1/free HTTP/1.1\r\nHost: a\r\n" + LINES,
    "long target": b"GET /v1/free?" + b"x" * (HEAD_BYTES_MAX - 100),
    "start line that never ends": b"BREW /v1/free?" + b"x" * (HEAD_BYTES_MAX - 100),
    "large heads": (KEYLESS[:-2] + LINES + b"\r\n") * (SENT_BYTES // len(LINES)),
    "unread answers": KEYLESS * (SENT_BYTES // len(KEYLESS)),
    "body before its key is known": echo(b"x" * SENT_BYTES),
    "body in tiny chunks before its key is known": CHUNKED_HEAD
    + in_chunks(b"x" * (SENT_BYTES // 3), 2),
    "pipelined behind a call": post("/v1/echo", "Content-Length: 2")
    + b"{}"
    + KEYLESS * (SENT_BYTES // len(KEYLESS)),
    "empty lines": b"\r\n" * (SENT_BYTES // 2),
    "refused with a body": request("POST", "/v1/echo", f"Content-Length: {SENT_BYTES}", key=None)
    .replace("\n", "\r\n")
    .encode()
    + b"x" * SENT_BYTES,
    "large head before its key is known": post("/v1/echo", "Content-Length: 4194304")[:-2]
    + LINES
    + b"\r\n"
    + b"x" * SENT_BYTES,
    "a trailer": CHUNKED_HEAD + b"2\r\n{}\r\n0\r\n" + LINES,
}


@asynccontextmanager
async def clients(port: int, sent: bytes, *, half_closed: bool) -> AsyncIterator[None]:
    """So many connections that have sent what the gateway takes, and read nothing."""
    loop = asyncio.get_running_loop()
    socks = [socket.socket() for _ in range(CLIENTS)]
    rest = dict.fromkeys(socks, memoryview(sent))
    try:
        for sock in socks:
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", port))
        quiet = 0
        while quiet < QUIET_ROUNDS:
            quiet += 1
            for sock in socks:
                try:
                    count = sock.send(rest[sock])
                except (BlockingIOError, ConnectionError):
                    continue
                if count:
                    rest[sock] = rest[sock][count:]
                    quiet = 0
                elif half_closed:
                    sock.shutdown(socket.SHUT_WR)
            await asyncio.sleep(0)
        yield
    finally:
        for sock in socks:
            sock.close()


async def held_bytes(sent: bytes, *, half_closed: bool) -> float:
    """What one connection holds of such a client, those of others taken off."""
    keys = PendingKeys()
    world = World(keys=keys)
    async with front(world) as (_, port):
        tracemalloc.start()
        try:
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            async with clients(port, sent, half_closed=half_closed):
                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            keys.go_on.set()
    await eventually(lambda: len(world.in_flight) == 0)
    return (after - before) / CLIENTS


@pytest.mark.long
@each("half_closed", [False, True])
@each("sent", KINDS.values())
def test_connection_without_a_key_holds_no_more_than_its_bound(
    sent: bytes, half_closed: bool
) -> None:
    held = run(held_bytes(sent, half_closed=half_closed))
    assert held <= CONNECTION_BYTES_MAX


async def test_nothing_is_begun_while_answers_wait_for_their_reader() -> None:
    world = World()
    async with connected(world) as (one, sock):
        one.pause_writing()
        one.data_received(3 * FREE)
        await asyncio.sleep(0)
        assert world.in_flight.entered == 0
        one.resume_writing()
        await eventually(lambda: sock.written.count(b"HTTP/1.1 200 ") == 3)


async def test_requests_of_one_read_take_turns_with_everybody_else() -> None:
    world = World()
    async with connected(world) as (one, _):
        one.data_received(1000 * KEYLESS)
        entered = world.in_flight.entered
        assert entered <= 1
        while world.in_flight.entered < 1000:
            await asyncio.sleep(0)
            assert world.in_flight.entered <= entered + 1
            entered = world.in_flight.entered


async def test_client_that_takes_nothing_of_its_answers_is_cut() -> None:
    async with connected(World()) as (one, sock):
        one.data_received(echo(b"{}"))
        sock.unsent_bytes = 100_000
        one.pause_writing()
        jump(deadlines.UNREAD_SECONDS - 1)
        await asyncio.sleep(0)
        assert not sock.has_ended
        jump(1)
        await eventually(lambda: sock.has_ended)


async def test_client_that_keeps_the_least_pace_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadlines, "UNREAD_SECONDS", 20.0)
    monkeypatch.setattr(connection, "IDLE_SECONDS", 10.0)

    async with connected(World()) as (one, sock):
        one.data_received(FREE)
        await eventually(lambda: b"HTTP/1.1 200 " in sock.written)
        sock.unsent_bytes = 1_000_000
        one.pause_writing()
        for _ in range(3):  # more slowly than it may be idle
            sock.unsent_bytes -= deadlines.UNREAD_BYTES_MIN
            jump(deadlines.UNREAD_SECONDS)
            for _ in range(3):
                await asyncio.sleep(0.001)
            assert not sock.has_ended
        sock.unsent_bytes = 0
        one.resume_writing()
        jump(deadlines.UNREAD_SECONDS)
        await eventually(lambda: sock.has_ended)  # now it is idle


async def test_client_that_takes_its_answers_too_slowly_is_cut() -> None:
    async with connected(World()) as (one, sock):
        one.data_received(echo(b"{}"))
        sock.unsent_bytes = 1_000_000
        one.pause_writing()
        sock.unsent_bytes -= deadlines.UNREAD_BYTES_MIN
        jump(deadlines.UNREAD_SECONDS)
        for _ in range(3):
            await asyncio.sleep(0.001)
        assert not sock.has_ended
        sock.unsent_bytes -= deadlines.UNREAD_BYTES_MIN - 1
        jump(deadlines.UNREAD_SECONDS)
        await eventually(lambda: sock.has_ended)


async def test_client_that_takes_nothing_of_a_stream_is_cut_and_leaves_nothing() -> None:
    world, script = World(), Script()
    async with front(world, script) as (_, port):
        async with clients(port, post("/v1/torrent", "Content-Length: 0"), half_closed=False):
            assert len(world.in_flight) == CLIENTS
            jump(deadlines.UNREAD_SECONDS)
            await eventually(lambda: len(world.in_flight) == 0)
        assert world.limits.in_flight("acct_1") == 0


async def test_refused_client_is_listened_to_for_so_long_only() -> None:
    async with connected(World()) as (one, sock):
        one.data_received(b"nonsense\r\n\r\n")
        assert sock.written.startswith(b"HTTP/1.1 400 ")
        sock.has_ended = False
        for _ in range(connection.LINGER_BYTES_MAX // READ_BYTES_MAX):
            one.data_received(b"x" * READ_BYTES_MAX)
        assert not sock.has_ended
        one.data_received(b"x")
        assert sock.has_ended


async def fed(one: Connection, sock: Socket, sent: bytes, size: int = READ_BYTES_MAX) -> None:
    """Have all that was sent read, so much at a time: many reads a turn where none is held back."""
    for start in range(0, len(sent), size):
        while sock.is_held:
            await asyncio.sleep(0)
        one.data_received(sent[start : start + size])


async def test_tiny_chunks_of_a_turn_reach_the_handler_as_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[int] = []
    take = InboundBody.feed

    def feed(body: InboundBody, chunk: bytes) -> None:
        taken.append(len(chunk))
        take(body, chunk)

    monkeypatch.setattr(InboundBody, "feed", feed)

    world = World()
    world.money.remembers = True  # so that nothing waits for a check
    async with connected(world) as (one, sock):
        await fed(one, sock, CHUNKED_HEAD)
        await fed(one, sock, in_chunks(b"x" * 10_000, 1) + b"0\r\n\r\n")
        await eventually(lambda: b'"bytes":10000' in sock.written)
    assert sum(taken) == 10_000
    assert len(taken) <= 2 + 10_000 // (TURN_LINES // 4)


IN_LINES = {
    "chunks of a byte": CHUNKED_HEAD + in_chunks(b"x" * 200_000, 1) + b"0\r\n\r\n",
    "chunks of a line's end": CHUNKED_HEAD + in_chunks(b"\r\n" * 100_000, 2) + b"0\r\n\r\n",
    "one large chunk of lines": CHUNKED_HEAD + in_chunks(b"[]\n" * 60_000, 10**6) + b"0\r\n\r\n",
    "trailers": (CHUNKED_HEAD + b"2\r\n{}\r\n0\r\n" + b"X:y\r\n" * 200 + b"\r\n") * 50,
    "heads of a read each": (FREE[:-2] + LINES + b"\r\n") * 50,
    "empty lines": FREE + b"\r\n" * 200_000,
}


@pytest.mark.parametrize("sent", IN_LINES.values(), ids=IN_LINES)
async def test_fast_client_has_its_share_of_each_turn(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    steps: Counter[int] = Counter()
    turn = 0

    class Counting(RequestParser):
        def on_header(self, name: bytes, value: bytes) -> None:
            steps[turn] += 1
            super().on_header(name, value)

        def on_body(self, body: bytes) -> None:
            steps[turn] += 1
            super().on_body(body)

        def _parse(self, part: bytes) -> None:
            steps[turn] += 1
            super()._parse(part)

    monkeypatch.setattr(connection, "RequestParser", Counting)
    world = World()
    world.money.remembers = True
    async with connected(world) as (one, sock):

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        await fed(one, sock, sent)
        await eventually(lambda: not one.has_unread and one._request is None)
        counting.cancel()
    assert b" 200 OK" in sock.written
    assert max(steps.values()) <= 2 * TURN_LINES


BODY_BYTES = 4 * 1024 * 1024
IN_TINY_PIECES = {
    "chunks": (CHUNKED_HEAD, in_chunks(b"x" * BODY_BYTES, 2) + b"0\r\n\r\n", READ_BYTES_MAX),
    "segments": (post("/v1/work", f"Content-Length: {BODY_BYTES}"), b"x" * BODY_BYTES, 100),
}


@each("head, sent, size", IN_TINY_PIECES.values())
def test_body_in_tiny_pieces_takes_no_more_than_one_and_a_half_of_its_size(
    head: bytes, sent: bytes, size: int
) -> None:
    async def scene() -> int:
        world, script = World(), Script()
        world.money.remembers = True
        config = FakeConfig(max_body_bytes=BODY_BYTES)
        world.services = dataclasses.replace(world.services, config=cast(Any, config))
        async with connected(world, script) as (one, sock):
            one.data_received(head.replace(b"/v1/echo", b"/v1/work"))
            tracemalloc.start()
            try:
                await fed(one, sock, sent, size)
                await eventually(script.begun.is_set)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
                script.go_on.set()
                await eventually(lambda: one._request is None)

    assert run(scene()) <= 1.5 * BODY_BYTES
