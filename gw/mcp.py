"""One POST of the Model Context Protocol: from head and body to its reply.

Independent of HTTP and of the tools. A reply is one JSON value, or empty after notifications only.
Stateless, so any process serves any exchange.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from metrics.log_redaction import redact
from metrics.version import release

# JSON-RPC 2.0: parses messages, encodes results and errors.

# The supported revisions of the protocol, with their constants.
#
# The older ones begin with `initialize`; the newest has no handshake: each request has its revision
# and the client's capabilities in `_meta`, and repeats some of it in headers for proxies.

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS: Final = "2026-07-28"
# All of them, newest first.
SUPPORTED: Final = (STATELESS, *reversed(HANDSHAKE))
# Those with batches.
BATCHED: Final = HANDSHAKE[:2]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"

CAPABILITIES: Final[dict[str, Any]] = {"tools": {}}
SERVER_INFO: Final = {"name": "gateway-knowledge-base", "version": release()}
# How long a client may cache values that only another release of the gateway changes.
CACHE_MS: Final = 300_000


Id = str | int | float


class RpcError(Exception):
    """An error for the client, with the HTTP status of a reply that consists of it."""

    def __init__(
        self, code: int, message: str, *, http_status: int = 400, data: Any = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = http_status
        self.data = data


@dataclass(frozen=True, slots=True)
class Request:
    """A message with an id; `params` is any JSON value, None if absent."""

    id: Id
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Notification:
    """A message without an id."""

    method: str


@dataclass(frozen=True, slots=True)
class PostedResponse:
    """A response, although this server sends no requests."""


Message = Request | Notification | PostedResponse


def read_json(body: bytes) -> Any:
    """Parse the JSON of a body. Raises RpcError."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body is not JSON in UTF-8.") from None


def read_message(value: Any) -> Message:
    """Parse the message of a JSON value. Raises RpcError."""
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "A message is a JSON object.")
    if value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, '`jsonrpc` must be "2.0".')
    if "method" not in value:
        if "id" in value and ("result" in value or "error" in value):
            return PostedResponse()
        raise RpcError(INVALID_REQUEST, "`method` is required.")
    method = value["method"]
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "`method` must be a string.")
    if "id" not in value:
        return Notification(method)
    request_id = id_of(value)
    if request_id is None:
        raise RpcError(INVALID_REQUEST, "`id` must be a string or a number.")
    return Request(request_id, method, value.get("params"))


def id_of(value: Any) -> Id | None:
    """Return the id of a message, valid or not; None if a response cannot repeat it."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def result_body(request_id: Id, result: Any) -> bytes:
    """Encode a response with a result."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_body(request_id: Id | None, error: RpcError) -> bytes:
    """Encode a response with an error."""
    shown: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        shown["data"] = error.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": shown})


def encode(value: Any) -> bytes:
    """Encode a value as compact JSON in UTF-8, with the fewest escapes."""
    return msgspec.json.encode(value)


# Tools in the protocol: their entries in the list, their calls and errors.

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


# The envelope of a message: the head of its POST, and the `_meta` of the newest revision.

SHOWN_CHARACTERS_MAX = 60
_JSON = "application/json"
_WEIGHT_0 = re.compile(r"q=0(?:\.0{0,3})?", re.IGNORECASE)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The header fields used by the protocol; None if absent."""

    content_type: str | None = None
    accept: str | None = None
    version: str | None = None
    method: str | None = None
    name: str | None = None


def check_media_types(head: Head) -> None:
    """Check that the body is JSON, and that the client accepts JSON. Raises RpcError."""
    if _media_type(head.content_type or "") != _JSON:
        message = "Send the message as `Content-Type: application/json`."
        raise RpcError(INVALID_REQUEST, message, http_status=415)
    if not _accepts_json(head.accept or ""):
        message = "Responses are JSON: accept `application/json`."
        raise RpcError(INVALID_REQUEST, message, http_status=406)


def check_version(version: str | None) -> None:
    """Check that the revision is supported or absent. Raises RpcError."""
    if version is not None and version not in SUPPORTED:
        data = {"supported": SUPPORTED, "requested": redact(version)[:SHOWN_CHARACTERS_MAX]}
        raise RpcError(UNSUPPORTED_VERSION, "This protocol version is not served.", data=data)


def is_stateless(head: Head, request: Request) -> bool:
    """Whether the request has the revision without a handshake. Raises RpcError.

    A version in `_meta` counts only as a text: in older revisions `_meta` may contain anything.
    """
    version = meta_of(request).get(META_VERSION)
    if head.version != STATELESS and isinstance(version, str):
        check_version(version)
    return STATELESS in (head.version, version)


def check_envelope(head: Head, request: Request) -> None:
    """Check that a request of the newest revision is complete and consistent. Raises RpcError."""
    meta = meta_of(request)
    if META_VERSION not in meta or not isinstance(meta.get(META_CAPABILITIES), dict):
        message = f"`params._meta` must have `{META_VERSION}` and `{META_CAPABILITIES}`."
        raise RpcError(INVALID_PARAMS, message)
    _check_header("MCP-Protocol-Version", head.version, meta[META_VERSION])
    _check_header("Mcp-Method", head.method, request.method)
    name = request.params.get("name")
    if request.method == "tools/call" and isinstance(name, str):
        _check_header("Mcp-Name", _decoded(head.name), name)


def meta_of(request: Request) -> dict[str, Any]:
    """Return the `_meta` of a request; empty if absent."""
    meta = request.params.get("_meta") if isinstance(request.params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _check_header(name: str, value: str | None, expected: Any) -> None:
    if value is None or value != expected:
        what = "is missing" if value is None else "differs from the message"
        raise RpcError(HEADER_MISMATCH, f"The header `{name}` {what}.")


def _decoded(value: str | None) -> str | None:
    """Return a header's text, which may be encoded; None if the encoding is invalid."""
    encoded = _ENCODED.fullmatch(value or "")
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _accepts_json(accept: str) -> bool:
    if not accept.strip():
        return True
    ranges = (_JSON, "application/*", "*/*")
    return any(
        _media_type(one) in ranges
        and not any(_WEIGHT_0.fullmatch(part.strip()) for part in one.split(";")[1:])
        for one in accept.split(",")
    )


