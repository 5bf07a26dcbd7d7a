"""What MCP clients ask, by method and tool."""

from __future__ import annotations

from metrics.families import Families

# Methods that the protocol does not know; requests that call no tool there is.
OTHER, NONE = "other", "none"


class McpMetrics:
    """Messages by how they end, and how long they take.

    Methods and tools that nobody knows are never labels: a client could make up any number.
    """

    def __init__(self, make: Families) -> None:
        self._requests = make.counter("gw_mcp_requests_total")
        self._seconds = make.histogram("gw_mcp_seconds")

    def served(self, *, method: str, tool: str, outcome: str, seconds: float) -> None:
        """A message has its response; an empty method or tool is none that is known."""
        self._requests[method or OTHER, tool or NONE, outcome].value += 1
        self._seconds[method or OTHER, tool or NONE].observe(seconds)

    def refused(self) -> None:
        """A POST was refused before its message was read."""
        self._requests[OTHER, NONE, "refused"].value += 1
