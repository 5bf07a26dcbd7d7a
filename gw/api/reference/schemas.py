"""Types of the code as schemas of an OpenAPI document, each member with its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

TEMPLATE = "#/components/schemas/{name}"
# The member of a schema with its name among the components, if several places refer to it.
NAME = "x-name"


class Undescribed(Exception):
    """A member, a row or a header that lacks what the document needs of it."""


class Schemas:
    """The schemas of some types, by reference; `components` are those that are referred to."""

    def __init__(self, types: Sequence[Any]) -> None:
        references, components = msgspec.json.schema_components(types, ref_template=TEMPLATE)
        self._references = {id(kind): one for kind, one in zip(types, references, strict=True)}
        self._types = types  # whose ids are kept
        self.components: dict[str, Any] = _portable(components)

    def of(self, kind: Any) -> Mapping[str, Any]:
        """Return the schema of a type, of one of several, or a schema as it is."""
        if isinstance(kind, tuple):
            return {"anyOf": [self.of(one) for one in kind]}
        if not isinstance(kind, Mapping):
            return self._references[id(kind)]
        name = kind.get(NAME)
        if name is None:
            inline: Mapping[str, Any] = _portable(kind)
            return inline
        self.components[name] = _portable(
            {key: value for key, value in kind.items() if key != NAME}
        )
        return {"$ref": TEMPLATE.format(name=name)}

    def members(self, kind: Any) -> Mapping[str, Any]:
        """Return the schemas of a type's members."""
        found: Mapping[str, Any] = self.components[self.name(kind)]["properties"]
        return found

    def name(self, kind: Any) -> str:
        """Return the name of a type's component."""
        reference: str = self._references[id(kind)]["$ref"]
        return reference.rpartition("/")[2]

    def check(self) -> None:
        """Raise Undescribed for a member without description."""
        silent = [
            f"{name}.{member}"
            for name, schema in self.components.items()
            for member, inner in schema.get("properties", {}).items()
            if not inner.get("description") and member != schema.get("x-tag")
        ]
        if silent:
            raise Undescribed(f"members without a description: {', '.join(silent)}")


def _portable(value: Any) -> Any:
    """Return schemas as generators of clients in every language read them.

    They know no anchors of Python's, no array without `items`, no `enum` without its type.
    """
    if isinstance(value, dict):
        found = {
            name: inner.replace(r"\A", "^").replace(r"\Z", "$")
            if name == "pattern" and isinstance(inner, str)
            else _portable(inner)
            for name, inner in value.items()
            if not (name == "title" and isinstance(inner, str))  # a member may be called so
        }
        words = found.get("enum")
        if found.get("type") == "array":
            found.setdefault("items", {})
        elif isinstance(words, list) and all(isinstance(one, str) for one in words):
            found.setdefault("type", "string")
        return found
    return [_portable(one) for one in value] if isinstance(value, list | tuple) else value


def content_of(schema: Mapping[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    """Return a body of one form."""
    return {media_type: {"schema": schema}}
