"""A call that is refused in an overload: by its head, in its shape, on a kept connection."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from gw.api.base import GatewayApplication
from gw.app import routes
from tests.support.aio import eventually
from tests.unit.api.fakes import World
from tests.unit.http.wire import Answer, request, served

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


def check(answer: Answer, path: str) -> None:
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert len(answer.headers["x-gateway-trace"]) == 32
    assert CALLS[path](answer.json()["error"])


@pytest.mark.parametrize("path", CALLS)
async def test_call_is_refused_in_its_shape_and_keeps_its_connection(path: str) -> None:
    world, application = overloaded()
    async with served(application) as address, address.client() as client:
        for _ in range(3):
            check(await client.ask(request("POST", path, SIZED), BODY), path)
    assert world.metrics.shed == {path_of(application, path): 3}
    assert world.refusals == []  # nobody was asked who it is
    assert world.overload.waiting == 0
    assert len(world.in_flight) == 0


def path_of(application: GatewayApplication, path: str) -> str:
    return str(application.routes.handler_at(path).route)


@pytest.mark.parametrize(
    "framing",
    ["Content-Length: 9000000", "Transfer-Encoding: chunked", f"{SIZED}\nExpect: 100-continue"],
)
async def test_long_body_is_not_waited_for(framing: str) -> None:
    _, application = overloaded()
    path = "/v1/messages"
    async with served(application) as address, address.client() as client:
        answer = await client.ask(request("POST", path, *framing.split("\n")))
        check(answer, path)
        assert answer.headers["connection"] == "close"


async def test_body_that_comes_late_is_dropped_and_the_next_request_is_read() -> None:
    world, application = overloaded()
    path = "/v1/chat/completions"
    async with served(application) as address, address.client() as client:
        head = request("POST", path, SIZED).replace("\n", "\r\n").encode()
        for piece in (head, BODY[:5], BODY[5:]):
            await client.send(piece)
        check(await client.answer(), path)
        world.overload.limit = inf
        # Served again: refused for want of a known key, as any other.
        other = await client.ask(request("POST", path, SIZED, key="sk-unknown"), BODY)
        assert other.status == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/models/public", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/nothing", 404),
    ],
)
async def test_what_costs_nothing_is_served(method: str, path: str, status: int) -> None:
    _, application = overloaded()
    async with served(application) as address:
        assert (await address.ask(request(method, path))).status == status


async def test_client_that_leaves_amid_its_refused_body_leaves_nothing_behind() -> None:
    world, application = overloaded()
    async with served(application) as address:
        async with address.client() as client:
            head = request("POST", "/v1/messages", SIZED).replace("\n", "\r\n").encode()
            await client.send(head + BODY[:3])
            await eventually(lambda: bool(world.metrics.shed))
            client.vanish()
        check(await address.ask(request("POST", "/v1/messages", SIZED), BODY), "/v1/messages")
    assert len(world.in_flight) == 0
