"""Clients that leave, faults while the endpoint works, and the end of the process."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from tornado.iostream import StreamClosedError

from actors.limits.accounts import AccountLimits, Permit
from actors.limits.limiter import Limiter
from actors.store.errors import StoreUnavailable
from gw.api.failures import INTERNAL_MESSAGE, STORE_MESSAGE
from gw.errors import ENDING
from loadtests.rig.response import Response
from tests.support.aio import eventually, waited
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.api.handlers import HUGE_BYTES, Script, make_app
from tests.unit.http.client import Client, request, served

WORK = request("POST", "/v1/work", "Content-Length: 2")
SIZED = request("POST", "/v1/sized", "Content-Length: 2")
STREAM = request("POST", "/v1/stream", "Content-Length: 2")


async def begin(client: Client, head: str) -> None:
    await client.send(head.replace("\n", "\r\n").encode() + b"{}")


async def drain(world: World, seconds: int = 30) -> asyncio.Task[int]:
    """Begin to drain for so long."""
    drained = asyncio.create_task(world.in_flight.drain(seconds=seconds, clock=world.clock))
    await eventually(lambda: world.in_flight.is_draining)
    return drained


@pytest.mark.parametrize("head", [WORK, STREAM], ids=["before the answer", "in a stream"])
async def test_a_client_that_leaves_cancels_the_work(head: str) -> None:
    world, script = World(), Script()
    script.may_end.clear()
    async with served(make_app(world, script)) as address, address.client() as client:
        await begin(client, head)
        await script.begun.wait()
        assert world.limits.in_flight("acct_1") == 1
        client.leave()
        await eventually(lambda: script.events == ["cancelled gone=True"])
        assert world.limits.in_flight("acct_1") == 0
        # It is out of flight only when it has ended well: a drain waits for that.
        assert len(world.in_flight) == 1
        script.may_end.set()
        await eventually(lambda: len(world.in_flight) == 0)
    assert script.events == ["cancelled gone=True", "ended"]
    assert [status for _, status in world.metrics.responses] == [499]
    assert world.refusals == []


@cases("others", 0, 1)
async def test_a_client_that_leaves_while_its_limits_are_checked_keeps_no_place(
    others: int,
) -> None:
    """Its connection has ended before there is a place to give back."""

    class SlowLimits(AccountLimits):
        began = asyncio.Event()
        may_answer = asyncio.Event()
        has_answered = False

        async def enter(
            self, account_id: str, *, rpm: int | None, concurrency: int | None
        ) -> Permit:
            self.began.set()
            await self.may_answer.wait()
            self.has_answered = True
            return await waited(super().enter(account_id, rpm=rpm, concurrency=concurrency))

    world = World()
    limiter = Limiter(clock=world.clock)
    slow = SlowLimits(limiter=limiter, metrics=cast(Any, world.metrics))
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    for _ in range(others):
        await waited(limiter.enter("acct_1", rpm=None, concurrency=None))
    world.services = dataclasses.replace(world.services, limits=slow)
    async with served(make_app(world)) as address, address.client() as client:
        await client.send(WORK.replace("\n", "\r\n").encode())  # the body is still to come
        await slow.began.wait()
        client.leave()
        await eventually(lambda: len(world.in_flight) == 0)
        slow.may_answer.set()
        await eventually(lambda: slow.has_answered and len(world.in_flight) == 0)
        assert limiter.in_flight("acct_1") == others
    assert [status for _, status in world.metrics.responses] == [499]


async def test_a_client_that_leaves_with_its_last_byte_is_noticed() -> None:
    world, script = World(), Script()
    async with served(make_app(world, script)) as address:
        async with address.client() as client:
            client.writer.write(WORK.replace("\n", "\r\n").encode() + b"{}")
            client.writer.close()
        await eventually(lambda: world.metrics.responses == [("/v1/work", 499)])
        await eventually(lambda: len(world.in_flight) == 0)
    assert script.events in ([], ["cancelled gone=True", "ended"])


async def test_a_write_that_fails_is_a_client_that_left() -> None:
    world, script = World(), Script()
    async with served(make_app(world, script)) as address, address.client() as client:
        # A pipelined byte that waits: only writing tells.
        head = request("POST", "/v1/torrent", "Content-Length: 2")
        await client.send(head.replace("\n", "\r\n").encode() + b"{}" + b"G")
        await client.reader.readexactly(200_000)
        client.leave()
        await eventually(lambda: world.metrics.responses == [("/v1/torrent", 499)])
        await eventually(lambda: len(world.in_flight) == 0)
    assert world.limits.in_flight("acct_1") == 0


@cases("head", WORK, STREAM)
async def test_an_endpoint_that_finds_its_client_gone_says_so_by_raising(head: str) -> None:
    world, script = World(), Script()
    script.raises = StreamClosedError
    script.go_on.set()
    async with served(make_app(world, script)) as address, address.client() as client:
        await begin(client, head)
        await eventually(lambda: len(world.in_flight) == 0 and script.events == ["ended"])
    assert [status for _, status in world.metrics.responses] == [499]
    assert world.refusals == []


async def test_a_client_that_leaves_is_not_cancelled_a_second_time() -> None:
    world, script = World(), Script()
    script.may_end.clear()
    async with served(make_app(world, script)) as address, address.client() as client:
        await begin(client, WORK)
        await script.begun.wait()
        client.leave()
        await eventually(lambda: script.events == ["cancelled gone=True"])
        drained = await drain(world)
        world.clock.advance(30)
        await eventually(lambda: world.clock.sleepers == 1 and not drained.done())
        script.may_end.set()
        assert await drained == 1
    assert script.events == ["cancelled gone=True", "ended"]


async def response_to(
    raises: Callable[[], BaseException], *, head: str = WORK, world: World | None = None
) -> Response:
    """What a client gets of an endpoint that raises this while it works."""
    script = Script()
    script.raises = raises
    script.go_on.set()
    async with served(make_app(world or World(), script)) as address, address.client() as client:
        await begin(client, head)
        return await client.response()


@logs("request_failed")
@cases(
    "error, status, code, message, level",
    (RuntimeError("of inside"), 500, "internal_error", INTERNAL_MESSAGE, logging.ERROR),
    (StoreUnavailable("inside"), 503, "no_channel_available", STORE_MESSAGE, logging.WARNING),
    # A driver's way of telling of a time-out.
    (asyncio.CancelledError("inside"), 500, "internal_error", INTERNAL_MESSAGE, logging.ERROR),
)
async def test_a_fault_tells_its_kind_and_nothing_of_the_inside(
    error: BaseException, status: int, code: str, message: str, level: int, caplog: Any
) -> None:
    caplog.clear()
    response = await response_to(lambda: error)
    assert (response.status, response.code) == (status, code)
    assert response.json["error"]["message"] == message
    assert response.headers.get("retry-after") == ("1" if status == 503 else None)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.levelno == level
    assert level == logging.WARNING or "inside" in str(record.exc_info[1])


@logs("request_failed")
async def test_a_fault_in_a_stream_ends_it_and_is_logged() -> None:
    world = World()
    response = await response_to(lambda: RuntimeError("inside"), head=STREAM, world=world)
    assert (response.status, response.body, response.is_broken) == (200, b"data: 1\n\n", True)
    assert world.metrics.responses == [("/v1/stream", 200)]


@logs("request_failed")
async def test_a_fault_in_a_stream_without_chunks_resets_its_connection() -> None:
    script = Script()
    script.raises = lambda: RuntimeError("inside")
    async with served(make_app(World(), script)) as address, address.client() as client:
        await begin(client, STREAM.replace("HTTP/1.1", "HTTP/1.0"))
        await script.begun.wait()
        await client.reader.readuntil(b"data: 1")
        script.go_on.set()
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


@logs("request_failed")
async def test_a_fault_in_a_response_of_a_stated_length_ends_its_connection() -> None:
    world, script = World(), Script()
    script.raises = lambda: RuntimeError("inside")
    script.go_on.set()
    async with served(make_app(world, script)) as address, address.client() as client:
        await begin(client, SIZED)
        await client.reader.readuntil(b"\r\n\r\n")
        # A client that waits for the rest must not take the next response for it.
        await client.send(request("GET", "/v1/free").replace("\n", "\r\n").encode())
        with suppress(ConnectionResetError):
            assert await client.reader.read() in (b"", b"xx")
    assert world.metrics.responses[0] == ("/v1/sized", 200)


@pytest.mark.parametrize("head", [WORK, STREAM], ids=["before the answer", "in a stream"])
async def test_work_that_outlasts_the_drain_is_cut(head: str) -> None:
    world, script = World(), Script()
    async with served(make_app(world, script)) as address, address.client() as client:
        await begin(client, head)
        await script.begun.wait()
        drained = await drain(world)
        world.clock.advance(30)
        response = await client.response()
        if head is WORK:
            assert (response.status, response.json["error"]["message"]) == (503, ENDING)
        else:
            assert (response.status, response.body, response.is_broken) == (
                200,
                b"data: 1\n\n",
                True,
            )
        assert await drained == 1
    assert script.events == ["cancelled gone=False", "ended"]
    assert world.limits.in_flight("acct_1") == 0


HUGE = request("POST", "/v1/huge", "Content-Length: 2")


async def test_a_drain_waits_for_an_answer_on_its_way() -> None:
    world, script = World(), Script()
    async with served(make_app(world, script)) as address, address.client() as client:
        await begin(client, HUGE)
        await eventually(lambda: "ended" in script.events)
        drained = await drain(world)
        assert not drained.done()
        assert len((await client.response()).body) == HUGE_BYTES
        assert await drained == 0


@cases("key", KEY, None)
async def test_a_body_that_outlasts_the_drain_is_cut(key: str | None) -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as client:
        head = request("POST", "/v1/echo", "Content-Length: 100", key=key)
        await client.send(head.replace("\n", "\r\n").encode() + b"x")
        if key is None:
            assert (await client.response()).status == 401
        else:
            await eventually(lambda: len(world.in_flight) == 1)
        drained = await drain(world, 20)  # before a refused body is given up by itself
        world.clock.advance(20)
        assert await client.ended()
        assert await drained == 1