# The methods of the protocol: functions of params and tools that return the result.
#
# All raise RpcError for invalid params, and the errors of tools other than ToolError.

INSTRUCTIONS: Final = (
    "The knowledge bases that this key may read. Find pages with search_wiki, which gives entries"
    " without bodies, then read them with read_page, or several beginnings at once with read_pages."
    " list_by_tag and backlinks lead to related pages, get_source to the document a page was made"
    " of. An `id` of any result works in every tool as it stands."
)

Params = Mapping[str, Any]
Method = Callable[[Toolbox, Params], Awaitable[dict[str, Any]]]


async def initialize(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """Return the handshake: the client's revision if supported, else the newest that has one."""
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
    """Return an empty result."""
    return {}


async def discover(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """Return the content of a handshake, for revisions without one."""
    return _to_keep(
        {
            "supportedVersions": SUPPORTED,
            "capabilities": CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
    )


async def list_tools(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """Return all tools, always in the same order, in one page."""
    return {"tools": [tool.listed() for tool in toolbox.tools.values()]}


async def list_tools_to_keep(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """Return all tools, with the time they may be cached."""
    return _to_keep(await list_tools(toolbox, params))


async def call_tool(toolbox: Toolbox, params: Params) -> dict[str, Any]:
    """Return the result of a tool, or its error."""
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
    """Return an object of a request. Raises RpcError for any other value."""
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"`{name}` must be an object.")
    return value


def of_stateless(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result in the form of the revision without a handshake."""
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


# Messages of one batch; a message after this many bytes of responses must be sent separately.
BATCH_MAX: Final = 25
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024

Outcome = Literal["ok", "tool_error", "error", "refused"]


class Reply(NamedTuple):
    """The reply; an empty body with 202."""

    http_status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class HandledMessage:
    """The result of one message, for metrics; `code` is 0 without an error.

    `method` is empty if unknown to the protocol, `tool` if no known one was called.
    """

    method: str
    tool: str
    outcome: Outcome
    seconds: float
    code: int


class Exchange:
    """One POST of a client.

    `request` is the request being served, if any; `served` are the results of earlier ones.
    """

    def __init__(self, head: Head, toolbox: Toolbox) -> None:
        self.request: Request | None = None
        self.served: list[HandledMessage] = []
        self._head = head
        self._toolbox = toolbox
        self._began = time.perf_counter()

    def __repr__(self) -> str:
        return f"<Exchange {self._head.version} {self.request and self.request.method}>"

    async def reply(self, body: bytes) -> Reply:
        """Serve a body. Raises the errors of tools other than ToolError."""
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
        """Count the request being served as failed by a fault of the gateway."""
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
        """Serve one message. Raises RpcError for invalid ones."""
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
        """Return the tool of a request; empty if it calls no known one."""
        if request.method != "tools/call" or not isinstance(request.params, dict):
            return ""
        name = request.params.get("name")
        return name if isinstance(name, str) and name in self._toolbox.tools else ""

    def _count(self, method: str, tool: str, outcome: Outcome, code: int) -> None:
        seconds = time.perf_counter() - self._began
        known = method if method in KNOWN else ""
        self.served.append(HandledMessage(known, tool, outcome, seconds, code))
