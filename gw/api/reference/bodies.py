"""The schema of a body whose other members are forwarded: those that the gateway itself reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from channels.dialects.member_words import words_of
from gw.api.reference.schemas import NAME, Undescribed

_LEFT_OUT = frozenset(("title", "discriminator", "default"))
FORWARDED = "The members listed are those that the gateway reads; others are forwarded."


def open_body(
    body: type[msgspec.Struct], *, name: str, words: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the schema of a body under a name, each member with its description.

    A member without a line of its own has its allowed values, as error messages say them; `words`
    are these by paths where the types do not say them. Raises Undescribed.
    """
    (reference,), components = msgspec.json.schema_components([body])
    found = _inlined(reference, components, words_of(body) if words is None else words, "")
    return {**found, "description": FORWARDED, "additionalProperties": True, NAME: name}


def _inlined(
    schema: Mapping[str, Any], components: Mapping[str, Any], words: Mapping[str, str], at: str
) -> dict[str, Any]:
    """Return a schema without references, its members described by their paths."""
    if "$ref" in schema:
        named = components[schema["$ref"].rpartition("/")[2]]
        more = {name: value for name, value in schema.items() if name != "$ref"}
        return {**_inlined(named, components, words, at), **more}
    found: dict[str, Any] = {
        name: value
        for name, value in schema.items()
        # The description of an object is that of its type, not of the member.
        if name not in _LEFT_OUT and not (name == "description" and "properties" in schema)
    }
    if "anyOf" in schema:
        found["anyOf"] = [_inlined(one, components, words, at) for one in schema["anyOf"]]
    if isinstance(schema.get("items"), Mapping):
        found["items"] = _inlined(schema["items"], components, words, f"{at}[]")
    if "properties" in schema:
        found["properties"] = {
            name: _described(
                _inlined(one, components, words, f"{at}.{name}".lstrip(".")),
                words,
                f"{at}.{name}".lstrip("."),
            )
            for name, one in schema["properties"].items()
        }
    return found


def _described(schema: dict[str, Any], words: Mapping[str, str], path: str) -> dict[str, Any]:
    if schema.get("description"):
        return schema
    allowed = words.get(path) or ("any value" if "." in path else None)
    if allowed is None:
        raise Undescribed(f"the member {path} of a body has no words")
    return {"description": f"{allowed[0].upper()}{allowed[1:]}.", **schema}
