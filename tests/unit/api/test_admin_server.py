"""What stands before the use-cases of the admin API: tokens, rates, an absent database."""

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.limits.limiter import Limiter
from actors.store.errors import StoreUnavailable
from gw.admin.tokens import PREFIX
from gw.admin_services import ROUTES
from gw.api.admin.openapi import description
from gw.api.admin.server import (
    ADDRESSES_MAX,
    FAILURES_PER_MINUTE,
    AdminApi,
    FailedAuthentications,
    TooMany,
)
from gw.api.admin.table import REQUESTS_PER_MINUTE, AdminServices
from gw.http.admin_api import AdminRequest, AdminResponse
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock

TOKEN = PREFIX + "a" * 64


class FakeStore:
    """A database that knows one token, unless it is away."""

    is_away = False

    async def fetch_one(self, sql: str, params: Any = ()) -> Any:
        if self.is_away:
            raise StoreUnavailable("db.inner.example refused the connection")
        return ("adm_1", "tests", "read", datetime.now(UTC), "command me", None)


class FakeServices:
    """The services that no route is reached for."""

    def __init__(self) -> None:
        self.database = FakeStore()
        self.clock = FakeClock()
        self.metrics = Metrics(CollectorRegistry())


def api(services: FakeServices) -> AdminApi:
    return AdminApi(
        ROUTES,
        cast(AdminServices, services),
        limiter=Limiter(clock=services.clock),
        description=lambda: description(ROUTES),
        metrics=services.metrics,
    )


async def respond(
    served: AdminApi, path: str = "openapi.json", *, token: str = TOKEN, method: str = "GET"
) -> AdminResponse:
    headers = {"Authorization": f"Bearer {token}"}
    request = AdminRequest(
        method=method,
        path=path,
        query="",
        headers=headers,
        body=b"",
        address="192.0.2.1",
        trace="t",
    )
    return await served.respond(request)


async def test_token_has_so_many_requests_a_minute() -> None:
    services = FakeServices()
    served = api(services)
    for _ in range(REQUESTS_PER_MINUTE):
        assert (await respond(served)).status == 200
    refused = await respond(served)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
    services.clock.advance(61)
    assert (await respond(served)).status == 200


async def test_database_that_is_away_is_503_and_names_no_host() -> None:
    services = FakeServices()
    services.database.is_away = True
    refused = await respond(api(services))
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert json.loads(refused.body)["error"]["code"] == "database_unavailable"
    assert b"example" not in refused.body


async def test_good_tokens_work_from_an_address_that_has_failed_too_often() -> None:
    served = api(FakeServices())
    statuses = [(await respond(served, token="no")).status for _ in range(FAILURES_PER_MINUTE + 1)]
    assert statuses == [401] * FAILURES_PER_MINUTE + [429]
    assert (await respond(served)).status == 200


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


async def test_wrong_method_names_the_right_ones() -> None:
    refused = await respond(api(FakeServices()), "accounts", method="DELETE")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")


def test_description_has_every_route_with_its_errors() -> None:
    document = json.loads(description(ROUTES))
    assert document["openapi"] == "3.1.0"
    for route in ROUTES:
        operation = document["paths"][f"/admin/v1/{route.path}"][route.method.lower()]
        assert {"401", "429", "503", str(route.status)} <= operation["responses"].keys()
        assert ("403" in operation["responses"]) == (route.method != "GET")
