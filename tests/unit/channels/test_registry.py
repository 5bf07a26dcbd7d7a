from __future__ import annotations

from dataclasses import FrozenInstanceError
from decimal import Decimal

import pytest

from channels.prices import PriceSpec
from channels.registry import Binding, ChannelSpec, HealthSpec, ModelSpec, Registry
from tests.support.rows import cases


def channel(channel_id: str) -> ChannelSpec:
    return ChannelSpec(
        id=channel_id,
        base_url="https://upstream.example",
        api_key="sk-upstream-secret",
        protocols=frozenset({"chat"}),
        tools=frozenset(),
        max_tokens_param="max_tokens",
        max_concurrency=256,
        priority=1,
        health=HealthSpec(),
    )


def model(model_id: str, *, aliases: tuple[str, ...] = (), bound_to: str = "a") -> ModelSpec:
    return ModelSpec(
        id=model_id,
        bindings=(Binding(bound_to),),
        display_name=model_id,
        owned_by="someone",
        created=0,
        context_size=None,
        max_output_tokens=None,
        price=PriceSpec(input=Decimal("1.25"), output=Decimal(10)),
        multiplier=Decimal(1),
        capabilities=frozenset(),
        callable=True,
        endpoint_type=None,
        aliases=aliases,
    )


def test_resolve_finds_a_model_by_id_and_by_alias() -> None:
    large, small = model("large", aliases=("large-latest", "big")), model("small")
    registry = Registry.of([channel("a")], [large, small])
    assert registry.resolve("large") is large
    assert registry.resolve("large-latest") is large
    assert registry.resolve("big") is large
    assert registry.resolve("small") is small


@cases("name", "", "Large", "large ", "large-lates", "a")
def test_resolve_of_any_other_name_finds_nothing(name: str) -> None:
    registry = Registry.of([channel("a")], [model("large", aliases=("large-latest",))])
    assert registry.resolve(name) is None


def test_aliases_are_no_entries_of_the_catalog() -> None:
    registry = Registry.of([channel("a")], [model("large", aliases=("large-latest",))])
    assert list(registry.models) == ["large"]


def test_entries_keep_the_order_of_the_file() -> None:
    registry = Registry.of([channel("b"), channel("a")], [model("z"), model("m"), model("c")])
    assert list(registry.channels) == ["b", "a"]
    assert list(registry.models) == ["z", "m", "c"]


def test_equal_entries_make_equal_registries() -> None:
    assert Registry.of([channel("a")], [model("m")]) == Registry.of([channel("a")], [model("m")])
    assert Registry.of([channel("a")], [model("m")]) != Registry.of([channel("a")], [])


def test_a_registry_cannot_be_changed() -> None:
    channels = {"a": channel("a")}
    registry = Registry(channels, {})
    channels["b"] = channel("b")
    assert list(registry.channels) == ["a"]
    with pytest.raises(TypeError):
        registry.channels["c"] = channel("c")  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        registry.models = {}  # type: ignore[misc]


def test_a_repr_holds_no_key() -> None:
    registry = Registry.of([channel("a")], [])
    assert "sk-upstream-secret" not in repr(registry)
    assert "sk-upstream-secret" not in repr(registry.channels["a"])


def test_impossible_registries_are_refused() -> None:
    with pytest.raises(AssertionError):
        Registry.of([], [model("m", bound_to="a")])
    with pytest.raises(AssertionError):
        Registry.of([channel("a")], [model("m", aliases=("n",)), model("n")])
