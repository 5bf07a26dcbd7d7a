"""Every error of the gateway as data, and the exception that carries one.

The table has the rows of the specification in the same order (spec: Errors): the code of an error
in each protocol, and the error of an upstream's status. Bodies are rendered below;
`gw/api/failures.py` maps exceptions to errors. The raiser writes the message; an upstream's must be
redacted before (`channels/redaction.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import ujson

from channels.errors import InvalidRequest
from channels.families import ErrorShape
from metrics.log_redaction import without_keys

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

# Every 503 has the time to come back after, in whole seconds: so soon where nothing better is
# known.
RETRY_AFTER = "1"
# Official libraries read it, and send nothing twice that repeating cannot mend.
NO_RETRY: Mapping[str, str] = MappingProxyType({"x-should-retry": "false"})
# The message for a request during a drain.
ENDING = "The gateway is shutting down. Try again."


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of the table: an HTTP status, and the error's name in each of the three shapes."""

    http_status: int
    chat_type: str
    code: str  # of the chat shape; the other two have none
    messages_type: str
    gemini_status: str
    is_final: bool = False  # repeating the request cannot mend it


class GatewayError(Exception):
    """An error for the client, as it stands.

    `param` names the offending field, shown by the images shape only; `upstream_param` is what an
    upstream calls it, shown by the chat shape (contract §7). `details` is a JSON value,
    shown by the messages and gemini shapes. `http_status` replaces the kind's where an endpoint
    has its own (contract §7: `model_not_found`). A final kind has `NO_RETRY`; a 503 has a
    `Retry-After` whether the raiser gives one or not, but one with `NO_RETRY`.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        param: str | None = None,
        upstream_param: str | None = None,
        details: Any = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.param = param
        self.upstream_param = upstream_param
        self.details = details
        self.http_status = kind.http_status if http_status is None else http_status
        if kind.is_final:
            headers = {**headers, **NO_RETRY}
        elif self.http_status == 503 and not {"Retry-After", *NO_RETRY} & headers.keys():
            headers = {**headers, "Retry-After": RETRY_AFTER}
        self.headers = headers

    def __repr__(self) -> str:
        return f"<GatewayError {self.http_status} {self.kind.code}: {self.message}>"


_BAD = "invalid_request_error"  # the type that the chat and the messages protocol share
_final = partial(ErrorKind, is_final=True)

MODEL_NOT_FOUND = _final(400, _BAD, "model_not_found", "not_found_error", "NOT_FOUND")
MODEL_NOT_ALLOWED = _final(400, _BAD, "model_not_allowed", _BAD, "INVALID_ARGUMENT")
INVALID_REQUEST = _final(400, _BAD, "invalid_request", _BAD, "INVALID_ARGUMENT")
TOOL_NOT_SUPPORTED = _final(400, _BAD, "tool_not_supported", _BAD, "INVALID_ARGUMENT")
INVALID_IDEMPOTENCY_KEY = _final(400, _BAD, "invalid_idempotency_key", _BAD, "INVALID_ARGUMENT")
# The specification gives the 409s no chat type; they take the one of the other refused requests.
IDEMPOTENCY_KEY_REUSE = _final(409, _BAD, "idempotency_key_reuse", _BAD, "ALREADY_EXISTS")
IDEMPOTENCY_IN_FLIGHT = ErrorKind(409, _BAD, "idempotency_in_flight", _BAD, "ALREADY_EXISTS")
IDEMPOTENCY_NOT_CACHED = _final(
    409, _BAD, "idempotency_response_not_cached", _BAD, "ALREADY_EXISTS"
)
INVALID_API_KEY = _final(
    401, "authentication_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"
)
QUOTA_EXCEEDED = _final(
    402, "insufficient_quota", "quota_exceeded", "billing_error", "RESOURCE_EXHAUSTED"
)
PERMISSION_DENIED = _final(
    403, "permission_error", "permission_denied", "permission_error", "PERMISSION_DENIED"
)
RATE_LIMIT_EXCEEDED = ErrorKind(
    429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"
)
INTERNAL_ERROR = ErrorKind(500, "server_error", "internal_error", "api_error", "INTERNAL")
UPSTREAM_UNREACHABLE = ErrorKind(
    502, "api_error", "upstream_unreachable", "api_error", "UNAVAILABLE"
)
NO_CHANNEL_AVAILABLE = ErrorKind(
    503, "server_error", "no_channel_available", "overloaded_error", "UNAVAILABLE"
)
UPSTREAM_TIMEOUT = ErrorKind(504, "api_error", "upstream_timeout", "api_error", "DEADLINE_EXCEEDED")

# Codes that the specification and the contract name outside the table.
NOT_FOUND = _final(404, _BAD, "not_found", "not_found_error", "NOT_FOUND")
LOG_NOT_FOUND = _final(404, _BAD, "log_not_found", "not_found_error", "NOT_FOUND")
METHOD_NOT_ALLOWED = _final(405, _BAD, "method_not_allowed", _BAD, "UNIMPLEMENTED")
UPGRADE_REQUIRED = _final(426, _BAD, "upgrade_required", _BAD, "UNIMPLEMENTED")
REQUEST_TOO_LARGE = _final(413, _BAD, "request_too_large", "request_too_large", "INVALID_ARGUMENT")
LOGS_RATE_LIMITED = ErrorKind(
    429, "rate_limit_error", "logs_rate_limited", "rate_limit_error", "RESOURCE_EXHAUSTED"
)
# Of the socket's protocol; its clients repeat the call with the whole input at once.
PREVIOUS_RESPONSE_NOT_FOUND = _final(
    400, _BAD, "previous_response_not_found", _BAD, "INVALID_ARGUMENT"
)
MODEL_NO_VISION = _final(400, _BAD, "model_no_vision", _BAD, "INVALID_ARGUMENT")

ERROR_TABLE: tuple[ErrorKind, ...] = (
    MODEL_NOT_FOUND,
    MODEL_NOT_ALLOWED,
    INVALID_REQUEST,
    TOOL_NOT_SUPPORTED,
    INVALID_IDEMPOTENCY_KEY,
    IDEMPOTENCY_KEY_REUSE,
    IDEMPOTENCY_IN_FLIGHT,
    IDEMPOTENCY_NOT_CACHED,
    INVALID_API_KEY,
    QUOTA_EXCEEDED,
    PERMISSION_DENIED,
    RATE_LIMIT_EXCEEDED,
    INTERNAL_ERROR,
    UPSTREAM_UNREACHABLE,
    NO_CHANNEL_AVAILABLE,
    UPSTREAM_TIMEOUT,
    NOT_FOUND,
    LOG_NOT_FOUND,
    METHOD_NOT_ALLOWED,
    UPGRADE_REQUIRED,
    REQUEST_TOO_LARGE,
    LOGS_RATE_LIMITED,
    PREVIOUS_RESPONSE_NOT_FOUND,
    MODEL_NO_VISION,
)

# --- Errors of an upstream's status (spec: Errors, Upstream pass-through) ---

# Chat code and type; a status that is not here is upstream_error / api_error.
_UPSTREAM_CHAT = {
    400: ("invalid_request", _BAD),
    422: ("invalid_request", _BAD),
    401: ("invalid_api_key", "authentication_error"),
    403: ("permission_denied", "permission_error"),
    404: ("not_found", _BAD),
    429: ("rate_limit_exceeded", "rate_limit_error"),
}

# Messages type (contract §7, Failure classes); a status that is not here is api_error.
_UPSTREAM_MESSAGES = {
    400: _BAD,
    422: _BAD,
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

# Gemini status; another 5xx is UNAVAILABLE, anything else UNKNOWN.
_UPSTREAM_GEMINI = {
    400: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    402: "RESOURCE_EXHAUSTED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}


def as_http_status(error: GatewayError) -> GatewayError:
    """The same where an unknown model is 404 and one that is not allowed 403 (spec: Errors 6)."""
    status = {MODEL_NOT_FOUND: 404, MODEL_NOT_ALLOWED: 403}.get(error.kind)
    if status is None:
        return error
    return GatewayError(error.kind, error.message, param=error.param, http_status=status)


def unserved(what: str, serving: Sequence[str] = (), *, param: str | None = None) -> GatewayError:
    """Return the 503 where no channel of the configuration serves `what`: a retry is useless.

    It names the protocols that serve the model (contract §7: 503 and draining).
    """
    others = f" It is served on: {', '.join(serving)}." if serving else ""
    message = f"No channel serves {what}.{others}"
    return GatewayError(NO_CHANNEL_AVAILABLE, message, param=param, headers=NO_RETRY)


def invalid_request(invalid: InvalidRequest) -> GatewayError:
    """Return the client's error for a request that a protocol's reader refused."""
    return GatewayError(
        INVALID_REQUEST, invalid.message, param=invalid.param, details=invalid.details
    )


def from_upstream(
    status: int,
    message: str,
    *,
    details: Any = None,
    param: str | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> GatewayError:
    """Make the error of an upstream's non-2xx answer: its status, our names for it.

    `message` is unwrapped and redacted already, `details` and `param` are what the upstream reports
    beside it, redacted too; `headers` is what is passed on (`Retry-After`). The error is never
    final: another key or channel may serve the request next time. A status that is no error (1xx,
    3xx: we follow no redirects) or no HTTP status becomes 502.
    """
    assert not 200 <= status < 300, status
    if not 400 <= status < 600:
        status = 502
    code, chat_type = _UPSTREAM_CHAT.get(status, ("upstream_error", "api_error"))
    messages_type = _UPSTREAM_MESSAGES.get(status, "api_error")
    gemini_status = _UPSTREAM_GEMINI.get(status, "UNAVAILABLE" if status >= 500 else "UNKNOWN")
    kind = ErrorKind(status, chat_type, code, messages_type, gemini_status)
    return GatewayError(kind, message, details=details, upstream_param=param, headers=headers)


# Writes an error as the body of the endpoint's protocol (spec: Errors).
#
# Three shapes, and the images endpoint's variant of the first. Knows nothing of HTTP beyond the
# status number that the gemini shape repeats.


def render(shape: ErrorShape, error: GatewayError) -> bytes:
    """Render `error` as a JSON body in UTF-8."""
    return dumps(_body(shape, error, without_keys(_encodable(error.message))))


def dumps(value: Any) -> bytes:
    """Write JSON the way every response of the gateway is written: UTF-8, `/` as it is.

    Strings must be encodable; money must be strings already (a Decimal would become a float).
    """
    text: str = ujson.dumps(
        value, ensure_ascii=False, escape_forward_slashes=False, allow_nan=False
    )
    return text.encode()


def _body(shape: ErrorShape, error: GatewayError, message: str) -> dict[str, Any]:
    kind = error.kind
    if shape is ErrorShape.MESSAGES:
        shown: dict[str, Any] = {"type": kind.messages_type, "message": message}
        if error.details is not None:
            shown["details"] = error.details
        return {"type": "error", "error": shown}
    if shape is ErrorShape.GEMINI:
        shown = {"code": error.http_status, "message": message, "status": kind.gemini_status}
        details = _retry_info(error) if error.details is None else error.details
        if details is not None:
            shown["details"] = details
        return {"error": shown}
    body: dict[str, Any] = {"message": message, "type": kind.chat_type, "code": kind.code}
    if shape is ErrorShape.IMAGES:
        body["param"] = error.param
    elif error.upstream_param is not None:
        body["param"] = error.upstream_param
    return {"error": body}


def _retry_info(error: GatewayError) -> list[dict[str, str]] | None:
    """Return when to come back after a 429, as clients of the gemini shape read it."""
    seconds = error.headers.get("Retry-After", "")
    if error.http_status != 429 or not seconds.isdecimal():
        return None
    return [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"}]


def _encodable(text: str) -> str:
    """Replace lone surrogates, which a client's own JSON may have put into a message."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def too_large(limit_bytes: int) -> GatewayError:
    """The body exceeds the configured bound (contract §5)."""
    limit_mb = limit_bytes / (1024 * 1024)
    return GatewayError(
        REQUEST_TOO_LARGE, f"The request body is larger than the {limit_mb:g} MB accepted here."
    )
