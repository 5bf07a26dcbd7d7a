"""Tools in the protocol: their entries in the list, their calls and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from gw.mcp.json_rpc import encode

# All tools only read data stored by the gateway.
_ANNOTATIONS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool as clients and their models see it; both schemas are JSON Schema of objects."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]

    def listed(self) -> dict[str, Any]:
        """The tool as an entry of `tools/list`."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": _ANNOTATIONS,
        }


class ToolError(Exception):
    """A tool cannot serve its arguments; the text suggests better ones to a model."""


class Toolbox(Protocol):
    """The tools that a client may call."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name, in the order of the list."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a tool. Raises ToolError."""


def found_result(structured: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call: the same JSON as a value and as a text, encoded once."""
    text = encode(structured)
    return {
        "content": [{"type": "text", "text": text.decode()}],
        "structuredContent": msgspec.Raw(text),
        "isError": False,
    }


def failed_result(error: ToolError) -> dict[str, Any]:
    """Return the result of a call that the tool refused."""
    return {"content": [{"type": "text", "text": str(error)}], "isError": True}
