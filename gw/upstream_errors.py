"""Errors of an upstream's status, passed through (reference 1.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gw import errors

# Chat code and type; a status that is not here is upstream_error / api_error.
_UPSTREAM_CHAT = {
    400: ("invalid_request", errors.BAD_REQUEST_TYPE),
    422: ("invalid_request", errors.BAD_REQUEST_TYPE),
    401: ("invalid_api_key", "authentication_error"),
    403: ("permission_denied", "permission_error"),
    404: ("not_found", errors.BAD_REQUEST_TYPE),
    429: ("rate_limit_exceeded", "rate_limit_error"),
}

# Messages type (reference 10.2); a status that is not here is api_error.
_UPSTREAM_MESSAGES = {
    400: errors.BAD_REQUEST_TYPE,
    422: errors.BAD_REQUEST_TYPE,
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


def as_http_status(error: errors.GatewayError) -> errors.GatewayError:
    """The same where an unknown model is 404 and one that is not allowed 403 (reference 1.7)."""
    status = {errors.MODEL_NOT_FOUND: 404, errors.MODEL_NOT_ALLOWED: 403}.get(error.kind)
    if status is None:
        return error
    return errors.GatewayError(error.kind, error.message, param=error.param, http_status=status)


def from_upstream(
    status: int,
    message: str,
    *,
    details: Any = None,
    param: str | None = None,
    headers: Mapping[str, str] = errors.NO_HEADERS,
) -> errors.GatewayError:
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
    kind = errors.ErrorKind(status, chat_type, code, messages_type, gemini_status)
    return errors.GatewayError(
        kind, message, details=details, upstream_param=param, headers=headers
    )
