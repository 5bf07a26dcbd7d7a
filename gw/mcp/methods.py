"""The methods of the protocol: functions of params and tools that return the result.

All raise RpcError for invalid params, and the errors of tools other than ToolError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gw.mcp import json_rpc, tools

INSTRUCTIONS: Final = (
    "The knowledge bases that this key may read. Find pages with search_wiki, which gives entries"
    " without bodies, then read them with read_page, or several beginnings at once with read_pages."
    " list_by_tag and backlinks lead to related pages, get_source to the document a page was made"
    " of. An `id` of any result works in every tool as it stands."
)

Params = Mapping[str, Any]
Method = Callable[[tools.Toolbox, Params], Awaitable[dict[str, Any]]]


async def initialize(toolbox: tools.Toolbox, params: Params) -> dict[str, Any]:
    """Return the handshake: the client's revision if supported, else the newest that has one."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "`protocolVersion` is required: a string.")
    return {
        "protocolVersion": wanted if wanted in json_rpc.HANDSHAKE else json_rpc.HANDSHAKE[-1],
        "capabilities": json_rpc.CAPABILITIES,
        "serverInfo": json_rpc.SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


async def ping(toolbox: tools.Toolbox, params: Params) -> dict[str, Any]:
    """Return an empty result."""
    return {}


async def discover(toolbox: tools.Toolbox, params: Params) -> dict[str, Any]:
    """Return the content of a handshake, for revisions without one."""
    return _to_keep(
        {
            "supportedVersions": json_rpc.SUPPORTED,
            "capabilities": json_rpc.CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
    )


async def list_tools(toolbox: tools.Toolbox, params: Params) -> dict[str, Any]:
    """Return all tools, always in the same order, in one page."""
    return {"tools": [tool.listed() for tool in toolbox.tools.values()]}


async def list_tools_to_keep(toolbox: tools.Toolbox, params: Params) -> dict[str, Any]:
    """Return all tools, with the time they may be cached."""
    return _to_keep(await list_tools(toolbox, params))


async def call_tool(toolbox: tools.Toolbox, params: Params) -> dict[str, Any]:
    """Return the result of a tool, or its error."""
    name = params.get("name")
    if not isinstance(name, str):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, "`name` is required: the name of a tool.")
    if name not in toolbox.tools:
        raise json_rpc.RpcError(
            json_rpc.INVALID_PARAMS, f"There is no such tool. There are {', '.join(toolbox.tools)}."
        )
    arguments = members(params.get("arguments", {}), "arguments")
    try:
        return tools.found_result(await toolbox.call(name, arguments))
    except tools.ToolError as error:
        return tools.failed_result(error)


def members(value: Any, name: str) -> dict[str, Any]:
    """Return an object of a request. Raises RpcError for any other value."""
    if not isinstance(value, dict):
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, f"`{name}` must be an object.")
    return value


def of_stateless(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result in the form of the revision without a handshake."""
    return {
        **result,
        "resultType": "complete",
        "_meta": {json_rpc.META_SERVER: json_rpc.SERVER_INFO},
    }


def _to_keep(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "ttlMs": json_rpc.CACHE_MS, "cacheScope": "public"}


HANDSHAKE_METHODS: Final[Mapping[str, Method]] = {
    "initialize": initialize,
    "ping": ping,
    "tools/list": list_tools,
    "tools/call": call_tool,
}
STATELESS_METHODS: Final[Mapping[str, Method]] = {
    "server/discover": discover,
    "tools/list": list_tools_to_keep,
    "tools/call": call_tool,
}
NOTIFICATIONS: Final = ("notifications/initialized", "notifications/cancelled")
KNOWN: Final = frozenset({*HANDSHAKE_METHODS, *STATELESS_METHODS, *NOTIFICATIONS})
