"""A toolbox with one tool, and POSTs to an exchange over it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gw.mcp.envelope import PostHead
from gw.mcp.exchange import Exchange, HandledMessage
from gw.mcp.json_rpc import META_CAPABILITIES, META_VERSION, STATELESS
from gw.mcp.tools import Tool, ToolError

JSON = PostHead(content_type="application/json", accept="application/json, text/event-stream")
META = {META_VERSION: STATELESS, META_CAPABILITIES: {}}


class FakeToolbox:
    """The tool `echo` gives its arguments back; it fails for `fail`, and breaks for `break`."""

    tools: Mapping[str, Tool] = {
        "echo": Tool(
            name="echo",
            title="Echo",
            description="What goes in comes out.",
            input_schema={"type": "object"},
            output_schema={"type": "object"},
        )
    }

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if "fail" in arguments:
            raise ToolError("Ask for something else.")
        if "break" in arguments:
            raise RuntimeError("a fault of ours")
        return {"name": name, "arguments": dict(arguments)}


def message(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    """A request; without params where none are given."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method} | (
        {"params": params} if params else {}
    )


def stateless(method: str, **params: Any) -> tuple[PostHead, dict[str, Any]]:
    """A good request of the newest revision, with its head."""
    name = params.get("name")
    head = replace(JSON, version=STATELESS, method=method, name=name)
    return head, message(method, _meta=META, **params)


async def post(
    value: Any, head: PostHead = JSON, observed: list[HandledMessage] | None = None, **fields: Any
) -> tuple[int, Any]:
    """The status and the value of the reply; a value that is bytes is the body as it stands."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    exchange = Exchange(replace(head, **fields), FakeToolbox())
    reply = await exchange.reply(body)
    if observed is not None:
        observed += exchange.served
    return reply.http_status, json.loads(reply.body) if reply.body else None
