"""The error body that the chat, responses and images wires share."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.dialects.base import encode

TYPES: Final = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def error_type(status: int) -> tuple[str, str | None]:
    """The type and code that go with a status."""
    fallback = ("server_error", None) if status >= 500 else ("invalid_request_error", None)
    return TYPES.get(status, fallback)


def error_body(status: int, message: str) -> bytes:
    kind, code = error_type(status)
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})
