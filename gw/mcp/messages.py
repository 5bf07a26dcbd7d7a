"""JSON-RPC 2.0: bytes into messages, results and errors into bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from metrics.logs import redact
from metrics.version import release

# The revisions of the protocol that are served, and the words and numbers of its wire.
#
# Those with a handshake begin with `initialize`; the newest one has none: each request says its
# revision and what the client can do in `_meta`, and repeats of it in headers what a proxy may
# read.

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS: Final = "2026-07-28"
# All of them, the newest first.
SUPPORTED: Final = (STATELESS, *reversed(HANDSHAKE))
# Those that know batches.
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
# How long a client may keep what only another release of the gateway changes.
CACHE_MS: Final = 300_000


Id = str | int | float


class RpcError(Exception):
    """An error that the client is shown, with the HTTP status that it has in a reply of its own."""

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
    """What the client wants a result of; `params` is any JSON value, None where there is none."""

    id: Id
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Notification:
    """What the client lets the server know."""

    method: str


@dataclass(frozen=True, slots=True)
class PostedResponse:
    """A response to a request that no server of this kind ever makes."""


Message = Request | Notification | PostedResponse


def read_json(body: bytes) -> Any:
    """The value of a body. Raises RpcError."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body is not JSON in UTF-8.") from None


def read_message(value: Any) -> Message:
    """The message that a JSON value is. Raises RpcError."""
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
    """The id of a message, good or bad; None where it has none that a response may repeat."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def result_body(request_id: Id, result: Any) -> bytes:
    """A response with a result."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_body(request_id: Id | None, error: RpcError) -> bytes:
    """A response with an error."""
    shown: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        shown["data"] = error.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": shown})


def encode(value: Any) -> bytes:
    """A value as compact JSON in UTF-8, nothing of it escaped that need not be."""
    return msgspec.json.encode(value)


# What a tool is to the protocol: how it is listed, how it is called, how it fails.

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


# What stands around a message: the head of its POST, and the `_meta` of the newest revision.

SHOWN_CHARACTERS_MAX = 60
_JSON = "application/json"
_WEIGHT_0 = re.compile(r"q=0(?:\.0{0,3})?", re.IGNORECASE)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The fields of a POST that the protocol knows; None where there is none."""

    content_type: str | None = None
    accept: str | None = None
    version: str | None = None
    method: str | None = None
    name: str | None = None


def check_media_types(head: Head) -> None:
    """JSON comes in, and may go out. Raises RpcError."""
    if _media_type(head.content_type or "") != _JSON:
        message = "Send the message as `Content-Type: application/json`."
        raise RpcError(INVALID_REQUEST, message, http_status=415)
    if not _accepts_json(head.accept or ""):
        message = "Responses are JSON: accept `application/json`."
        raise RpcError(INVALID_REQUEST, message, http_status=406)


def check_version(version: str | None) -> None:
    """One of the revisions that are served, or none. Raises RpcError."""
    if version is not None and version not in SUPPORTED:
        data = {"supported": SUPPORTED, "requested": redact(version)[:SHOWN_CHARACTERS_MAX]}
        raise RpcError(UNSUPPORTED_VERSION, "This protocol version is not served.", data=data)


def is_stateless(head: Head, request: Request) -> bool:
    """Whether the request is one of the revision without a handshake. Raises RpcError.

    Of a version in `_meta` only a text is one: below that revision `_meta` may hold anything.
    """
    version = meta_of(request).get(META_VERSION)
    if head.version != STATELESS and isinstance(version, str):
        check_version(version)
    return STATELESS in (head.version, version)


def check_envelope(head: Head, request: Request) -> None:
    """A request of the newest revision says all that it must, twice the same. Raises RpcError."""
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
    """The `_meta` of a request; empty where it has none."""
    meta = request.params.get("_meta") if isinstance(request.params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _check_header(name: str, value: str | None, expected: Any) -> None:
    if value is None or value != expected:
        what = "is missing" if value is None else "differs from the message"
        raise RpcError(HEADER_MISMATCH, f"The header `{name}` {what}.")


def _decoded(value: str | None) -> str | None:
    """A header's text, which may be sent encoded; None where the encoding is broken."""
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
