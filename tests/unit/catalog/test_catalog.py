"""The model list and the public catalog, from a registry."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from channels.prices import PriceSpec
from channels.registry import Binding, ChannelSpec, HealthSpec, ModelSpec, Registry
from gw.api.catalog import (
    PublicCatalog,
    public_entries,
    supported_protocols,
)


def channel(name: str, *protocols: str) -> ChannelSpec:
    return ChannelSpec(
        id=name,
        base_url="https://upstream.example",
        api_key="secret",
        protocols=frozenset(protocols),
        tools=frozenset(),
        max_tokens_param="max_tokens",
        max_concurrency=1,
        priority=1,
        health=HealthSpec(),
    )


def model(name: str, *channels: str, **changes: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "id": name,
        "bindings": tuple(Binding(channel_id) for channel_id in channels),
        "display_name": name.upper(),
        "owned_by": "maker",
        "created": 1_754_524_800,
        "context_size": 400_000,
        "max_output_tokens": 128_000,
        "price": PriceSpec(input=Decimal("1.25"), output=Decimal("10")),
        "multiplier": Decimal(1),
        "capabilities": frozenset(),
        "callable": True,
        "endpoint_type": None,
        "aliases": (),
    }
    return ModelSpec(**{**values, **changes})


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
            "supported_protocols": [
                "chat_completions",
                "messages",
                "responses",
                "native_content",
            ],
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


@pytest.mark.parametrize(
    ("channels", "endpoint_type", "expected"),
    [
        ([], None, []),
        (["a"], None, ["chat_completions", "native_content"]),
        (["b"], None, ["messages", "responses"]),
        (["b", "a"], None, ["chat_completions", "messages", "responses", "native_content"]),
        (["media"], None, ["chat_completions"]),
        (["media"], "images_generations", []),
    ],
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
