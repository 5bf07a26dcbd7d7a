"""Lists and look-ups of models, and the public catalog, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from channels.registry import Registry
from gw.api.checks import QUERY_KEY
from gw.api.models import PAGE_MAX
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.catalog.test_catalog import CHANNELS, model
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


VERSION = "anthropic-version: 2023-06-01"
GOOGLE = f"x-goog-api-key: {KEY}"


def named(answer: Answer) -> list[Any]:
    whole = answer.json()
    return [entry.get("id") or entry["name"] for entry in whole.get("data") or whole["models"]]


async def test_the_list_has_the_specifications_entries_and_no_more(world: World) -> None:
    whole = (await get(world, MODELS, BEARER)).json()
    assert (whole["object"], len(whole["data"])) == ("list", 2)
    assert whole["data"][0] == {
        "id": "x",
        "object": "model",
        "created": 1_754_524_800,
        "owned_by": "maker",
    }


async def test_one_model_has_the_shape_of_the_protocol_that_asks() -> None:
    spec = model("x", "a", aliases=("old/x",), display_name="The X")
    world = World(registry=Registry.of(CHANNELS, [spec]))
    first = (await get(world, "/v1/models/old/x", BEARER)).json()
    assert (first["id"], first["object"], first["display_name"]) == ("x", "model", "The X")
    assert (first["context_length"], first["max_completion_tokens"]) == (400_000, 128_000)
    for headers in ((BEARER, VERSION), (f"x-api-key: {KEY}",)):
        entry = (await get(world, "/v1/models/x", *headers)).json()
        assert (entry["type"], entry["display_name"]) == ("model", "The X")
        assert entry["created_at"] == "2025-08-07T00:00:00Z"
        assert (entry["max_input_tokens"], entry["max_tokens"]) == (400_000, 128_000)
    native = (await get(world, f"/v1beta/models/x?key={KEY}")).json()
    assert (native["name"], native["displayName"]) == ("models/x", "The X")
    assert (native["inputTokenLimit"], native["outputTokenLimit"]) == (400_000, 128_000)
    assert native["supportedGenerationMethods"] == ["generateContent", "countTokens"]
    assert (await get(world, "/v1/models/x", GOOGLE)).json() == native


async def test_a_model_outside_the_allowlist_is_not_there(world: World) -> None:
    world.money.available_nano_usd = -1
    world.keys.known[KEY] = make_principal(allowed_models=frozenset({"y"}))
    for path, header, place, expected in (
        ("/v1/models/x", BEARER, "code", "model_not_found"),
        ("/v1/models/x", f"x-api-key: {KEY}", "type", "not_found_error"),
        ("/v1beta/models/x", GOOGLE, "status", "NOT_FOUND"),
        ("/v1/models/x", GOOGLE, "status", "NOT_FOUND"),
        ("/v1/models/%00", BEARER, "code", "model_not_found"),
    ):
        answer = await get(world, path, header)
        assert (answer.status, answer.json()["error"][place]) == (404, expected), path
    assert named(await get(world, "/v1beta/models", GOOGLE)) == ["models/y"]
    assert named(await get(world, MODELS, BEARER, VERSION)) == ["y"]
    assert (await get(world, "/v1/models/y", BEARER)).status == 200  # a placeholder is listed, too
    assert world.money.asked == []


async def test_a_model_that_cannot_be_called_natively_has_no_methods() -> None:
    models = [
        model("own", "a"),
        model("other", "b"),
        model("held", "a", callable=False),
        model("painter", "a", endpoint_type="images_generations"),
    ]
    world = World(registry=Registry.of(CHANNELS, models))
    listed = (await get(world, "/v1beta/models", GOOGLE)).json()["models"]
    assert [len(entry["supportedGenerationMethods"]) for entry in listed] == [2, 0, 0, 0]


async def test_pages_are_bounded_and_end() -> None:
    many = [model(f"m{number}") for number in range(PAGE_MAX + 50)]
    world = World(registry=Registry.of([], many))
    assert len(named(await get(world, MODELS, BEARER, VERSION))) == 20
    assert len(named(await get(world, f"{MODELS}?limit={PAGE_MAX}", BEARER, VERSION))) == PAGE_MAX
    assert len(named(await get(world, "/v1beta/models", GOOGLE))) == 50
    first = (await get(world, "/v1beta/models?pageSize=2000", GOOGLE)).json()
    assert len(first["models"]) == PAGE_MAX
    rest = (
        await get(world, f"/v1beta/models?pageSize=50&pageToken={first['nextPageToken']}", GOOGLE)
    ).json()
    assert (rest["models"][-1]["name"], "nextPageToken" in rest) == ("models/m1049", False)
    last = (await get(world, f"{MODELS}?after_id=m1047&limit=2", BEARER, VERSION)).json()
    assert (last["first_id"], last["last_id"], last["has_more"]) == ("m1048", "m1049", False)
    before = (await get(world, f"{MODELS}?before_id=m2&limit=2", BEARER, VERSION)).json()
    assert (before["first_id"], before["last_id"], before["has_more"]) == ("m0", "m1", False)


async def test_a_page_that_is_none_is_refused_in_the_protocols_shape(world: World) -> None:
    for query in ("limit=0", "limit=1001", "limit=-1", "limit=x", "after_id=z", "limit=9999999999"):
        answer = await get(world, f"{MODELS}?{query}", BEARER, VERSION)
        assert (answer.status, answer.json()["type"]) == (400, "error"), query
    both = await get(world, f"{MODELS}?after_id=x&before_id=y", BEARER, VERSION)
    assert both.status == 400
    for query in ("pageSize=x", "pageToken=%21", "pageToken=eno%3D", "pageToken=%C3%A4"):
        answer = await get(world, f"/v1beta/models?{query}", GOOGLE)
        assert (answer.status, answer.json()["error"]["code"]) == (400, 400), query


@pytest.mark.parametrize("path", ["/v1/models/x", "/v1beta/models", "/v1beta/models/x"])
async def test_the_account_limits_count_look_ups(world: World, path: str) -> None:
    world.keys.known[KEY] = make_principal(rpm_limit=1)
    assert (await get(world, path, GOOGLE)).status == 200
    assert (await get(world, path, GOOGLE)).status == 429
    assert (await get(world, path)).status == 401
