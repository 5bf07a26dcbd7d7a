"""JSON-RPC 2.0, parsed and encoded, and the supported revisions of the protocol.

The older ones begin with `initialize`; the newest has no handshake: each request has its revision
and the client's capabilities in `_meta`, and repeats some of it in headers for proxies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from metrics.version import release

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
class RpcRequest:
    """A message with an id; `params` is any JSON value, None if absent."""

    id: Id
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A message without an id."""

    method: str


@dataclass(frozen=True, slots=True)
class PostedResponse:
    """A response, although this server sends no requests."""


RpcMessage = RpcRequest | RpcNotification | PostedResponse


def read_json(body: bytes) -> Any:
    """Parse the JSON of a body. Raises RpcError."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body is not JSON in UTF-8.") from None


def read_message(value: Any) -> RpcMessage:
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
        return RpcNotification(method)
    request_id = id_of(value)
    if request_id is None:
        raise RpcError(INVALID_REQUEST, "`id` must be a string or a number.")
    return RpcRequest(request_id, method, value.get("params"))


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
