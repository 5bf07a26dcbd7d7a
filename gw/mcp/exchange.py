"""One POST: from its head and body to its reply, without HTTP and whatever the tools are.

A reply is one JSON value, or nothing where only notifications came. Nothing is remembered from one
exchange to the next, so any process serves any of them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from gw.mcp.messages import (
    BATCHED,
    CACHE_MS,
    CAPABILITIES,
    HANDSHAKE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    META_SERVER,
    METHOD_NOT_FOUND,
    SERVER_INFO,
    SUPPORTED,
    Head,
    Notification,
    Request,
    RpcError,
    Toolbox,
    ToolError,
    check_envelope,
    check_media_types,
    check_version,
    error_body,
    failed_result,
    found_result,
    id_of,
    is_stateless,
    read_json,
    read_message,
    result_body,
)

# The methods of the protocol: of their params and the tools; the result.
#
# All raise RpcError for params that will not do, and what a tool raises beside ToolError.

INSTRUCTIONS: Final = (
    "The knowledge bases that this key may read. Find pages with search_wiki, which gives entries"
    " without bodies, then read them with read_page, or several beginnings at once with read_pages."
    " list_by_tag and backlinks lead to related pages, get_source to the document a page was made"
    " of. An `id` of any result works in every tool as it stands."
)

Params = Mapping[str, Any]
Method = Callable[[Toolbox, Params], Awaitable[dict[str, Any]]]


async def initialize(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """The handshake: the client's revision where it is served, else the newest that has one."""
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(INVALID_PARAMS, "`protocolVersion` is required: a string.")
    return {
        "protocolVersion": wanted if wanted in HANDSHAKE else HANDSHAKE[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


async def ping(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """The server is there."""
    return {}


async def discover(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """What a handshake would say, for revisions without one."""
    return _to_keep(
        {
            "supportedVersions": SUPPORTED,
            "capabilities": CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
    )


async def list_tools(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """All tools, always in the same order, in one page."""
    return {"tools": [tool.listed() for tool in toolbox.tools.values()]}


async def list_tools_to_keep(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """The same, with how long it may be kept."""
    return _to_keep(await list_tools(toolbox, params))


async def call_tool(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """What a tool finds, or why it finds nothing."""
    name = params.get("name")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "`name` is required: the name of a tool.")
    if name not in toolbox.tools:
        raise RpcError(
            INVALID_PARAMS, f"There is no such tool. There are {', '.join(toolbox.tools)}."
        )
    arguments = members(params.get("arguments", {}), "arguments")
    try:
        return found_result(await toolbox.call(name, arguments))
    except ToolError as error:
        return failed_result(error)


def members(value: Any, name: str) -> dict[str, Any]:
    """An object that a request has. Raises RpcError for anything else."""
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"`{name}` must be an object.")
    return value


def of_stateless(result: dict[str, Any]) -> dict[str, Any]:
    """A result as the revision without a handshake has it."""
    return {**result, "resultType": "complete", "_meta": {META_SERVER: SERVER_INFO}}


def _to_keep(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "ttlMs": CACHE_MS, "cacheScope": "public"}


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


# Messages of one batch; and once its responses are as long as this, the rest must come alone.
BATCH_MAX: Final = 25
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024

Outcome = Literal["ok", "tool_error", "error", "refused"]


class Reply(NamedTuple):
    """What goes back; an empty body with 202."""

    http_status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """What became of one message, for who counts; `code` is 0 where there was no error.

    `method` is empty where the protocol does not know it, `tool` where no known one was called.
    """

    method: str
    tool: str
    outcome: Outcome
    seconds: float
    code: int


class Exchange:
    """One POST of a client.

    `request` is the request that is being served, if any; `served` what became of those before it.
    """

    def __init__(self, head: Head, toolbox: Toolbox) -> None:
        self.request: Request | None = None
        self.served: list[Served] = []
        self._head = head
        self._toolbox = toolbox
        self._began = time.perf_counter()

    def __repr__(self) -> str:
        return f"<Exchange {self._head.version} {self.request and self.request.method}>"

    async def reply(self, body: bytes) -> Reply:
        """Serve what was posted. Raises what the tools raise beside ToolError."""
        value: Any = None
        try:
            check_media_types(self._head)
            value = read_json(body)
            check_version(self._head.version)
            if isinstance(value, list):
                self._check_batch(value)
                return await self._batch(value)
            return await self._one(value)
        except RpcError as error:
            self._count("", "", "refused", error.code)
            return Reply(error.http_status, error_body(id_of(value), error))

    def failed(self, code: int) -> None:
        """Count the request that is being served as one that met a fault of ours."""
        if self.request is not None:
            self._count(self.request.method, self._tool_of(self.request), "error", code)

    def _check_batch(self, values: list[Any]) -> None:
        if self._head.version not in (None, *BATCHED):
            raise RpcError(INVALID_REQUEST, "This protocol version has no batches.")
        if not 0 < len(values) <= BATCH_MAX:
            raise RpcError(INVALID_REQUEST, f"A batch has 1 to {BATCH_MAX} messages.")
        if any(isinstance(one, dict) and one.get("method") == "initialize" for one in values):
            raise RpcError(INVALID_REQUEST, "`initialize` must not be part of a batch.")

    async def _batch(self, values: list[Any]) -> Reply:
        bodies: list[bytes] = []
        size_bytes = 0
        for value in values:
            self._began = time.perf_counter()
            try:
                if size_bytes > BATCH_BYTES_MAX:
                    message = "The responses before this one are long enough: send it alone."
                    raise RpcError(INVALID_REQUEST, message)
                body = (await self._one(value)).body
            except RpcError as error:
                self._count("", "", "refused", error.code)
                body = error_body(id_of(value), error)
            if body:
                bodies.append(body)
                size_bytes += len(body)
        return Reply(200, b"[" + b",".join(bodies) + b"]") if bodies else Reply(202, b"")

    async def _one(self, value: Any) -> Reply:
        """Serve one message. Raises RpcError where it is none."""
        message = read_message(value)
        if isinstance(message, Request):
            return await self._serve(message)
        self._count(message.method if isinstance(message, Notification) else "", "", "ok", 0)
        return Reply(202, b"")

    async def _serve(self, request: Request) -> Reply:
        outcome: Outcome = "refused"
        tool = ""
        try:
            stateless = is_stateless(self._head, request)
            if stateless:
                check_envelope(self._head, request)
            method = (STATELESS_METHODS if stateless else HANDSHAKE_METHODS).get(request.method)
            if method is None:
                status = 404 if stateless else 200
                raise RpcError(METHOD_NOT_FOUND, "There is no such method.", http_status=status)
            self.request, outcome, tool = request, "error", self._tool_of(request)
            try:
                params = {} if request.params is None else members(request.params, "params")
                result = await method(self._toolbox, params)
            except RpcError as error:
                error.http_status = error.http_status if stateless else 200
                raise
        except RpcError as error:
            self.request = None
            self._count(request.method, tool, outcome, error.code)
            return Reply(error.http_status, error_body(request.id, error))
        self.request = None
        outcome = "tool_error" if result.get("isError") else "ok"
        self._count(request.method, tool, outcome, 0)
        return Reply(200, result_body(request.id, of_stateless(result) if stateless else result))

    def _tool_of(self, request: Request) -> str:
        """The tool that a request calls; empty where it calls none that there is."""
        if request.method != "tools/call" or not isinstance(request.params, dict):
            return ""
        name = request.params.get("name")
        return name if isinstance(name, str) and name in self._toolbox.tools else ""

    def _count(self, method: str, tool: str, outcome: Outcome, code: int) -> None:
        seconds = time.perf_counter() - self._began
        known = method if method in KNOWN else ""
        self.served.append(Served(known, tool, outcome, seconds, code))
