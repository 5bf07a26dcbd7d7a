"""The arguments of a tool call. Errors are sentences that a model can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gw.api.knowledge import query
from gw.mcp.tools import ToolError

Arguments = Mapping[str, Any]


def text(arguments: Arguments, name: str) -> str:
    """Return a text that is not blank, unchanged. Raises ToolError."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"`{name}` is required: a text that is not blank.")
    return value


def search_text(arguments: Arguments) -> str:
    """Return the search text. Raises ToolError."""
    value = text(arguments, "q")
    if len(value) > query.QUERY_CHARACTERS_MAX:
        raise ToolError(
            f"`q` has more than {query.QUERY_CHARACTERS_MAX} characters: search for less."
        )
    return value


def limit_of(arguments: Arguments, default: int) -> int:
    """Return the number of entries, at most LIMIT_MAX. Raises ToolError."""
    return min(_whole(arguments, "limit", least=1, default=default), query.LIMIT_MAX)


def offset_of(arguments: Arguments) -> int:
    """Return the number of entries to skip. Raises ToolError."""
    return min(_whole(arguments, "offset", least=0, default=0), query.OFFSET_MAX)


def ids_of(arguments: Arguments) -> list[str]:
    """Return the first IDS_MAX distinct ids of a list. Raises ToolError if it is empty."""
    value = arguments.get("ids")
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ToolError("`ids` is required: a list of texts, each the id of a page.")
    found = dict.fromkeys(one.strip() for one in value)
    found.pop("", None)
    if not found:
        raise ToolError("`ids` has no id: give at least one.")
    return list(found)[: query.IDS_MAX]


def _whole(arguments: Arguments, name: str, *, least: int, default: int) -> int:
    value = arguments.get(name, default)
    # JSON does not distinguish 5.0 from 5.
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or value < least:
        raise ToolError(f"`{name}` is a whole number from {least} on.")
    return int(value)
