"""What a tool is to the protocol: how it is listed, how it is called, how it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from gw.mcp.messages import encode

# All tools only read what the gateway itself stores.
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
    """A tool cannot do what it was asked; the text tells a model what to ask instead."""


class Toolbox(Protocol):
    """The tools that a client may call."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """By name, in the order in which they are listed."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool of `tools` finds. Raises ToolError."""


def found_result(structured: dict[str, Any]) -> dict[str, Any]:
    """The result of a call: the same JSON as a value and as a text, written once."""
    text = encode(structured)
    return {
        "content": [{"type": "text", "text": text.decode()}],
        "structuredContent": msgspec.Raw(text),
        "isError": False,
    }


def failed_result(error: ToolError) -> dict[str, Any]:
    """The result of a call that the tool could not serve."""
    return {"content": [{"type": "text", "text": str(error)}], "isError": True}
