"""The declarations of keys: the page made of them, and the example compared with them."""

import re
from collections.abc import Iterator
from pathlib import Path

from gw.config import config, credentials
from gw.config.channels import Channel, Data, Health
from gw.config.faults import FaultReport, Mark
from gw.config.keys import declared, keys_of
from gw.config.mappings import Key, Schema, attempt
from gw.config.models import Bound, Model, Video
from gw.config.nodes import Node, Scalar, Table
from gw.config.prices import ENTRY_PRICE
from gw.config.yaml_source import parse
from tests.support.rows import cases, each
from tests.unit.config.keys_page import page
from tests.unit.config.test_load import EXAMPLE, EXAMPLE_ENVIRON

ROOT = Path(__file__).parents[3]
TEXT = EXAMPLE.read_text(encoding="utf-8")
GATEWAY, _, _REST = TEXT.partition("\nchannels:\n")
CHANNELS, _, MODELS = _REST.partition("\nmodels:\n")
STORE = keys_of(config.Store).keys()
# Keys that the example does not show, or names in passing.
UNSHOWN = {
    "aws-sigv4": {"session_token", "profile"},
    "google-service-account": {"scope"},
    "azure-ad": {"scope", "authority"},
    "price": {
        *("audio_input", "audio_output", "image_input", "image_output"),
        *("cached_audio_input", "cached_image_input", "regions"),
    },
    "bound": {"cost"},
}


def named(text: str) -> set[str]:
    """The keys of a part of the example, those in comments, too."""
    return set(re.findall(r"(\w+):(?=\s|$)", text, re.M))


def test_page_shows_what_is_declared() -> None:
    printed = (ROOT / "ops/configuration.md").read_text(encoding="utf-8")
    assert printed == page(), "python -m tests.unit.config.keys_page > ops/configuration.md"


@cases(
    "record, text, unshown",
    (config.Config, GATEWAY, ""),
    (config.Store, GATEWAY, ""),
    (Channel, CHANNELS, ""),
    (Health, CHANNELS, ""),
    (Data, CHANNELS, ""),
    (config.TlsFiles, CHANNELS, ""),
    *((record, CHANNELS, way) for way, record in credentials.CREDENTIALS.items()),
    (Model, MODELS, ""),
    (Bound, MODELS, "bound"),
    (Video, MODELS, ""),
)
def test_example_shows_every_key(record: type, text: str, unshown: str) -> None:
    assert keys_of(record).keys() - named(text) == UNSHOWN.get(unshown, set())


def test_example_shows_every_price() -> None:
    assert ENTRY_PRICE.keys() - named(MODELS) == UNSHOWN["price"]


def written(schema: Schema, node: Node, path: str = "") -> Iterator[tuple[str, Key, Node | None]]:
    """Each key that may be in a mapping, with its value there."""
    assert isinstance(node, Table)
    assert node.entries.keys() <= schema.keys()
    for name, key in schema.items():
        value = node.entries[name].value if name in node.entries else None
        if key.inside is not None and value is not None:
            yield from written(key.inside, value, f"{path}{name}.")
        else:
            yield path + name, key, value


# What the example shows in place of the default.
SHOWN = {"log_level": "info", "drain_seconds": 185.0}


def test_example_shows_every_default_of_the_gateway() -> None:
    root = parse(GATEWAY, EXAMPLE_ENVIRON, FaultReport(""))
    lacking = set()
    for path, key, value in written(keys_of(config.Config), root):
        if value is None:
            lacking.add(path)
            continue
        wanted = SHOWN.get(path, key.default)
        assert attempt(key.read, value, FaultReport("").top()) == [wanted], path
    # The first are in comments, which stand for both.
    assert lacking == {f"{store}.{name}" for store in ("media_store", "kb_store") for name in STORE}


@each("record", (config.Config, config.Store, Channel, *credentials.CREDENTIALS.values()))
def test_what_no_fault_shows_no_repr_shows(record: type) -> None:
    for name, one, key in declared(record):
        report = FaultReport("")
        if key.inside is None:
            assert not attempt(key.read, Scalar("hidden\a", "text", Mark(1, 1)), report.top()), name
            (fault,) = report.faults
            assert ("hidden" in fault.found) == one.repr, name
