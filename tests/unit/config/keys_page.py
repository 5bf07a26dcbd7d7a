"""The page of the configuration's keys, from their declarations. Prints it:

python -m tests.unit.config.keys_page > ops/configuration.md
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any

from channels.prices import PriceSpec
from gw.config import config
from gw.config.channels import PATHS, WIRE, Channel, Data, Health
from gw.config.credentials import CREDENTIALS
from gw.config.faults import FaultReport, Mark
from gw.config.keys import declared, keys_of
from gw.config.mappings import REQUIRED, Key, Schema
from gw.config.models import Bound, Model, Video
from gw.config.nodes import Items, Scalar
from gw.config.prices import ENTRY_PRICE
from gw.config.readers import InvalidValue
from gw.config.upstream import Fields

HEADING = """# The keys of the configuration

Made by `python -m tests.unit.config.keys_page` from their declarations in `gw/config`. A whole
file is [`examples/gw.yaml`](examples/gw.yaml). A reload puts the keys of channels and models in
force, and of the others those marked with *; a change of another waits for a restart. A key without
a default is required.
"""
UNITS = {"kb": config.KIB, "mb": config.MIB, "gb": config.GIB}
ITEMS_SHOWN = 12


def meanings(record: type) -> dict[str, str]:
    """The text below each field of a record."""
    found = {}
    for owner in record.__mro__[:-1]:
        (definition,) = ast.parse(cleandoc(getsource(owner))).body
        assert isinstance(definition, ast.ClassDef)
        for one, text in pairwise(definition.body):
            if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
                continue
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[one.target.id] = " ".join(str(text.value.value).split())
    return found


def allowed(key: Key) -> str:
    """What a fault says is allowed."""
    for node in (Items((), Mark(1, 1)), Scalar("", "bool", Mark(1, 1))):
        try:
            key.read(node, FaultReport("").top())
        except InvalidValue as refused:
            head, *rest = refused.allowed.split(", ")
            shown = [head, *rest[: ITEMS_SHOWN - 1]]
            return ", ".join([*shown, "…"] if len(rest) >= ITEMS_SHOWN else shown)
    raise AssertionError("a key that takes anything")


def default(name: str, key: Key) -> str:
    """The default as the file would have it."""
    value = key.default
    if value is REQUIRED:
        return ""
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "`null`"}[value]
    if isinstance(value, int) and (unit := UNITS.get(name.rpartition("_")[2])) and value >= unit:
        return f"`{value // unit}`"
    if isinstance(value, float | int | Decimal):
        return f"`{value:g}`" if value < 1e6 else f"`{value}`"
    if isinstance(value, frozenset):
        return f"`[{', '.join(sorted(value))}]`"
    if isinstance(value, tuple):
        words = [one if isinstance(one, str) else f"{one:g}" for one in value]
        return f"`[{', '.join(words)}]`"
    return f"`{value}`" if str(value) and value != Fields() else "empty"


def rows(schema: Schema, texts: Mapping[str, str], *, marks_live: bool) -> Iterator[str]:
    for name, key in schema.items():
        mark = "*" if marks_live and key.is_live else ""
        cells = [f"`{name}`{mark}", texts.get(name, ""), "a mapping, below", ""]
        if key.inside is None:
            cells[2:] = [allowed(key), default(name, key)]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(
    heading: str, schema: Schema, texts: Mapping[str, str], *, marks_live: bool = False
) -> str:
    head = ["| Key | What it is for | Allowed | Default |", "| --- | --- | --- | --- |"]
    return "\n".join([heading, "", *head, *rows(schema, texts, marks_live=marks_live), ""])


def of_record(heading: str, record: Any, *, marks_live: bool = False) -> str:
    """The table of a record that declares its keys."""
    texts = meanings(record)
    named = {name: texts[one.name] for name, one, _ in declared(record)}
    return table(heading, keys_of(record), named, marks_live=marks_live)


def page() -> str:
    """The whole page."""
    sections = [
        of_record(f"## `{name}`", key.record)
        for name, _, key in declared(config.Config)
        if key.record is not None
    ]
    return "\n".join(
        [
            HEADING,
            of_record("## The whole gateway", config.Config, marks_live=True),
            *sections,
            of_record("## A channel: an item of `channels`", Channel),
            of_record("### `health`", Health),
            of_record("### `data`", Data),
            table("### `wire`", WIRE, {}),
            table("### `paths`", PATHS, {}),
            of_record("### `client_certificate`", config.TlsFiles),
            *(
                of_record(f"### `credentials` with `auth: {way}`", record)
                for way, record in CREDENTIALS.items()
            ),
            of_record("## A model: an item of `models`", Model),
            of_record("### An item of its `channels`", Bound),
            table("### `price`", ENTRY_PRICE, meanings(PriceSpec)),
            of_record("### `video`", Video),
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(page())
