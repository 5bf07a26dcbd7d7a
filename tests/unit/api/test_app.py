"""The route table: every path and both mounts, and nothing else."""

import re
from unittest.mock import patch

from gw.api.endpoint import Endpoint
from gw.api.handler import ApiHandler
from gw.app import description, routes
from loadtests.rig.response import Response
from tests.support.aio import run
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.unit.api.fakes import KEY, World
from tests.unit.api.guards import path_of
from tests.unit.http.client import request, served


def ask(method: str, path: str, *, key: str | None = None) -> Response:
    async def scene() -> Response:
        async with served(World().application()) as address:
            return await address.request(request(method, path, key=key))

    return run(scene())


@cases("path", "/dashboard/billing/subscription", "/dashboard/billing/usage")
def test_bill_is_also_served_without_the_version(path: str) -> None:
    response = ask("GET", path)
    assert (response.status, response.code) == (401, "invalid_api_key")


@logs("request_failed")
@each("route", routes())
def test_a_route_that_breaks_is_counted_as_the_gateways_own_failure(route: Endpoint) -> None:
    async def broken(self: ApiHandler, *path: str) -> None:
        raise RuntimeError("broken")

    async def scene() -> None:
        world = World()
        method = "POST" if "POST" in route.methods else route.methods[0]
        description()  # that of all rows is made once
        with patch("gw.app.routes", return_value=[route]):
            application = world.application()
        async with served(application) as address:
            assert world.metrics.failures[route.route] == 0
            with patch.object(route.handler, f"on_{method.lower()}", broken):
                response = await address.request(request(method, path_of(route), key=KEY))
        assert response.status == 500, response
        failed = {name: count for name, count in world.metrics.failures.items() if count}
        assert failed == {route.route: 1}

    run(scene())


@cases(
    "path",
    "/v1/dashboard/billing/credit_grants",
    "/dashboard/billing/credit_grants",
    "/v1/v1/dashboard/billing/usage",
    "/key/balance",
    "/models",
    "/v1/models/",
    "/api/v1/models",
)
def test_what_is_not_in_the_table_is_404(path: str) -> None:
    response = ask("GET", path)
    assert (response.status, response.code) == (404, "not_found")
    assert response.json["error"]["type"] == "invalid_request_error"


def test_what_is_not_served_is_refused_in_the_shape_of_its_protocol() -> None:
    messages, native, first = "type", "status", "code"
    for method, path, status, member in (
        ("POST", "/v1/messages/batches", 404, messages),
        ("GET", "/v1beta", 404, native),
        ("GET", "/v1beta/files/x", 404, native),
        ("GET", "/v1/models/m:generateContent", 405, first),
        ("GET", "/v1/messagesx", 404, first),
        ("GET", "/v1beta1/models", 404, first),
    ):
        response = ask(method, path)
        whole = response.json
        assert (response.status, member in whole["error"]) == (status, True), (path, whole)
        assert (member == messages) == (whole.get("type") == "error"), whole
        assert (member == native) == (whole["error"].get("code") == status), whole


def test_a_hand_shake_is_judged_by_its_key_or_its_path() -> None:
    async def scene(path: str) -> Response:
        async with served(World().application()) as address:
            headers = ("Connection: Upgrade", "Upgrade: WebSocket")
            return await address.request(request("GET", path, *headers, key=None))

    assert run(scene("/v1/responses")).status == 401  # where there is one
    assert run(scene("/v1/nothing")).status == 404


def test_a_hand_shake_whose_upgrade_a_proxy_removed_is_426() -> None:
    async def scene(path: str, *headers: str) -> Response:
        async with served(World().application()) as address:
            return await address.request(request("GET", path, "Connection: close", *headers))

    for header in ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version: 13"):
        for path in ("/v1/responses", "/v1/chat/completions"):
            response = run(scene(path, header))
            assert (response.status, response.code) == (426, "upgrade_required"), (path, header)
            assert response.headers["x-should-retry"] == "false"
    assert run(scene("/v1/responses")).status == 405


def test_an_endpoint_without_a_default_model_asks_for_one() -> None:
    async def scene() -> Response:
        async with served(World().application()) as address:
            head = request("POST", "/v1/moderations", "Content-Length: 14")
            return await address.request(head, b'{"input": "x"}')

    response = run(scene())
    assert (response.status, response.code) == (400, "model_not_found")
    assert "``" not in response.json["error"]["message"]


def test_each_finished_answer_is_counted_by_its_route() -> None:
    async def scene() -> World:
        world = World()
        async with served(world.application()) as address:
            await address.request(request("GET", "/dashboard/billing/usage"))
            await address.request(request("GET", "/v1/models?key=x", key=None))
            await address.request(request("GET", "/nowhere"))
        return world

    assert run(scene()).metrics.responses == [
        ("billing_usage", 200),
        ("models", 401),
        ("not_found", 404),
    ]


# Free, with rules of their own (reference 1.4).
EXEMPT = re.compile(
    r"(?:\(\?:/v1\)\?|/v1)/(?:dashboard/billing|key/balance|logs|media|videos/.*/content)"
)


@each("route", routes())
def test_account_limits_count_everything_under_v1_but_the_exempt(route: Endpoint) -> None:
    assert route.limited == (route.path.startswith("/v1") and not EXEMPT.match(route.path))
