"""Requests of MCP clients, by method and tool."""

from __future__ import annotations

from metrics.families import Families

# Labels of methods unknown to the protocol, and of requests without a known tool.
OTHER_TOOL, NONE = "other", "none"


class McpMetrics:
    """Messages by outcome and duration.

    Unknown methods and tools are never labels: a client could invent any number.
    """

    def __init__(self, make: Families) -> None:
        self._requests = make.counter("gw_mcp_requests_total")
        self._seconds = make.histogram("gw_mcp_seconds")

    def served(self, *, method: str, tool: str, outcome: str, seconds: float) -> None:
        """Count a message that has its response; an empty method or tool is an unknown one."""
        self._requests[method or OTHER_TOOL, tool or NONE, outcome].value += 1
        self._seconds[method or OTHER_TOOL, tool or NONE].observe(seconds)

    def refused(self) -> None:
        """Count a POST that was refused before its message was read."""
        self._requests[OTHER_TOOL, NONE, "refused"].value += 1
