"""The two catalog endpoints over HTTP."""

from __future__ import annotations

import pytest
import ujson
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.web import Application

from channels.registry import Registry
from gw.web.checks import QUERY_KEY
from tests.unit.catalog.test_catalog import model
from tests.unit.web.fakes import KEY, World, make_principal

BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture
def world() -> World:
    return World(registry=Registry.of([], [model("x"), model("y", callable=False)]))


@pytest.fixture
def app(world: World) -> Application:
    return world.application()


async def get(
    client: AsyncHTTPClient, url: str, headers: dict[str, str] | None = None
) -> HTTPResponse:
    return await client.fetch(url, headers=headers, raise_error=False)


def ids(response: HTTPResponse) -> list[str]:
    assert response.code == 200
    return [entry["id"] for entry in ujson.loads(response.body)["data"]]


@pytest.mark.gen_test
@pytest.mark.parametrize("headers", [BEARER, {"x-api-key": KEY}])
async def test_models_are_listed(
    http_client: AsyncHTTPClient, base_url: str, headers: dict[str, str]
) -> None:
    assert ids(await get(http_client, f"{base_url}/v1/models", headers)) == ["x", "y"]


@pytest.mark.gen_test
async def test_a_key_in_the_query_is_not_taken(http_client: AsyncHTTPClient, base_url: str) -> None:
    url = f"{base_url}/v1/models?key={KEY}"
    response = await get(http_client, url)
    assert response.code == 401
    assert ujson.loads(response.body)["error"]["message"] == QUERY_KEY
    assert ids(await get(http_client, url, BEARER)) == ["x", "y"]
    wrong = f"{base_url}/v1/models?key=nonsense"
    assert ids(await get(http_client, wrong, BEARER)) == ["x", "y"]


@pytest.mark.gen_test
@pytest.mark.parametrize("name", ["x-alt-api-key", "x-goog-api-key"])
async def test_no_other_header_is_taken(
    http_client: AsyncHTTPClient, base_url: str, name: str
) -> None:
    assert (await get(http_client, f"{base_url}/v1/models", {name: KEY})).code == 401


@pytest.mark.gen_test
async def test_an_allowlist_is_respected_at_any_balance(
    http_client: AsyncHTTPClient, base_url: str, world: World
) -> None:
    world.money.available_nano_usd = -1
    world.keys.known[KEY] = make_principal(allowed_models=frozenset({"y"}))
    assert ids(await get(http_client, f"{base_url}/v1/models", BEARER)) == ["y"]
    world.keys.known[KEY] = make_principal(allowed_models=frozenset())
    assert ids(await get(http_client, f"{base_url}/v1/models", BEARER)) == []
    assert world.money.asked == []


@pytest.mark.gen_test
async def test_the_account_limits_count_the_list(
    http_client: AsyncHTTPClient, base_url: str, world: World
) -> None:
    world.keys.known[KEY] = make_principal(rpm_limit=1)
    response = await get(http_client, f"{base_url}/v1/models", BEARER)
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    assert (await get(http_client, f"{base_url}/v1/models", BEARER)).code == 429


@pytest.mark.gen_test
async def test_the_public_catalog_needs_no_key_and_follows_a_reload(
    http_client: AsyncHTTPClient, base_url: str, world: World
) -> None:
    url = f"{base_url}/api/v1/models/public"
    response = await get(http_client, url, {"x-api-key": "nonsense"})
    assert response.code == 200
    assert response.headers["Content-Type"] == "application/json"
    models = ujson.loads(response.body)["models"]
    assert [(entry["id"], entry["callable"]) for entry in models] == [("x", True), ("y", False)]
    world.registry = Registry.of([], [model("new")])
    models = ujson.loads((await get(http_client, url)).body)["models"]
    assert [entry["id"] for entry in models] == ["new"]
    assert world.keys.uses == []
