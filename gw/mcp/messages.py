"""JSON-RPC 2.0: bytes into messages, results and errors into bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gw.mcp.revisions import INVALID_REQUEST, PARSE_ERROR

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
