"""The names of an error in each protocol, for an error that an upstream reports within its stream.

The keys are codes that an upstream may use in any dialect; the names are the protocols'
(reference 1.7). HTTP errors have a status and are handled by `gw/errors.py`. An upstream without
funds is the operator's problem: the client gets an upstream error, not its own balance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from channels.dialects.error_body import code_in, message_in
from channels.translation.events import StreamFailed


@dataclass(frozen=True, slots=True)
class ErrorNames:
    """One kind of error: chat's code and type, messages' type, gemini's status and number."""

    chat_code: str
    chat_type: str
    messages_type: str
    gemini_status: str
    http_status: int


_BAD = "invalid_request_error"

INVALID = ErrorNames("invalid_request", _BAD, _BAD, "INVALID_ARGUMENT", 400)
UNAUTHENTICATED = ErrorNames(
    "invalid_api_key", "authentication_error", "authentication_error", "UNAUTHENTICATED", 401
)
FORBIDDEN = ErrorNames(
    "permission_denied", "permission_error", "permission_error", "PERMISSION_DENIED", 403
)
NOT_FOUND = ErrorNames("not_found", _BAD, "not_found_error", "NOT_FOUND", 404)
TOO_LARGE = ErrorNames("request_too_large", _BAD, "request_too_large", "INVALID_ARGUMENT", 413)
RATE_LIMITED = ErrorNames(
    "rate_limit_exceeded", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", 429
)
TIMED_OUT = ErrorNames("upstream_timeout", "api_error", "api_error", "DEADLINE_EXCEEDED", 504)
OVERLOADED = ErrorNames("upstream_error", "api_error", "overloaded_error", "UNAVAILABLE", 503)
OTHER = ErrorNames("upstream_error", "api_error", "api_error", "INTERNAL", 500)

_WORDS: dict[str, ErrorNames] = {
    "400": INVALID,
    "422": INVALID,
    "invalid_request": INVALID,
    "invalid_request_error": INVALID,
    "invalid_argument": INVALID,
    "failed_precondition": INVALID,
    "out_of_range": INVALID,
    "context_length_exceeded": INVALID,
    "401": UNAUTHENTICATED,
    "invalid_api_key": UNAUTHENTICATED,
    "authentication_error": UNAUTHENTICATED,
    "unauthenticated": UNAUTHENTICATED,
    "403": FORBIDDEN,
    "permission_denied": FORBIDDEN,
    "permission_error": FORBIDDEN,
    "404": NOT_FOUND,
    "not_found": NOT_FOUND,
    "not_found_error": NOT_FOUND,
    "model_not_found": NOT_FOUND,
    "413": TOO_LARGE,
    "request_too_large": TOO_LARGE,
    "429": RATE_LIMITED,
    "rate_limit_error": RATE_LIMITED,
    "rate_limit_exceeded": RATE_LIMITED,
    "resource_exhausted": RATE_LIMITED,
    "408": TIMED_OUT,
    "504": TIMED_OUT,
    "timeout_error": TIMED_OUT,
    "deadline_exceeded": TIMED_OUT,
    "503": OVERLOADED,
    "529": OVERLOADED,
    "overloaded_error": OVERLOADED,
    "server_overloaded": OVERLOADED,
    "unavailable": OVERLOADED,
}


def failure_named(code: str | None) -> ErrorNames:
    """Return the names for an upstream's code or number; `OTHER` for an unknown one."""
    return OTHER if code is None else _WORDS.get(code.lower(), OTHER)


# For an upstream that reports a failure without a reason.
UNNAMED = StreamFailed(None, "The upstream reported an error.")


def failure_in(error: object, names: Iterable[str] = ("code", "type")) -> StreamFailed | None:
    """Return the failure in an upstream's `error` member; None if it states none.

    `names` are the members that may have its code, the most trusted first.
    """
    if not error:
        return None
    return StreamFailed(code_in(error, names), message_in(error) or UNNAMED.message)
