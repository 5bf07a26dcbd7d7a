"""What an account may call, and as what it is listed."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from channels.families import CHAT_PROTOCOLS, PUBLIC_NAMES
from channels.prices import PriceSpec
from channels.registry import ChannelSpec, ModelSpec, Registry
from gw.api.matrix import MatrixCell, compatibility
from gw.api.models.pages import PAGE_MAX
from gw.api.models.public_catalog import PublicCatalog, public_entries, supported_protocols
from gw.config.config import Config
from gw.config.load import load, load_text
from loadtests.rig.response import Response
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.http.client import request, served


def channel(name: str, *protocols: str) -> ChannelSpec:
    url = "https://upstream.example"
    return make_channel(name, base_url=url, api_key="secret", protocols=frozenset(protocols))


def model(name: str, *channels: str, **changes: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "id": name,
        "display_name": name.upper(),
        "owned_by": "maker",
        "created": 1_754_524_800,
        "context_size": 400_000,
        "max_output_tokens": 128_000,
        "price": PriceSpec(input=Decimal("1.25"), output=Decimal("10")),
    }
    return make_model(*channels, **{**values, **changes})


CHANNELS = [
    channel("a", "native", "chat"),
    channel("b", "messages", "responses"),
    channel("media", "images", "videos", "chat"),
]


def registry(*models: ModelSpec) -> Registry:
    return Registry.of(CHANNELS, models)


def test_a_public_entry_is_complete() -> None:
    spec = model(
        "gpt-5",
        "a",
        "b",
        price=PriceSpec(
            input=Decimal("1.25"), output=Decimal("1E+1"), cached_input=Decimal("0.1250")
        ),
        multiplier=Decimal("0.6"),
        capabilities=frozenset({"tools", "vision", "open_source"}),
    )
    assert public_entries(registry(spec)) == [
        {
            "id": "gpt-5",
            "display_name": "GPT-5",
            "context_size": 400_000,
            "input_price": "1.25",
            "output_price": "10",
            "cached_input_price": "0.1250",
            "capabilities": {
                "tools": True,
                "vision": True,
                "web_search": False,
                "image_gen": False,
                "video_gen": False,
                "thinking": False,
                "json": False,
                "open_source": True,
            },
            "callable": True,
            "endpoint_type": None,
            "supported_protocols": ["chat_completions", "messages", "responses", "native_content"],
            "price_multiplier": "0.6",
        }
    ]


def test_a_model_billed_by_the_piece_shows_what_a_piece_costs() -> None:
    price = PriceSpec(
        per_image=Decimal("0.040"), per_image_large=Decimal("0.08"), area_threshold_mp=Decimal(2)
    )
    (entry,) = public_entries(
        registry(model("m", "a", price=price, endpoint_type="images_generations"))
    )
    assert entry["unit_prices"] == {
        "per_image": "0.040",
        "per_image_large": "0.08",
        "area_threshold_mp": "2",
    }
    assert (entry["input_price"], entry["supported_protocols"]) == (None, [])


def test_a_film_shows_what_its_resolutions_cost() -> None:
    by_resolution = {"1080p": Decimal("0.20"), "4k": Decimal("1E+1")}
    price = PriceSpec(per_second=Decimal("0.1"), per_second_by_resolution=by_resolution)
    (entry,) = public_entries(
        registry(model("m", "a", price=price, endpoint_type="videos_generations"))
    )
    assert entry["unit_prices"] == {
        "per_second": "0.1",
        "per_second_by_resolution": {"1080p": "0.20", "4k": "10"},
    }


def test_a_missing_price_is_null_and_a_multiplier_of_one_is_not_shown() -> None:
    (entry,) = public_entries(
        registry(model("m", price=PriceSpec(), multiplier=Decimal("1.00"), context_size=None))
    )
    assert entry["input_price"] is None
    assert entry["output_price"] is None
    assert entry["cached_input_price"] is None
    assert entry["context_size"] is None
    assert "price_multiplier" not in entry


@cases(
    "channels, endpoint_type, expected",
    ([], None, []),
    (["a"], None, ["chat_completions", "native_content"]),
    (["b"], None, ["messages", "responses"]),
    (["b", "a"], None, ["chat_completions", "messages", "responses", "native_content"]),
    (["media"], None, ["chat_completions"]),
    (["media"], "images_generations", []),
)
def test_supported_protocols_are_those_of_the_channels(
    channels: list[str], endpoint_type: str | None, expected: list[str]
) -> None:
    spec = model("m", *channels, endpoint_type=endpoint_type)
    assert supported_protocols(registry(spec), spec) == expected


def test_the_catalog_is_rendered_once_for_each_registry() -> None:
    catalog, first, second = PublicCatalog(), registry(model("x")), registry(model("y"))
    body = catalog.body(first)
    assert catalog.body(first) is body
    assert [entry["id"] for entry in json.loads(body)["models"]] == ["x"]
    assert [entry["id"] for entry in json.loads(catalog.body(second))["models"]] == ["y"]
    assert catalog.body(first) == body


def test_no_channel_shows_through() -> None:
    body = PublicCatalog().body(registry(model("x", "a", "b")))
    for secret in (b"secret", b"upstream.example", b'"a"', b'"b"'):
        assert secret not in body


MODELS = "/v1/models"
BEARER = f"Authorization: Bearer {KEY}"


@pytest.fixture
def world() -> World:
    return World(registry=Registry.of([], [model("x"), model("y", callable=False)]))


async def exchange(world: World, method: str, target: str, *headers: str) -> Response:
    async with served(world.application()) as address:
        return await address.request(request(method, target, *headers, key=None))


async def get(world: World, target: str, *headers: str) -> Response:
    return await exchange(world, "GET", target, *headers)


def ids(response: Response) -> list[str]:
    assert response.status == 200
    return [entry["id"] for entry in response.json["data"]]


async def test_the_public_catalog_needs_no_key_and_follows_a_reload(world: World) -> None:
    url = "/api/v1/models/public"
    response = await get(world, url, "x-api-key: nonsense")
    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    models = response.json["models"]
    assert [(entry["id"], entry["callable"]) for entry in models] == [("x", True), ("y", False)]
    world.registry = Registry.of([], [model("new")])
    models = (await get(world, url)).json["models"]
    assert [entry["id"] for entry in models] == ["new"]
    assert world.keys.uses == []


VERSION = "anthropic-version: 2023-06-01"
GOOGLE = f"x-goog-api-key: {KEY}"


def named(response: Response) -> list[Any]:
    whole = response.json
    return [entry.get("id") or entry["name"] for entry in whole.get("data") or whole["models"]]


async def test_the_list_has_the_documented_entries_and_no_more(world: World) -> None:
    whole = (await get(world, MODELS, BEARER)).json
    assert (whole["object"], len(whole["data"])) == ("list", 2)
    assert whole["data"][0] == {
        "id": "x",
        "object": "model",
        "created": 1_754_524_800,
        "owned_by": "maker",
    }


async def test_the_list_is_whole_whatever_version_its_client_speaks() -> None:
    many = [model(f"m{number}") for number in range(PAGE_MAX + 50)]
    world = World(registry=Registry.of([], many))
    for headers in ((BEARER,), (BEARER, VERSION), (BEARER, "messages-api-version: 2023-06-01")):
        for query in ("", "?limit=", "?beta=true"):
            whole = (await get(world, MODELS + query, *headers)).json
            assert set(whole) == {"object", "data"}, headers
            assert (whole["object"], len(whole["data"])) == ("list", len(many))
            entry = whole["data"][0]
            assert (entry["id"], entry["object"]) == ("m0", "model")
            assert {"created", "owned_by"} <= set(entry)
    assert (entry["type"], entry["display_name"]) == ("model", "M0")


async def test_a_page_is_the_list_with_more_members(world: World) -> None:
    for headers in ((BEARER,), (BEARER, VERSION)):
        page = (await get(world, f"{MODELS}?limit=1", *headers)).json
        assert (page["object"], [one["id"] for one in page["data"]]) == ("list", ["x"])
        assert (page["has_more"], page["first_id"], page["last_id"]) == (True, "x", "x")
    assert "type" not in (await get(world, f"{MODELS}?limit=1", BEARER)).json["data"][0]


async def test_one_model_has_the_shape_of_the_protocol_that_asks() -> None:
    spec = model("x", "a", aliases=("old/x",), display_name="The X")
    world = World(registry=Registry.of(CHANNELS, [spec]))
    first = (await get(world, "/v1/models/old/x", BEARER)).json
    assert (first["id"], first["object"], first["display_name"]) == ("x", "model", "The X")
    assert (first["context_length"], first["max_completion_tokens"]) == (400_000, 128_000)
    for headers in ((BEARER, VERSION), (f"x-api-key: {KEY}",)):
        entry = (await get(world, "/v1/models/x", *headers)).json
        assert (entry["type"], entry["display_name"]) == ("model", "The X")
        assert entry["created_at"] == "2025-08-07T00:00:00Z"
        assert (entry["max_input_tokens"], entry["max_tokens"]) == (400_000, 128_000)
    native = (await get(world, f"/v1beta/models/x?key={KEY}")).json
    assert (native["name"], native["displayName"]) == ("models/x", "The X")
    assert (native["inputTokenLimit"], native["outputTokenLimit"]) == (400_000, 128_000)
    assert native["supportedGenerationMethods"] == ["generateContent", "countTokens"]
    assert (await get(world, "/v1/models/x", GOOGLE)).json == native


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
        response = await get(world, path, header)
        assert (response.status, response.json["error"][place]) == (404, expected), path
    assert named(await get(world, "/v1beta/models", GOOGLE)) == ["models/y"]
    assert named(await get(world, MODELS, BEARER, VERSION)) == ["y"]
    assert (await get(world, "/v1/models/y", BEARER)).status == 200  # a placeholder is listed, too
    assert world.money.requested == []


async def test_a_model_that_cannot_be_called_natively_has_no_methods() -> None:
    models = [
        model("own", "a"),
        model("other", "b"),
        model("held", "a", callable=False),
        model("painter", "a", endpoint_type="images_generations"),
    ]
    world = World(registry=Registry.of(CHANNELS, models))
    listed = (await get(world, "/v1beta/models", GOOGLE)).json["models"]
    assert [len(entry["supportedGenerationMethods"]) for entry in listed] == [2, 0, 0, 0]


async def test_unknown_method_of_a_model_is_not_found_natively() -> None:
    world = World(registry=Registry.of(CHANNELS, [model("x", "a")]))
    for path in (
        "/v1beta/models/x:embedText",
        "/v1/models/x:embedText",
        "/v1beta/models/x%3Apredict",
        "/v1beta/models/nothing:generate",
    ):
        for header in (BEARER, GOOGLE, "Accept: */*"):
            response = await exchange(world, "POST", path, header)
            error = response.json["error"]
            assert (response.status, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
    for path, method in (("/v1beta/models/x", "POST"), ("/v1beta/models/x:embedContent", "PUT")):
        response = await exchange(world, method, path, GOOGLE)
        assert (response.status, response.json["error"]["code"]) == (405, 405), path


async def test_pages_are_bounded_and_end() -> None:
    many = [model(f"m{number}") for number in range(PAGE_MAX + 50)]
    world = World(registry=Registry.of([], many))
    assert len(named(await get(world, f"{MODELS}?after_id=m7", BEARER, VERSION))) == 20
    assert len(named(await get(world, f"{MODELS}?limit={PAGE_MAX}", BEARER, VERSION))) == PAGE_MAX
    assert len(named(await get(world, "/v1beta/models", GOOGLE))) == 50
    first = (await get(world, "/v1beta/models?pageSize=2000", GOOGLE)).json
    assert len(first["models"]) == PAGE_MAX
    rest = (
        await get(world, f"/v1beta/models?pageSize=50&pageToken={first['nextPageToken']}", GOOGLE)
    ).json
    assert (rest["models"][-1]["name"], "nextPageToken" in rest) == ("models/m1049", False)
    last = (await get(world, f"{MODELS}?after_id=m1047&limit=2", BEARER, VERSION)).json
    assert (last["first_id"], last["last_id"], last["has_more"]) == ("m1048", "m1049", False)
    before = (await get(world, f"{MODELS}?before_id=m2&limit=2", BEARER, VERSION)).json
    assert (before["first_id"], before["last_id"], before["has_more"]) == ("m0", "m1", False)


async def test_a_page_that_is_none_is_refused_in_the_protocols_shape(world: World) -> None:
    for query in ("limit=0", "limit=1001", "limit=-1", "limit=x", "after_id=z", "limit=9999999999"):
        response = await get(world, f"{MODELS}?{query}", BEARER, VERSION)
        assert (response.status, response.json["type"]) == (400, "error"), query
    both = await get(world, f"{MODELS}?after_id=x&before_id=y", BEARER, VERSION)
    assert both.status == 400
    for query in ("pageSize=x", "pageToken=%21", "pageToken=eno%3D", "pageToken=%C3%A4"):
        response = await get(world, f"/v1beta/models?{query}", GOOGLE)
        assert (response.status, response.json["error"]["code"]) == (400, 400), query


FAMILIES = Path(__file__).parents[3] / "ops/examples/families.yaml"
T1 = "openai_chat_to_anthropic_messages"
T2 = "openai_chat_to_gemini_native"
T3 = "anthropic_messages_to_openai_chat"
T4 = "gemini_native_to_openai_chat"
T6 = "anthropic_messages_to_gemini_native"

# The documented table: models of the family, then chat, messages, responses, native.
SPECIFIED = [
    (2, ["native", "native", "native", None]),
    (5, [T1, "native", "native", None]),
    (2, [T2, "native", "native", "native"]),
    (1, [T2, None, None, "native"]),
    (6, [T1, "native", None, None]),
    (3, ["native", "native", "native", "native"]),
    (5, ["native", None, None, None]),
]
BY_DEFAULT = ("chat_to_messages", "chat_to_native")
ALL = (*BY_DEFAULT, "messages_to_chat", "native_to_chat", "native_to_messages")


def shown(cell: MatrixCell) -> str | None:
    return "native" if cell.is_passthrough else ", ".join(cell.headers) or None


@pytest.fixture
def families() -> Config:
    return load(FAMILIES, {})


def test_example_has_the_documented_families(families: Config) -> None:
    rows = compatibility(families.registry, families.translations)
    assert [(len(row.models), list(map(shown, row.cells))) for row in rows] == SPECIFIED
    assert [row.cells[0].tools for row in rows] == [("web_search", "image_generation")] + [()] * 6


def test_public_catalog_lists_exactly_the_passthrough_cells(families: Config) -> None:
    for row in compatibility(families.registry, families.translations):
        passthrough = [
            PUBLIC_NAMES[protocol]
            for protocol, cell in zip(CHAT_PROTOCOLS, row.cells, strict=True)
            if cell.is_passthrough
        ]
        for model_id in row.models:
            model = families.registry.models[model_id]
            assert supported_protocols(families.registry, model) == passthrough


def cells(
    *channels: tuple[str, dict[str, Any]], enabled: tuple[str, ...] = ALL, **model: Any
) -> list[str | None]:
    specs = [
        make_channel(name, **{**more, "protocols": frozenset(more["protocols"].split())})
        for name, more in channels
    ]
    registry = Registry.of(specs, [make_model(*(spec.id for spec in specs), **model)])
    (row,) = compatibility(registry, enabled)
    return list(map(shown, row.cells))


def test_with_all_translations_on_a_lone_channel_is_reached_by_the_rest() -> None:
    assert cells(("a", {"protocols": "chat"})) == ["native", T3, None, T4]
    assert cells(("a", {"protocols": "messages"})) == [T1, "native", None, T6]
    assert cells(("a", {"protocols": "native"})) == [T2, None, None, "native"]
    assert cells(("a", {"protocols": "responses"})) == [None, None, "native", None]


def test_what_is_switched_off_is_no_way() -> None:
    channel = ("a", {"protocols": "messages native"})
    assert cells(channel, enabled=()) == [None, "native", None, "native"]
    assert cells(channel, enabled=("chat_to_messages",)) == [T1, "native", None, "native"]


def test_translated_channels_behind_passthrough_ones_are_listed_too() -> None:
    specs = [make_channel("a"), make_channel("b", protocols=frozenset({"messages"}), priority=0)]
    (row,) = compatibility(Registry.of(specs, [make_model("a", "b")]), BY_DEFAULT)
    assert row.cells[0] == MatrixCell(is_passthrough=True, headers=(T1,), tools=())
    assert row.cells[0].served == "native"


def test_models_of_other_endpoints_have_no_channel_and_placeholders_no_row() -> None:
    channel = make_channel("a", protocols=frozenset({"chat", "native", "images"}))
    media = make_model("a", id="painter", endpoint_type="images_generations")
    registry = Registry.of([channel], [media, make_model("a", id="later", callable=False)])
    (row,) = compatibility(registry, ALL)
    assert row.models == ("painter",)
    assert {cell.served for cell in row.cells} == {"no_channel"}


def test_tools_that_a_models_flags_leave_out_are_not_run_on_chat_completions() -> None:
    spec = make_channel(
        "a",
        protocols=frozenset({"chat", "responses"}),
        tools=frozenset({"web_search", "image_generation"}),
    )
    model = make_model("a", capabilities=frozenset({"web_search"}))
    (row,) = compatibility(Registry.of([spec], [model]), ALL)
    assert row.cells[0].tools == ("web_search",)
    assert row.cells[2].tools == ("web_search", "image_generation")


def test_tools_are_those_of_the_channels_that_run_them_there() -> None:
    specs = [
        make_channel("a", tools=frozenset({"web_search"})),
        make_channel(
            "b", protocols=frozenset({"responses"}), tools=frozenset({"image_generation"})
        ),
    ]
    (row,) = compatibility(Registry.of(specs, [make_model("a", "b")]), ALL)
    assert [cell.tools for cell in row.cells] == [
        ("image_generation",),  # chat-completions runs them over a channel's responses protocol
        (),
        ("image_generation",),
        (),
    ]


def test_models_of_a_cloud_are_reached_in_the_protocol_that_they_have() -> None:
    models = "".join(
        f"  - {{id: {name}, channels: [one], price: {{input: 1, output: 2}}}}\n"
        for name in ("claude-sonnet@20250929", "gemini-pro")
    )
    channel = "channels: [{id: one, kind: vertex, project: p, region: r}]"
    config = load_text(f"{channel}\nmodels:\n{models}", {}, source=Path("/etc/gw.yaml"))
    rows = compatibility(config.registry, ALL)
    assert {row.models: list(map(shown, row.cells)) for row in rows} == {
        ("claude-sonnet@20250929",): [T1, "native", None, T6],
        ("gemini-pro",): [T2, None, None, "native"],
    }
    (_, gemini) = config.registry.models.values()
    assert supported_protocols(config.registry, gemini) == ["native_content"]
