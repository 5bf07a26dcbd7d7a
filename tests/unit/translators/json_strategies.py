"""Random JSON, words and names, for the requests and answers of the translators' properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

words = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], codec="utf-8"), min_size=1, max_size=12
).filter(lambda text: text.strip() == text and text != "")
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", fullmatch=True)
ids = st.from_regex(r"[a-z]{1,4}_[a-zA-Z0-9]{1,12}", fullmatch=True)
base64 = st.sampled_from(["iVBORw0KGgoAAAAN", "/9j/4AAQSkZJRgAB", "R0lGODlhAQABAIAA"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, json_values, max_size=3)
schemas = st.builds(
    lambda properties: {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    },
    st.dictionaries(names, st.just({"type": "string"}), max_size=3),
)


def maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these members."""
    return st.fixed_dictionaries({}, optional=members)


def joined(*objects: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for one in objects for name, value in one.items()}


def json_texts(value: Any) -> st.SearchStrategy[str]:
    """JSON text of a value, spaced in one of some ways."""
    return st.sampled_from([(",", ":"), (", ", ": ")]).map(
        lambda separators: json.dumps(value, separators=separators)
    )
