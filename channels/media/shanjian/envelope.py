"""The envelope of every response: `{code, message, data}`; its status is 200 for errors too."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from channels.dialects.error_body import message_in
from channels.media import model, outcomes, replies, values

GOOD = "succeed"
# The HTTP status of a code in lower case; any other is 400.
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "request.limit": 429,
        "concurrency.limit": 429,
        "service.error": 502,
        "failed.timeout": 502,
    }
)


def opened(
    response: model.MediaResponse,
) -> dict[str, object] | replies.Refused | replies.Failed | replies.Unknown:
    """Return the data of a submit's response, or its failure."""
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    value = values.json_of(response)
    code = values.word(values.member(value, "code")).lower()
    data = values.member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if code in ("", GOOD):
        return outcomes.unusable("no data")
    return reported(code, value)


def reported(code: str, value: object) -> replies.Refused | replies.Failed:
    """Return the error of an envelope."""
    status, message = STATUSES.get(code, 400), message_in(value)
    if status < 500:
        return replies.Refused(status=status, message=message)
    return replies.Failed(status=status, message=message)


def opened_poll(
    response: model.MediaResponse,
) -> (
    dict[str, object] | replies.RateLimited | replies.NotFound | replies.Trouble | replies.Unusable
):
    """Return the data of a poll's response, or its failure."""
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = values.json_of(response)
    code = values.word(values.member(value, "code")).lower()
    data = values.member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if STATUSES.get(code) == 429:
        return replies.RateLimited()
    return replies.Trouble(reason=f"code {code}" if code else "no envelope", status=response.status)
