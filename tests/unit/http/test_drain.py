"""The end of the process: requests in flight, and what clients see."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gw.http import listening_sockets
from gw.http.connection import DRAIN_GRACE_SECONDS, HEAD_SECONDS, State
from gw.http.drain import CUT_SECONDS, RequestsInFlight
from gw.http.server import Server
from tests.support.aio import both_loops, eventually, jump
from tests.support.certificates import contexts
from tests.support.clock import FakeClock
from tests.support.rows import cases
from tests.unit.api.fakes import World
from tests.unit.api.handlers import Script, make_app
from tests.unit.http.client import Client, request, served, serving
from tests.unit.http.test_server import connected


class Request:
    """Ends when it is cut, or not even then."""

    def __init__(self, in_flight: RequestsInFlight, *, is_stubborn: bool = False) -> None:
        self.in_flight = in_flight
        self.is_stubborn = is_stubborn
        self.is_cut = False
        in_flight.enter(self)

    def cut(self) -> None:
        self.is_cut = True
        if not self.is_stubborn:
            self.in_flight.leave(self)


async def test_a_drain_ends_with_the_last_request() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    first, second = Request(in_flight), Request(in_flight)
    draining = asyncio.create_task(in_flight.drain(seconds=30, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    assert repr(in_flight) == "<RequestsInFlight 2 requests draining>"
    in_flight.leave(first)
    in_flight.leave(first)
    clock.advance(29)
    await asyncio.sleep(0)
    assert not draining.done()
    in_flight.leave(second)
    assert await draining == 0
    assert not any(request.is_cut for request in (first, second))
    assert clock.sleepers == 0


async def test_what_does_not_even_end_when_cut_is_not_waited_for_for_ever() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    Request(in_flight, is_stubborn=True)
    draining = asyncio.create_task(in_flight.drain(seconds=0, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    clock.advance(0)
    await eventually(lambda: clock.sleepers == 1 and not draining.done())
    clock.advance(CUT_SECONDS)
    assert await draining == 1


async def test_request_that_slips_in_behind_the_last_one_is_waited_for_and_not_cut() -> None:
    in_flight, clock = RequestsInFlight(), FakeClock()
    first = Request(in_flight)
    draining = asyncio.create_task(in_flight.drain(seconds=30, clock=clock))
    await eventually(lambda: clock.sleepers == 1)
    in_flight.leave(first)
    second = Request(in_flight)  # before whoever waits has had a look
    for _ in range(10):
        await asyncio.sleep(0)
    assert not draining.done()
    in_flight.leave(second)
    assert await draining == 0
    assert not second.is_cut


STREAM = request("POST", "/v1/stream", "Content-Length: 2")
WORK = request("POST", "/v1/work", "Content-Length: 2")
FREE = request("GET", "/v1/free")


async def test_answer_whose_head_goes_out_while_draining_ends_its_connection() -> None:
    world, script = World(), Script()
    async with served(make_app(world, script)) as address, address.client() as one:
        requested = asyncio.create_task(one.request(WORK, b"{}"))
        await script.begun.wait()
        world.in_flight.begin_drain()
        script.go_on.set()
        response = await requested
        assert (response.status, response.headers["connection"]) == (200, "close")
        assert await one.ended()


@cases(
    "path, message",
    ("/v1/echo", {"type": "server_error", "code": "no_channel_available"}),
    ("/v1/messages", {"type": "overloaded_error"}),
    ("/v1beta/native", {"code": 503, "status": "UNAVAILABLE"}),
)
async def test_request_that_comes_too_late_is_refused_in_the_shape_of_its_endpoint(
    path: str, message: dict[str, object]
) -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as one:
        assert (await one.request(FREE)).status == 200
        requested = len(world.keys.uses)
        world.in_flight.refuse_new()
        refused = await one.request(request("POST", path, "Content-Length: 2"), b"{}")
        assert (refused.status, refused.headers["connection"]) == (503, "close")
        assert refused.headers["retry-after"] == "1"
        assert message.items() <= refused.json["error"].items()
        assert await one.ended()
        await eventually(lambda: len(world.in_flight) == 0)
    assert len(world.keys.uses) == requested  # nobody looked whose key it is
    assert world.refusals == []


@both_loops
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
async def test_connection_that_nobody_had_accepted_is_served(
    monkeypatch: pytest.MonkeyPatch, *, has_tls: bool
) -> None:
    tls, trust = contexts("gateway") if has_tls else (None, None)
    made: list[socket.socket] = []

    def made_now(listening: socket.socket) -> bool:
        """The last moment before nobody accepts any more."""
        made.extend(socket.create_connection(listening.getsockname()) for _ in range(5))
        return False

    monkeypatch.setattr(listening_sockets, "refuse_handshakes", made_now)

    async with serving(make_app(World()), tls=tls, trust=trust) as (listener, address):
        await listener.stop_accepting()
        name = None if trust is None else "gateway"
        assert made
        while made:
            sock = made.pop()
            one = Client(*await asyncio.open_connection(sock=sock, ssl=trust, server_hostname=name))
            assert (await one.request(FREE)).status == 200
            one.writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", address.port)


@asynccontextmanager
async def draining(
    world: World, script: Script | None = None
) -> AsyncIterator[tuple[Server, Client]]:
    """A listener that takes nobody any more, and a client that is connected."""
    async with serving(make_app(world, script)) as (listener, address), address.client() as one:
        assert isinstance(listener, Server)
        yield listener, one


async def stop_accepting(world: World, listener: Server) -> None:
    world.in_flight.begin_drain()
    await listener.stop_accepting()


async def stream_over(one: Client, script: Script, world: World, listener: Server) -> None:
    """A stream that begins before the drain and ends in it."""
    await one.send(STREAM.replace("\n", "\r\n").encode() + b"{}")
    assert b"keep-alive" not in await one.reader.readuntil(b"\r\n\r\n")
    await stop_accepting(world, listener)
    script.go_on.set()
    await one.reader.readuntil(b"0\r\n\r\n")


async def test_client_of_a_stream_that_could_not_know_is_served_once_more() -> None:
    world, script = World(), Script()
    async with draining(world, script) as (listener, one):
        await stream_over(one, script, world, listener)
        last = await one.request(FREE)
        assert (last.status, last.headers["connection"]) == (200, "close")
        assert await one.ended()


@cases("is_used", False, True)
async def test_silent_connection_is_closed_a_moment_after_the_drain_began(*, is_used: bool) -> None:
    world = World()
    async with draining(world) as (listener, one):
        if is_used:
            assert (await one.request(FREE)).status == 200
        await stop_accepting(world, listener)
        ended = asyncio.create_task(one.reader.read())
        jump(DRAIN_GRACE_SECONDS / 2)
        await asyncio.sleep(0)
        assert not ended.done()
        jump(DRAIN_GRACE_SECONDS / 2)
        assert await ended == b""
        # What it sends at that moment is answered by the end, not by a reset.
        await one.send(FREE.replace("\n", "\r\n").encode())
        await asyncio.sleep(0.01)
        assert await one.reader.read() == b""


HEAD = FREE.replace("\n", "\r\n").encode()


@both_loops
@pytest.mark.parametrize("is_new", [False, True], ids=["before the drain", "in the drain"])
async def test_client_stuck_within_a_head_holds_up_a_drain_no_longer_than_a_silent_one(
    *, is_new: bool
) -> None:
    world = World()
    async with draining(world) as (listener, one):
        if is_new:
            await stop_accepting(world, listener)
        await one.send(HEAD[:30])
        (connection,) = listener._state.connections
        await eventually(lambda: connection._state is State.HEAD)
        if not is_new:
            await stop_accepting(world, listener)
        waiting = asyncio.create_task(listener.wait_for_clients(1e6))
        jump(DRAIN_GRACE_SECONDS)
        assert await one.ended()  # and does not leave
        assert not waiting.done()
        jump(DRAIN_GRACE_SECONDS)
        await waiting


async def went_by(seconds: float) -> None:
    """So much later, once the loop has seen what is due by then."""
    jump(seconds)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@cases("is_new", False, True)
async def test_head_that_gets_on_in_a_drain_is_waited_for_and_served(*, is_new: bool) -> None:
    world = World()
    async with connected(world) as (one, sock):
        for start in range(0, 40, 10):
            if start == (0 if is_new else 10):
                world.in_flight.begin_drain()
                one._server.is_draining = True
                one.drain()
            one.data_received(HEAD[start : start + 10])
            await went_by(DRAIN_GRACE_SECONDS * 0.9)
        one.data_received(HEAD[40:])
        await eventually(lambda: b"HTTP/1.1 200 " in sock.written)
        assert b"Connection: close\r\n" in sock.written


async def test_head_that_gets_on_without_end_has_its_time_in_a_drain_as_well() -> None:
    async with connected(World()) as (one, sock):
        one.data_received(HEAD[:-2])
        one._server.is_draining = True
        one.drain()
        seconds = 0.0
        while not sock.has_ended:
            one.data_received(b"X: y\r\n")
            seconds += DRAIN_GRACE_SECONDS / 2
            await went_by(DRAIN_GRACE_SECONDS / 2)
            assert seconds <= HEAD_SECONDS
        assert seconds > HEAD_SECONDS - DRAIN_GRACE_SECONDS


async def test_call_that_is_shed_in_a_drain_is_refused_as_well() -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as one:
        world.in_flight.begin_drain()
        world.overload.limit = 0
        shed = await one.request(WORK, b"{}")
        assert (shed.status, shed.headers["connection"]) == (503, "close")
        assert await one.ended()


@cases("has_tls", False, True)
async def test_wait_for_clients_ends_when_none_is_connected(*, has_tls: bool) -> None:
    world = World()
    tls, trust = contexts("gateway") if has_tls else (None, None)
    async with (
        serving(make_app(world), tls=tls, trust=trust) as (listener, address),
        address.client() as one,
    ):
        assert (await one.request(FREE)).status == 200
        await stop_accepting(world, listener)
        waiting = asyncio.create_task(listener.wait_for_clients(1e6))
        await asyncio.sleep(0)
        assert not waiting.done()
        one.writer.close()
        if has_tls:  # by then a handshake is over, or will never be
            jump(DRAIN_GRACE_SECONDS)
        await waiting
