"""Channels as configured: their registry, families, keys."""

from dataclasses import FrozenInstanceError

import pytest

from channels.registry import ModelSpec, Registry
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model


def model(model_id: str, *aliases: str) -> ModelSpec:
    return make_model("a", id=model_id, aliases=aliases)


@cases("name", "", "Large", "large ", "large-lates", "a")
def test_resolve_of_any_other_name_finds_nothing(name: str) -> None:
    registry = Registry.of([make_channel("a")], [model("large", "large-latest")])
    assert registry.resolve(name) is None


def test_a_registry_cannot_be_changed() -> None:
    channels = {"a": make_channel("a")}
    registry = Registry(channels, {})
    channels["b"] = make_channel("b")
    assert list(registry.channels) == ["a"]
    with pytest.raises(TypeError):
        registry.channels["c"] = make_channel("c")  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        registry.models = {}  # type: ignore[misc]


def test_a_repr_holds_no_key() -> None:
    registry = Registry.of([make_channel("a")], [])
    assert "api-key-of-a" not in repr(registry) + repr(registry.channels["a"])


def test_impossible_registries_are_refused() -> None:
    with pytest.raises(AssertionError):
        Registry.of([], [model("m")])
    with pytest.raises(AssertionError):
        Registry.of([make_channel("a")], [model("m", "n"), model("n")])
