"""Every error of the gateway as data, and the exception that carries one.

The table is that of reference 1.7: the code of an error
in each protocol. `error_bodies.py` renders them; the errors of an upstream's status are in
`upstream_errors.py`, those of exceptions in `gw/api/failures.py`. The raiser writes the message; an
upstream's must be redacted before (`channels/redaction.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from channels.errors import InvalidRequest

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

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
    upstream calls it, shown by the chat shape (reference 1.8). `details` is a JSON value,
    shown by the messages and gemini shapes. `http_status` replaces the kind's where an endpoint
    has its own (reference 1.7). A final kind has `NO_RETRY`; a 503 has a
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
        headers: Mapping[str, str] = NO_HEADERS,
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


BAD_REQUEST_TYPE = "invalid_request_error"  # the type that the chat and the messages protocol share
_final = partial(ErrorKind, is_final=True)

MODEL_NOT_FOUND = _final(400, BAD_REQUEST_TYPE, "model_not_found", "not_found_error", "NOT_FOUND")
MODEL_NOT_ALLOWED = _final(
    400, BAD_REQUEST_TYPE, "model_not_allowed", BAD_REQUEST_TYPE, "INVALID_ARGUMENT"
)
INVALID_REQUEST = _final(
    400, BAD_REQUEST_TYPE, "invalid_request", BAD_REQUEST_TYPE, "INVALID_ARGUMENT"
)
TOOL_NOT_SUPPORTED = _final(
    400, BAD_REQUEST_TYPE, "tool_not_supported", BAD_REQUEST_TYPE, "INVALID_ARGUMENT"
)
INVALID_IDEMPOTENCY_KEY = _final(
    400, BAD_REQUEST_TYPE, "invalid_idempotency_key", BAD_REQUEST_TYPE, "INVALID_ARGUMENT"
)
# The 409s have the chat type of the other refused requests.
IDEMPOTENCY_KEY_REUSE = _final(
    409, BAD_REQUEST_TYPE, "idempotency_key_reuse", BAD_REQUEST_TYPE, "ALREADY_EXISTS"
)
IDEMPOTENCY_IN_FLIGHT = ErrorKind(
    409, BAD_REQUEST_TYPE, "idempotency_in_flight", BAD_REQUEST_TYPE, "ALREADY_EXISTS"
)
IDEMPOTENCY_NOT_CACHED = _final(
    409, BAD_REQUEST_TYPE, "idempotency_response_not_cached", BAD_REQUEST_TYPE, "ALREADY_EXISTS"
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

# Codes of single endpoints and of paths.
NOT_FOUND = _final(404, BAD_REQUEST_TYPE, "not_found", "not_found_error", "NOT_FOUND")
LOG_NOT_FOUND = _final(404, BAD_REQUEST_TYPE, "log_not_found", "not_found_error", "NOT_FOUND")
METHOD_NOT_ALLOWED = _final(
    405, BAD_REQUEST_TYPE, "method_not_allowed", BAD_REQUEST_TYPE, "UNIMPLEMENTED"
)
UPGRADE_REQUIRED = _final(
    426, BAD_REQUEST_TYPE, "upgrade_required", BAD_REQUEST_TYPE, "UNIMPLEMENTED"
)
REQUEST_TOO_LARGE = _final(
    413, BAD_REQUEST_TYPE, "request_too_large", "request_too_large", "INVALID_ARGUMENT"
)
LOGS_RATE_LIMITED = ErrorKind(
    429, "rate_limit_error", "logs_rate_limited", "rate_limit_error", "RESOURCE_EXHAUSTED"
)
# Of the socket's protocol; its clients repeat the call with the whole input at once.
PREVIOUS_RESPONSE_NOT_FOUND = _final(
    400, BAD_REQUEST_TYPE, "previous_response_not_found", BAD_REQUEST_TYPE, "INVALID_ARGUMENT"
)
MODEL_NO_VISION = _final(
    400, BAD_REQUEST_TYPE, "model_no_vision", BAD_REQUEST_TYPE, "INVALID_ARGUMENT"
)

# Each with its cause, for the reference.
ERROR_TABLE: Mapping[ErrorKind, str] = MappingProxyType(
    {
        MODEL_NOT_FOUND: "no model of this name can be called",
        MODEL_NOT_ALLOWED: "the key's list of models lacks this one",
        INVALID_REQUEST: "a parameter, a header or the body is invalid; the message names it",
        TOOL_NOT_SUPPORTED: "no channel of the model runs this built-in tool",
        INVALID_IDEMPOTENCY_KEY: "the key is empty, too long, sent twice, or not printable ASCII",
        IDEMPOTENCY_KEY_REUSE: "the key came with another request before",
        IDEMPOTENCY_IN_FLIGHT: "the request under this key has not ended",
        IDEMPOTENCY_NOT_CACHED: "it succeeded and was billed, but its response was too large",
        INVALID_API_KEY: "the key is missing or not valid, or its account not active",
        QUOTA_EXCEEDED: "the balance, the key's cap or a budget does not cover the request",
        PERMISSION_DENIED: "the key, or the signature of the link, does not permit this",
        RATE_LIMIT_EXCEEDED: "the account is at a limit, which the message names",
        INTERNAL_ERROR: "a fault of the gateway",
        UPSTREAM_UNREACHABLE: "no connection to an upstream, or one that was lost",
        NO_CHANNEL_AVAILABLE: "no channel for the request, or the gateway is busy or stopping",
        UPSTREAM_TIMEOUT: "the upstream took longer than the endpoint's time",
        NOT_FOUND: "there is nothing of this name for this key",
        LOG_NOT_FOUND: "there is no call of this id that the key may see",
        METHOD_NOT_ALLOWED: "the endpoint has other methods",
        UPGRADE_REQUIRED: "there is no WebSocket here, or no hand-shake where there is one",
        REQUEST_TOO_LARGE: "the body is larger than the endpoint takes",
        LOGS_RATE_LIMITED: "the key has read its call logs as often as it may within a minute",
        PREVIOUS_RESPONSE_NOT_FOUND: "the response to be continued is not kept by this WebSocket",
        MODEL_NO_VISION: "the agent's model reads no images",
    }
)


def unserved(what: str, serving: Sequence[str] = (), *, param: str | None = None) -> GatewayError:
    """Return the 503 where no channel of the configuration serves `what`: a retry is useless.

    It names the protocols that serve the model (reference 1.6).
    """
    others = f" It is served on: {', '.join(serving)}." if serving else ""
    message = f"No channel serves {what}.{others}"
    return GatewayError(NO_CHANNEL_AVAILABLE, message, param=param, headers=NO_RETRY)


def unkept(demand: str) -> GatewayError:
    """Return the 503 where no channel promises what is demanded for data: a retry is useless."""
    message = f"No channel of this model keeps what is demanded for data: {demand}."
    return GatewayError(NO_CHANNEL_AVAILABLE, message, headers=NO_RETRY)


def invalid_request(invalid: InvalidRequest) -> GatewayError:
    """Return the client's error for a request that a protocol's reader refused."""
    return GatewayError(
        INVALID_REQUEST, invalid.message, param=invalid.param, details=invalid.details
    )


def too_large(limit_bytes: int) -> GatewayError:
    """The body exceeds the configured bound (reference 1.5)."""
    limit_mb = limit_bytes / (1024 * 1024)
    return GatewayError(
        REQUEST_TOO_LARGE, f"The request body is larger than the {limit_mb:g} MB accepted here."
    )
