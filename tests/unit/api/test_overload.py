"""Overload: what is shed, when, and for how long."""

import random
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from gw.api.application import GatewayApplication
from gw.app import routes
from gw.http.overload import LIMIT_FIRST, Overload
from loadtests.rig.response import Response
from tests.support.aio import eventually
from tests.support.logs import ExpectLog
from tests.support.rows import cases, each
from tests.unit.api.fakes import KEY, World
from tests.unit.api.handlers import Script, make_app
from tests.unit.http.client import request, served

TARGET = 0.02
TICK = 0.01
CAPACITY = 2000  # calls a second
TURNS = 6  # of the loop, which a call takes: what is due waits for one
REFUSAL = 0.05  # of a call's work


class Process:
    """A loop that can do so much work a second, first come first served."""

    def __init__(self, target: float | None = TARGET, *, ledger_seconds: float = 0.0) -> None:
        self.overload = Overload(target)
        self.now = 1000.0
        self.served = 0
        self.refused = 0
        self.most = 0
        self._ledger_seconds = ledger_seconds  # that a hold takes of its own, at no work
        self._with_ledger: list[float] = []
        self._credit = 0.0
        self._random = random.Random(7)

    def arrive(self, count: int) -> None:
        for _ in range(count):
            if self.overload.is_full:
                self.overload.refused()
                self.refused += 1
                self._credit -= REFUSAL
            else:
                self.overload.waiting += 1
                self._with_ledger.append(self.now + self._ledger_seconds)
        self.most = max(self.most, self.overload.waiting)

    def run(self, seconds: float, rate: float, *, is_even: bool = False) -> None:
        """Arrivals at random, or evenly."""
        due = 0.0
        for _ in range(round(seconds / TICK)):
            due -= TICK
            count = 0
            while due < 0:
                count += 1
                due += 1 / rate if is_even else self._random.expovariate(rate)
            self.arrive(count)
            self._work()
            self.now += TICK
            self.overload.measured(self._delay(), self.now)

    def _work(self) -> None:
        self._credit = min(self._credit + CAPACITY * TICK, CAPACITY * TICK)
        while self._credit >= 1 and self._with_ledger and self._with_ledger[0] <= self.now:
            self._with_ledger.pop(0)
            self.overload.waiting -= 1
            self.served += 1
            self._credit -= 1

    def _delay(self) -> float:
        """How long a turn of the loop takes with the work that can be done now."""
        return sum(ready <= self.now for ready in self._with_ledger) / CAPACITY / TURNS


@cases("share", 0.1, 0.5, 0.8)
def test_normal_load_is_never_refused(share: float) -> None:
    process = Process()
    process.run(60, share * CAPACITY)
    assert process.refused == 0


@cases("size", 100, 500)
def test_burst_on_an_idle_process_is_served_whole(size: int) -> None:
    process = Process()
    for _ in range(5):
        process.arrive(size)
        process.run(2, 0.2 * CAPACITY)
    assert process.refused == 0
    assert process.served > 5 * size


def test_three_times_the_load_keeps_the_process_as_busy_and_its_queue_short() -> None:
    process = Process()
    process.run(2, 3 * CAPACITY, is_even=True)
    served, process.most = process.served, 0
    process.run(20, 3 * CAPACITY, is_even=True)
    assert process.served - served >= 0.85 * 20 * CAPACITY  # refusals cost a tenth of it
    assert process.most <= 2 * LIMIT_FIRST
    assert process.overload.limit >= LIMIT_FIRST // 4


def test_load_that_is_normal_again_is_served_whole() -> None:
    process = Process()
    process.run(10, 3 * CAPACITY)
    assert process.overload.is_limited
    process.run(0.5, CAPACITY / 2)
    refused = process.refused
    process.run(10, CAPACITY / 2)
    assert process.refused == refused
    assert not process.overload.is_limited


def test_pause_of_the_process_is_no_overload() -> None:
    process = Process()
    process.run(5, CAPACITY / 2)
    process.now += 2.0
    process.overload.measured(2.0, process.now)
    assert not process.overload.is_limited
    process.arrive(CAPACITY)  # of the two seconds
    assert process.refused == 0
    process.run(2, CAPACITY / 2)
    refused = process.refused
    process.run(5, CAPACITY / 2)
    assert process.refused == refused


def test_ledger_that_is_slow_by_nature_gets_no_fewer_calls() -> None:
    process = Process(ledger_seconds=0.3)
    process.run(10, CAPACITY / 2)
    assert process.refused == 0
    process.run(10, 3 * CAPACITY)
    served = process.served
    process.run(10, 3 * CAPACITY)
    assert process.overload.is_limited
    # What waits by nature is a third of a second's calls, and not an overload.
    assert process.served - served >= 0.6 * 10 * CAPACITY


