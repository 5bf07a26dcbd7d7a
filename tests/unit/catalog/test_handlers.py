"""The two catalog endpoints over HTTP."""

from __future__ import annotations

import pytest

from channels.registry import Registry
from gw.api.checks import QUERY_KEY
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.catalog.test_catalog import model
from tests.unit.http.wire import Answer, request, served

MODELS = "/v1/models"
BEARER = f"Authorization: Bearer {KEY}"


@pytest.fixture
def world() -> World:
    return World(registry=Registry.of([], [model("x"), model("y", callable=False)]))


async def get(world: World, target: str, *headers: str) -> Answer:
    async with served(world.application()) as address:
        return await address.ask(request("GET", target, *headers, key=None))


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200
    return [entry["id"] for entry in answer.json()["data"]]


@pytest.mark.parametrize("header", [BEARER, f"x-api-key: {KEY}"])
async def test_models_are_listed(world: World, header: str) -> None:
    assert ids(await get(world, MODELS, header)) == ["x", "y"]


async def test_a_key_in_the_query_is_not_taken(world: World) -> None:
    url = f"{MODELS}?key={KEY}"
    refused = await get(world, url)
    assert refused.status == 401
    assert refused.json()["error"]["message"] == QUERY_KEY
    assert ids(await get(world, url, BEARER)) == ["x", "y"]
    wrong = f"{MODELS}?key=nonsense"
    assert ids(await get(world, wrong, BEARER)) == ["x", "y"]


@pytest.mark.parametrize("name", ["x-alt-api-key", "x-goog-api-key"])
async def test_no_other_header_is_taken(world: World, name: str) -> None:
    assert (await get(world, MODELS, f"{name}: {KEY}")).status == 401


async def test_an_allowlist_is_respected_at_any_balance(world: World) -> None:
    world.money.available_nano_usd = -1
    world.keys.known[KEY] = make_principal(allowed_models=frozenset({"y"}))
    assert ids(await get(world, MODELS, BEARER)) == ["y"]
    world.keys.known[KEY] = make_principal(allowed_models=frozenset())
    assert ids(await get(world, MODELS, BEARER)) == []
    assert world.money.asked == []


async def test_the_account_limits_count_the_list(world: World) -> None:
    world.keys.known[KEY] = make_principal(rpm_limit=1)
    answer = await get(world, MODELS, BEARER)
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert (await get(world, MODELS, BEARER)).status == 429


async def test_the_public_catalog_needs_no_key_and_follows_a_reload(world: World) -> None:
    url = "/api/v1/models/public"
    answer = await get(world, url, "x-api-key: nonsense")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    models = answer.json()["models"]
    assert [(entry["id"], entry["callable"]) for entry in models] == [("x", True), ("y", False)]
    world.registry = Registry.of([], [model("new")])
    models = (await get(world, url)).json()["models"]
    assert [entry["id"] for entry in models] == ["new"]
    assert world.keys.uses == []
