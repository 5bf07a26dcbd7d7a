"""The form of every response: `{code, message, data}`, with a status that is 200 for errors too."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from channels.dialects.error_body import message_in
from channels.media.model import MediaResponse
from channels.media.outcomes import is_ok, poll_trouble, refusal, unusable
from channels.media.replies import (
    Failed,
    NotFound,
    RateLimited,
    Refused,
    Trouble,
    Unknown,
)
from channels.media.values import json_of, member, word

GOOD = "succeed"
# What a code means as an HTTP status, in lower case; any other is 400.
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "request.limit": 429,
        "concurrency.limit": 429,
        "service.error": 502,
        "failed.timeout": 502,
    }
)


def opened(response: MediaResponse) -> dict[str, Any] | Refused | Failed | Unknown:
    """The data of the response to a submit, or what is reported in its place."""
    if not is_ok(response):
        return refusal(response)
    value = json_of(response)
    code = word(member(value, "code")).lower()
    data = member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if code in ("", GOOD):
        return unusable("no data")
    return reported(code, value)


def reported(code: str, value: Any) -> Refused | Failed:
    """The error that an envelope reports."""
    status, message = STATUSES.get(code, 400), message_in(value)
    if status < 500:
        return Refused(status=status, message=message)
    return Failed(status=status, message=message)


def opened_poll(response: MediaResponse) -> dict[str, Any] | RateLimited | NotFound | Trouble:
    """The data of the response to a poll, or what is reported in its place."""
    if not is_ok(response):
        return poll_trouble(response)
    value = json_of(response)
    code = word(member(value, "code")).lower()
    data = member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if STATUSES.get(code) == 429:
        return RateLimited()
    return Trouble(reason=f"code {code}" if code else "no envelope", status=response.status)