def test_without_a_target_nothing_is_refused() -> None:
    process = Process(None)
    process.run(10, 5 * CAPACITY)
    assert process.refused == 0
    assert process.overload.limit == inf


@pytest.mark.parametrize("how", ["answered", "refused by its key", "left", "failed"])
async def test_call_waits_until_it_is_over_at_the_latest(how: str, expect_log: ExpectLog) -> None:
    expect_log("request_failed", required=how == "failed")

    world, script = World(), Script()
    waiting = world.overload
    key = "sk-unknown" if how == "refused by its key" else KEY
    async with served(make_app(world, script)) as address, address.client() as client:
        head = request("POST", "/v1/work", "Content-Length: 2", key=key)
        await client.send(head.replace("\n", "\r\n").encode() + b"{}")
        if key == KEY:
            await script.begun.wait()
            assert waiting.waiting == 1
        if how == "left":
            client.leave()
        else:
            if how == "failed":
                script.raises = lambda: RuntimeError("a defect")
            script.go_on.set()
            await client.response()
        await eventually(lambda: waiting.waiting == 0)
    assert waiting.waiting == 0


BODY = b'{"model":"m"}'
SIZED = f"Content-Length: {len(BODY)}"
GEMINI = "/v1beta/models/m:generateContent"
# Every billed endpoint, and what its error is called in its shape.
CALLS: dict[str, Callable[[dict[str, Any]], object]] = {
    "/v1/chat/completions": lambda error: error["code"] == "no_channel_available",
    "/v1/responses": lambda error: error["code"] == "no_channel_available",
    "/v1/images/generations": lambda error: error["param"] is None,
    "/v1/messages": lambda error: error["type"] == "overloaded_error",
    GEMINI: lambda error: error["status"] == "UNAVAILABLE" and error["code"] == 503,
}


def overloaded() -> tuple[World, GatewayApplication]:
    world = World()
    world.overload.limit = 0
    return world, GatewayApplication(routes(), services=world.services)


def check(response: Response, path: str) -> None:
    assert response.status == 503
    assert response.headers["retry-after"] == "1"
    assert len(response.headers["x-gateway-trace"]) == 32
    assert CALLS[path](response.json["error"])


@each("path", CALLS)
async def test_call_is_refused_in_its_shape_and_keeps_its_connection(path: str) -> None:
    world, application = overloaded()
    async with served(application) as address, address.client() as client:
        for _ in range(3):
            check(await client.request(request("POST", path, SIZED), BODY), path)
    assert world.metrics.shed == {path_of(application, path): 3}
    assert world.refusals == []  # nobody was asked who it is
    assert world.overload.waiting == 0
    assert len(world.in_flight) == 0


def path_of(application: GatewayApplication, path: str) -> str:
    return str(application.routes.endpoint_at(path).route)


@cases(
    "framing",
    "Content-Length: 9000000",
    "Transfer-Encoding: chunked",
    f"{SIZED}\nExpect: 100-continue",
)
async def test_long_body_is_not_waited_for(framing: str) -> None:
    _, application = overloaded()
    path = "/v1/messages"
    async with served(application) as address, address.client() as client:
        response = await client.request(request("POST", path, *framing.split("\n")))
        check(response, path)
        assert response.headers["connection"] == "close"


async def test_body_that_comes_late_is_dropped_and_the_next_request_is_read() -> None:
    world, application = overloaded()
    path = "/v1/chat/completions"
    async with served(application) as address, address.client() as client:
        head = request("POST", path, SIZED).replace("\n", "\r\n").encode()
        for piece in (head, BODY[:5], BODY[5:]):
            await client.send(piece)
        check(await client.response(), path)
        world.overload.limit = inf
        # Served again: refused for want of a known key, as any other.
        other = await client.request(request("POST", path, SIZED, key="sk-unknown"), BODY)
        assert other.status == 401


@cases(
    "method, path, status",
    ("GET", "/api/v1/models/public", 200),
    ("GET", "/v1/models", 200),
    ("GET", "/v1/chat/completions", 405),
    ("POST", "/v1/nothing", 404),
)
async def test_what_costs_nothing_is_served(method: str, path: str, status: int) -> None:
    _, application = overloaded()
    async with served(application) as address:
        assert (await address.request(request(method, path))).status == status


async def test_client_that_leaves_amid_its_refused_body_leaves_nothing_behind() -> None:
    world, application = overloaded()
    async with served(application) as address:
        async with address.client() as client:
            head = request("POST", "/v1/messages", SIZED).replace("\n", "\r\n").encode()
            await client.send(head + BODY[:3])
            await eventually(lambda: bool(world.metrics.shed))
            client.leave()
        check(await address.request(request("POST", "/v1/messages", SIZED), BODY), "/v1/messages")
    assert len(world.in_flight) == 0
