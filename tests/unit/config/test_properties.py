"""Whatever is written in a configuration: read alike, or a fault with its place."""

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

from channels.families import PROTOCOLS
from channels.registry import (
    BUILTIN_TOOLS,
    CAPABILITIES,
    MAX_TOKENS_PARAMS,
    ON_429,
    SYSTEM_TURNS,
    Binding,
)
from channels.translation.paths import SETTINGS
from gw.config.addresses import ListenAddress
from gw.config.channels import Channel, Health
from gw.config.config import Config, Tasks, Timeouts
from gw.config.faults import ConfigFaults, fault_records, render
from gw.config.keys import keys_of
from gw.config.load import TOP, load, load_text
from gw.config.models import Bound, Model
from gw.config.prices import PRICE_KEYS
from metrics.logs import LEVELS
from tests.unit.config.reading import SOURCE


class Raw(str):
    """Text that goes into the file as it is, without quotes."""

    __slots__ = ()


def written(value: object) -> str:
    """Write plain data as flow YAML; text is quoted unless it is Raw."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {written(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(written(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value.replace("${", "$${"), ensure_ascii=len(value) % 2 == 0)
    return json.dumps(value)


def some_of(options: tuple[str, ...], *, least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(options), unique=True, min_size=least)


printable = st.characters(exclude_categories=("C", "Z"), exclude_characters=",")
names = st.text(printable, min_size=1, max_size=20)
texts = st.text(st.one_of(printable, st.just(" ")), min_size=1, max_size=40)
secrets = st.text(printable, min_size=16, max_size=40)
keys = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40)
prices = (
    st.decimals(min_value=0, max_value=1_000_000, places=12)
    .flatmap(
        lambda price: st.sampled_from([f"{price:f}", f"{price.normalize():f}", str(int(price))])
    )
    .flatmap(lambda price: st.sampled_from([price, Raw(price)]))
)
channels = st.fixed_dictionaries(
    {
        "base_url": st.sampled_from(["http://a", "https://a.example:8443", "http://[::1]:1"]),
        "api_key": keys,
        "protocols": some_of(PROTOCOLS, least=1),
    },
    optional={
        "tools": some_of(BUILTIN_TOOLS),
        "max_tokens_param": st.sampled_from(MAX_TOKENS_PARAMS),
        "system_turns": st.sampled_from(SYSTEM_TURNS),
        "prompt_cache_key": st.booleans(),
        "drop_billing_header": st.booleans(),
        "on_429": st.sampled_from(ON_429),
        "data": st.fixed_dictionaries(
            {},
            optional={
                "retention_days": st.integers(0, 36_500),
                "region": st.from_regex(r"[a-z][a-z0-9-]{0,31}", fullmatch=True),
            },
        ),
        "max_concurrency": st.integers(1, 1_000_000),
        "priority": st.integers(-1_000_000, 1_000_000),
        "health": st.fixed_dictionaries(
            {}, optional={"failures": st.integers(1, 100), "cooldown": st.integers(0, 86_400)}
        ),
    },
)
models = st.fixed_dictionaries(
    {"price": st.fixed_dictionaries({"input": prices, "output": prices, "cached_input": prices})},
    optional={
        "display_name": texts,
        "owned_by": texts,
        "created": st.integers(0, 4_000_000_000),
        "context_size": st.none() | st.integers(1, 1_000_000),
        "max_output_tokens": st.none() | st.integers(1, 1_000_000),
        "multiplier": st.sampled_from(["1", Raw("0.3"), Raw("2")]),
        "capabilities": some_of(CAPABILITIES),
        "callable": st.booleans(),
        "endpoint_type": st.just(None),
    },
)
seconds = st.integers(1, 999)
ports = st.integers(0, 65_535)
tops = st.fixed_dictionaries(
    {},
    optional={
        "secret": secrets,
        "drain_seconds": st.integers(0, 1000),
        "worker_silence_seconds": st.integers(1, 1000),
        "log_level": st.sampled_from(tuple(LEVELS)) | st.none(),
        "max_body_mb": st.integers(1, 1024),
        "max_bodies_mb": st.integers(1, 4096),
        "max_answers_mb": st.integers(1, 4096),
        "idempotency_max_kb": st.integers(0, 4096),
        "retention_months": st.integers(1, 1200) | st.none(),
        "credits_per_usd": st.integers(1, 100_000),
        "translations": some_of(SETTINGS),
        "translate": some_of(SETTINGS),
        "timeouts": st.fixed_dictionaries({}, optional=dict.fromkeys(keys_of(Timeouts), seconds)),
        "media_store": st.fixed_dictionaries({}, optional={"keep_days": st.integers(1, 99)}),
        "tasks": st.fixed_dictionaries({}, optional=dict.fromkeys(keys_of(Tasks), seconds)),
    },
)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """A whole good configuration as plain data."""
    top = dict(draw(tops))
    public, admin = draw(st.lists(ports, min_size=2, max_size=2, unique=True))
    top |= {"listen": f"127.0.0.1:{public}", "admin_listen": f"[::1]:{admin}"}
    ids = draw(st.lists(names, unique=True, max_size=4))
    top["channels"] = [{"id": channel_id, **draw(channels)} for channel_id in ids]
    model_names = draw(st.lists(names, unique=True, max_size=8))
    entries: list[dict[str, Any]] = []
    while model_names:
        aliases = draw(st.integers(0, 2))
        entry = {"id": model_names.pop(), **draw(models)}
        entry["aliases"] = [model_names.pop() for _ in range(min(aliases, len(model_names)))]
        if ids:
            bound = draw(st.lists(st.sampled_from(ids), unique=True))
            entry["channels"] = [
                draw(st.sampled_from([channel_id, {"id": channel_id, "as": "x/" + channel_id}]))
                for channel_id in bound
            ]
        entries.append(entry)
    return top | {"models": entries}


_PARTS = (TOP, *map(keys_of, (Channel, Model, Bound, Health, Timeouts, Tasks)))
ALL_KEYS = sorted({*(key for part in _PARTS for key in part), *PRICE_KEYS, "<<", "x"})
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.text(max_size=20),
    st.sampled_from(["${A}", "${A:-b}", "$${", "chat", "a", "1.5", "http://a", "127.0.0.1:1"]),
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(ALL_KEYS), inner, max_size=6)
    ),
    max_leaves=30,
)

yaml_pieces = st.sampled_from(
    ["a", "\n", "\n  ", "\t", ": ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "<<: ", "!", "!!",
     "!!int ", '"', "'", "\\", "\\u", "\\x", "|", ">", "? ", "#", "%YAML ", "---\n", "...\n", "~",
     "1", "1.5", "${", "}", "${A}", "$$", "é", "\U0001f600", "\0", "\u2028", "models", "channels",
     "id", "price", "listen", "=", "2020-01-01", "0x", "@", "`", "-", ".", "_", "\r", "\ufeff"]
)  # fmt: skip

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
    assert config.max_answers_bytes == data.get("max_answers_mb", 256) * 1024 * 1024
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
