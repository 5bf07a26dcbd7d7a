"""MiniMax's failures of chat: `base_resp` in a response whose status is 200.

Its codes for speech: `channels/media/minimax.py`. Source:
https://platform.minimax.io/docs/api-reference/errorcode, read on 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Raw

from channels.json.lenient import NULL, raw_of

# The HTTP status of a `status_code`; 0 is success, and any other is 502.
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "1002": 429,  # rate limit
        "1004": 401,  # not authorized
        "1008": 402,  # insufficient balance
        "1026": 400,  # the input is sensitive
        "1027": 400,  # the output is
        "1039": 429,  # limit of tokens
        "1042": 400,  # invisible characters
        "2013": 400,  # invalid parameters
        "2049": 401,  # invalid key
        "2056": 429,  # limit of a plan
    }
)


def status_of(code: str | None) -> int:
    """Return the HTTP status of a `status_code`; 200 without one and for 0."""
    return 200 if code in (None, "0") else STATUSES.get(code, 502)


def status_in(value: object) -> int:
    """Return the HTTP status of a decoded response by its `base_resp`."""
    stated = value.get("base_resp") if isinstance(value, Mapping) else None
    return status_of(_code_of(stated))


def error_of(stated: object) -> Raw:
    """Return a decoded `base_resp` as an `error` member; NULL on success."""
    code = _code_of(stated)
    if status_of(code) == 200 or not isinstance(stated, Mapping):
        return NULL
    return raw_of({"code": code, "message": stated.get("status_msg")})


def _code_of(stated: object) -> str | None:
    code = stated.get("status_code") if isinstance(stated, Mapping) else None
    return str(code) if isinstance(code, str | int) and not isinstance(code, bool) else None
