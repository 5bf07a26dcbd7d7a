"""MiniMax's way to say that a chat failed: `base_resp` in a response whose status is 200.

What of it counts for speech is the contract's for media (`channels/media/minimax.py`).
Source: https://platform.minimax.io/docs/api-reference/errorcode, read on 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Raw

from channels.json.lenient import NOTHING, raw_of

# What a `status_code` means as an HTTP status; 0 is good, and any other is 502.
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "1002": 429,  # rate limit
        "1004": 401,  # not authorized
        "1008": 402,  # insufficient balance
        "1026": 400,  # the input is sensitive
        "1027": 400,  # the output is
        "1039": 429,  # limit of tokens
        "1042": 400,  # characters that cannot be seen
        "2013": 400,  # invalid parameters
        "2049": 401,  # invalid key
        "2056": 429,  # limit of a plan
    }
)


def status_of(code: str | None) -> int:
    """The HTTP status that a `status_code` means; 200 for none and for 0."""
    return 200 if code in (None, "0") else STATUSES.get(code, 502)


def status_in(value: Any) -> int:
    """The HTTP status that a decoded response means."""
    stated = value.get("base_resp") if isinstance(value, Mapping) else None
    return status_of(_code_of(stated))


def error_of(stated: Any) -> Raw:
    """A decoded `base_resp` as an `error` member; nothing where it is good."""
    code = _code_of(stated)
    if status_of(code) == 200:
        return NOTHING
    return raw_of({"code": code, "message": stated.get("status_msg")})


def _code_of(stated: Any) -> str | None:
    code = stated.get("status_code") if isinstance(stated, Mapping) else None
    return str(code) if isinstance(code, str | int) and not isinstance(code, bool) else None
