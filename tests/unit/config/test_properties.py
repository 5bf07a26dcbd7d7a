"""A good configuration comes back as it was written; anything else is ConfigFaults, never more."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from channels.registry import Binding
from gw.config.config import Config, ListenAddress
from gw.config.load import load, load_text
from gw.config.readers import ConfigFaults, fault_records, render
from tests.unit.config.reading import SOURCE
from tests.unit.config.strategies import ALL_KEYS, configurations, trees, written, yaml_pieces

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "ops" / "examples" / "gw.yaml"
ENVIRON = {f"EXAMPLE_{name}_KEY": name.lower() for name in ("A", "B", "MEDIA", "HUMAN")}


@given(configurations())
def test_any_good_configuration_comes_back_as_written(data: dict[str, Any]) -> None:
    config = load_text(written(data), {}, source=SOURCE)
    assert_top(config, data)
    assert list(config.registry.channels) == [entry["id"] for entry in data["channels"]]
    assert list(config.registry.models) == [entry["id"] for entry in data["models"]]
    for entry in data["channels"]:
        assert_channel(config, entry)
    for entry in data["models"]:
        assert_model(config, entry)


def assert_top(config: Config, data: dict[str, Any]) -> None:
    assert config.listen == ListenAddress("127.0.0.1", int(data["listen"].rpartition(":")[2]))
    assert config.admin_listen == ListenAddress("::1", int(data["admin_listen"].rpartition(":")[2]))
    assert config.secret == data.get("secret", "")
    assert config.drain_seconds == data.get("drain_seconds", 30)
    assert config.max_body_bytes == data.get("max_body_mb", 64) * 1024 * 1024
    assert config.max_bodies_bytes == data.get("max_bodies_mb", 512) * 1024 * 1024
    assert config.idempotency_max_bytes == data.get("idempotency_max_kb", 1024) * 1024
    assert config.retention_months == data.get("retention_months")
    assert config.credits_per_usd == data.get("credits_per_usd", 1000)
    if "translations" in data:
        on = {*data["translations"], *data.get("translate", ())}
        assert config.translations == on
    for part in ("timeouts", "tasks", "media_store"):
        for name, number in data.get(part, {}).items():
            assert getattr(getattr(config, part), name) == number


def assert_channel(config: Config, entry: dict[str, Any]) -> None:
    channel = config.registry.channels[entry["id"]]
    for name in ("base_url", "api_key", "max_tokens_param", "max_concurrency", "priority"):
        assert name not in entry or getattr(channel, name) == entry[name]
    assert channel.protocols == set(entry["protocols"])
    assert channel.tools == set(entry.get("tools", ()))
    assert channel.health.failures == entry.get("health", {}).get("failures", 5)
    assert channel.health.cooldown_seconds == entry.get("health", {}).get("cooldown", 10)


def assert_model(config: Config, entry: dict[str, Any]) -> None:
    model = config.registry.models[entry["id"]]
    for name in ("owned_by", "created", "context_size", "max_output_tokens", "callable"):
        assert name not in entry or getattr(model, name) == entry[name]
    assert model.display_name == entry.get("display_name", entry["id"])
    assert model.multiplier == Decimal(entry.get("multiplier", "1"))
    assert model.capabilities == set(entry.get("capabilities", ()))
    assert list(model.aliases) == entry["aliases"]
    for name in (entry["id"], *entry["aliases"]):
        assert config.registry.resolve(name) is model
    for key, price in entry["price"].items():
        assert f"{getattr(model.price, key):f}" == price
    assert model.bindings == tuple(
        Binding(bound["id"], bound["as"]) if isinstance(bound, dict) else Binding(bound)
        for bound in entry.get("channels", ())
    )


def read_or_blame(read: Callable[[], Config]) -> None:
    """Read what may be anything: it is a Config, or there are faults that can be printed."""
    try:
        read()
        return
    except ConfigFaults as error:
        faults = error.faults
    assert faults
    assert render(faults).encode("utf-8")
    assert json.dumps(fault_records(faults))


def read_or_blame_text(text: str) -> None:
    read_or_blame(lambda: load_text(text, ENVIRON, source=SOURCE))


@given(st.dictionaries(st.sampled_from(ALL_KEYS), trees))
def test_any_tree_is_a_configuration_or_faults(tree: object) -> None:
    read_or_blame_text(yaml.safe_dump(tree, allow_unicode=True))


@given(st.text())
def test_any_text_is_a_configuration_or_faults(text: str) -> None:
    read_or_blame_text(text)


@given(st.lists(yaml_pieces, max_size=40).map("".join))
def test_any_pieces_of_yaml_are_a_configuration_or_faults(text: str) -> None:
    read_or_blame_text(text)


@given(st.data())
def test_damaged_example_is_a_configuration_or_faults(data: st.DataObject) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    read_or_blame_text(text[:start] + data.draw(yaml_pieces | st.text(max_size=5)) + text[end:])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_configuration_or_faults(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "gw.yaml"
        path.write_bytes(content)
        read_or_blame(lambda: load(path, {}))
