"""Every path of the admin listener has the guards that its row states, and is open without them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from prometheus_client import CollectorRegistry

from actors.store.errors import StoreUnavailable
from actors.wallet.ledger import UnknownAccount
from gw.admin_services import ROUTES
from gw.api.admin.server import ROUTE
from gw.api.admin.table import AdminCall, Route
from loadtests.rig.response import Response
from metrics.prometheus import Metrics
from tests.support.logs import logs
from tests.support.rows import each
from tests.unit.api.admin_fakes import AdminWorld
from tests.unit.api.admin_guards import (
    GUARDS,
    TOKEN,
    AdminRow,
    Guard,
    code_of,
    path_of,
    rows,
    without_members,
)
from tests.unit.http.client import request
from tests.unit.http.path_guards import walk


def walked() -> Iterator[tuple[Guard, AdminRow, str]]:
    return walk(GUARDS, rows())


def changed(guard: Guard, row: AdminRow) -> list[Route]:
    return [guard.changed(one) if one is row.route else one for one in ROUTES]


@each("guard, row, method", walked)
async def test_request_is_stopped(guard: Guard, row: AdminRow, method: str) -> None:
    world, body = AdminWorld(changed(guard, row)), guard.body(row)
    if isawaitable(arranging := guard.arrange(world)):
        await arranging
    head = guard.head(row, method, path_of(row) + guard.query, body, key=guard.token)
    async with world.served() as address:
        response = await address.request(head, body)
    assert response.status == guard.status
    assert guard.headers(row, method).items() <= response.headers.items()
    assert response.headers["content-type"] == "application/json"
    assert len(response.headers["x-gateway-trace"]) == 32
    assert b"example" not in response.body
    if method != "HEAD":
        assert code_of(response.body) == (guard.code if row.route else str(guard.status))


async def test_length_in_other_digits_is_no_request() -> None:
    head = b"POST /admin/v1/accounts HTTP/1.1\r\nHost: localhost\r\nContent-Length: \xb2\r\n\r\n{}"
    async with AdminWorld(list(ROUTES)).served() as address, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(head)
        response = await reader.read()
        writer.close()
    assert response.partition(b"\r\n")[0] in (b"", b"HTTP/1.1 400 Bad Request")


async def test_path_that_is_not_utf8_is_unknown() -> None:
    async with AdminWorld(list(ROUTES)).served() as address:
        response = await address.request(request("GET", "/admin/v1/accounts/%ff", key=TOKEN))
    assert (response.status, code_of(response.body)) == (404, "not_found")


def test_every_guard_is_somewhere() -> None:
    assert {guard.name for guard, *_ in walked()} == {guard.name for guard in GUARDS}


# What a route raises, and the status of the response.
FAILURES = [(RuntimeError("a defect"), 500), (StoreUnavailable("db.inner.example is away"), 503)]


async def reached(call: AdminCall, *session: Any) -> str:
    return "reached"


def stubbed(route: Route) -> Route:
    """The route with a function that only responds."""
    stub = {"read": reached} if route.read is not None else {"change": reached}
    return replace(without_members(route), **stub, in_force=False, until=None, finish=None)  # type: ignore[arg-type]


async def ask(world: AdminWorld, route: Route, body: bytes) -> Response:
    path = path_of(next(row for row in rows() if row.route and row.route.path == route.path))
    head = request(route.method, path, f"Content-Length: {len(body)}", key=TOKEN)
    async with world.served() as address:
        return await address.request(head, body)


@each("route", ROUTES)
async def test_request_of_a_token_with_the_scope_passes(route: Route) -> None:
    world = AdminWorld([stubbed(route)])
    world.database.scope = "write" if route.is_change else "read"
    response = await ask(world, route, b"" if route.body is None else b"{}")
    assert (response.status, response.body) == (route.status, b'"reached"')


@logs("admin_request_failed")
@each("route", ROUTES)
async def test_route_that_breaks_is_counted_as_the_gateways_own_failure(route: Route) -> None:
    raised: list[Exception] = []

    async def broken(call: AdminCall, *session: Any) -> str:
        raise raised[-1]

    stub = {"read": broken} if route.read is not None else {"change": broken}
    registry = CollectorRegistry()
    world = AdminWorld([replace(stubbed(route), **stub)], metrics=Metrics(registry))  # type: ignore[arg-type]
    labels = {"route": ROUTE}
    for counted, (error, status) in enumerate(FAILURES, start=1):
        raised.append(error)
        response = await ask(world, route, b"" if route.body is None else b"{}")
        assert response.status == status
        assert registry.get_sample_value("gw_http_failures_total", labels) == counted
        of_status = {**labels, "status": str(status)}
        assert registry.get_sample_value("gw_http_responses_total", of_status) == 1
    raised.append(UnknownAccount("one"))
    assert (await ask(world, route, b"" if route.body is None else b"{}")).status == 404
    assert registry.get_sample_value("gw_http_failures_total", labels) == len(FAILURES)


async def test_row_may_take_less_than_the_listener() -> None:
    route = next(route for route in ROUTES if route.body is not None)
    world = AdminWorld([replace(stubbed(route), body_bytes_max=3, requests_per_minute=2)])
    assert (await ask(world, route, b"{ }")).status == route.status
    assert (await ask(world, route, b"{  }")).status == 413
    refused = await ask(world, route, b"{}")
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
