"""What the admin API counts before its use-cases, and how it describes itself."""

import json
import threading
from typing import Any, cast

import pytest
from msgspec import Raw

from gw.admin_services import ROUTES
from gw.api.admin.openapi import description
from gw.api.admin.server import (
    ADDRESSES_MAX,
    FAILURES_PER_MINUTE,
    FailedAuthentications,
    TooMany,
    description_route,
)
from gw.api.admin.table import REQUESTS_PER_MINUTE
from gw.http.admin_api import AdminRequest, AdminResponse
from tests.support.clock import FakeClock
from tests.unit.api.admin_fakes import AdminWorld
from tests.unit.api.admin_guards import TOKEN


async def respond(world: AdminWorld, *, token: str = TOKEN) -> AdminResponse:
    request = AdminRequest(
        method="GET",
        path="openapi.json",
        query="",
        headers={"Authorization": f"Bearer {token}"},
        body=b"",
        address="192.0.2.1",
        trace="t",
    )
    return await world.api.respond(request)


async def test_description_is_made_once_and_beside_the_event_loop() -> None:
    threads: list[int] = []

    def described() -> bytes:
        threads.append(threading.get_ident())
        return b"{}"

    read = description_route(described).read
    assert read is not None
    assert [await read(cast(Any, None)) for _ in range(2)] == [Raw(b"{}")] * 2
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_token_has_so_many_requests_a_minute() -> None:
    world = AdminWorld()
    for _ in range(REQUESTS_PER_MINUTE):
        assert (await respond(world)).status == 200
    refused = await respond(world)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
    world.clock.advance(61)
    assert (await respond(world)).status == 200


async def test_good_tokens_work_from_an_address_that_has_failed_too_often() -> None:
    world = AdminWorld()
    statuses = [(await respond(world, token="no")).status for _ in range(FAILURES_PER_MINUTE + 1)]
    assert statuses == [401] * FAILURES_PER_MINUTE + [429]
    assert (await respond(world)).status == 200


def test_failures_are_remembered_of_so_many_addresses_for_a_minute() -> None:
    clock = FakeClock()
    failures = FailedAuthentications(clock)
    for _ in range(FAILURES_PER_MINUTE):
        failures.add("192.0.2.1")
    with pytest.raises(TooMany):
        failures.add("192.0.2.1")
    clock.advance(61)
    failures.add("192.0.2.1")
    for number in range(2 * ADDRESSES_MAX):
        failures.add(f"2001:db8::{number:x}")
    assert len(failures) == ADDRESSES_MAX


def test_description_has_every_route_with_its_errors() -> None:
    document = json.loads(description(ROUTES))
    assert document["openapi"] == "3.1.0"
    for route in ROUTES:
        operation = document["paths"][f"/admin/v1/{route.path}"][route.method.lower()]
        assert {"401", "429", "503", str(route.status)} <= operation["responses"].keys()
        assert ("403" in operation["responses"]) == (route.method != "GET")
