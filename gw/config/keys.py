"""A key of the file, declared once: a field of the record that its mapping becomes.

The field has the reader, the default and whether a reload puts it in force; the text below it says
what it is for. The keys that a mapping may have, its defaults and its record are made from these
fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, field, fields
from typing import Any, TypeVar

from gw.config import mappings, readers

T = TypeVar("T")
_KEY = "key"


def key(
    read: readers.Reader[T],
    default: T,
    *,
    name: str = "",
    is_live: bool = False,
    is_secret: bool = False,
) -> T:
    """Declare a key with its default; `name` if the file has another than the record."""
    found: T = field(
        default=default,
        repr=not is_secret,
        metadata={_KEY: mappings.Key(read, default, name=name, is_live=is_live)},
    )
    return found


def required(read: readers.Reader[T], *, is_secret: bool = False) -> T:
    """Declare a key without a default."""
    found: T = field(repr=not is_secret, metadata={_KEY: mappings.Key(read, mappings.REQUIRED)})
    return found


def secret_text(what: str) -> str:
    """Declare a text that is never shown, empty by default."""
    return key(readers.text(what, may_be_empty=True, secret=True), "", is_secret=True)


def section(record: type, *, is_live: bool = False) -> Any:
    """Declare a key with a mapping, which may be absent; `record` declares the keys in it."""
    schema = keys_of(record)
    found = mappings.Key(
        mappings.mapping(schema), None, inside=schema, record=record, is_live=is_live
    )
    return field(metadata={_KEY: found})


def table(schema: mappings.Schema) -> Any:
    """Declare a key with a mapping of such keys, which may be absent."""
    return field(metadata={_KEY: mappings.section(schema)})


def declared(record: type) -> Iterator[tuple[str, Field[Any], mappings.Key]]:
    """Yield the keys that a record declares, its own first: name in the file, field, key."""
    for one in sorted(fields(record), key=lambda one: one.name not in record.__annotations__):
        if (found := one.metadata.get(_KEY)) is not None:
            yield found.name or one.name, one, found


def keys_of(record: type) -> mappings.Schema:
    """Return the keys that a record declares, by their names in the file."""
    return {name: found for name, _, found in declared(record)}


def record_of(record: type[T], found: mappings.Section, **others: Any) -> T:
    """Make the record of a mapping without faults; `others` are fields made otherwise."""
    for name, one, known in declared(record):
        if one.name not in others:
            value = found.values[name]
            others[one.name] = value if known.record is None else record_of(known.record, value)
    return record(**others)
