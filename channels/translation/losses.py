"""What a translation could not say: field names, in the client's own spelling.

The gateway shows them in `X-Protocol-Warning`, or refuses the call for them when the client asked
to be strict (spec: Translation paths). Which fields a target lacks is each encoder's knowledge; how
the client's protocol spells them is below.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from channels.dialects.error_body import code_in, message_in
from channels.translation.model import ClientProtocol, Media, Part, Request, StreamFailed, Thinking

# A client's unknown members are named in a response header: no name may break it or fill it.
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]$@-]")
NAME_CHARACTERS_MAX = 80
NAMES_MAX = 40


class LossReport:
    """Fields dropped or changed by one translation, each once, in the order they were met."""

    __slots__ = ("_fields", "_more")

    def __init__(self) -> None:
        self._fields: dict[str, None] = {}  # a set that keeps its order
        self._more = 0  # fields of which only the number is kept

    def __repr__(self) -> str:
        return f"<LossReport {self.warning() or 'nothing dropped'}>"

    @property
    def dropped(self) -> list[str]:
        """The fields, of a shortened report the first of them."""
        return list(self._fields)

    def shortened(self) -> LossReport:
        """Return a report with no more names than a warning has room for."""
        short = LossReport()
        short._fields = dict.fromkeys(self.dropped[:NAMES_MAX])
        short._more = self._more + len(self._fields) - len(short._fields)
        return short

    def drop(self, field: str) -> None:
        """Note a field as the client spells it, e.g. `response_format` or `tools.web_search`."""
        self._fields[_UNFIT.sub("_", field[:NAME_CHARACTERS_MAX])] = None

    def warning(self) -> str | None:
        """The value of `X-Protocol-Warning`; None when nothing was dropped.

        Printable ASCII. Beyond 40 names the rest is counted only.
        """
        if not self._fields:
            return None
        names = self.dropped[:NAMES_MAX]
        more = self._more + len(self._fields) - len(names)
        return "; ".join([*names, f"{more} more"] if more else names)


# How the client's protocol spells what the canonical model holds: for naming what was dropped.
#
# Each dialect that clients speak has its own words (its `ORIGIN`). Members
# that the model does not hold are named as they came.


def spelled_media(origin: ClientProtocol, media: Media) -> str:
    """The client's word for a medium; one protocol has another for what comes by its address."""
    if media.url is not None and (name := origin.names.get("media.url")) is not None:
        return name
    return spelled(origin, media.kind)


def spelled(origin: ClientProtocol, field: str) -> str:
    """The client's word for a canonical field; the field's own name where they are the same."""
    return origin.names.get(field, field)


# Members of a request that only the client's own protocol knows: told, never silently lost.
#
# Decoders keep them in `extras`, by the client's spelling; an encoder of another protocol carries
# those it can and lists the rest here. A member whose value is what happens anyway (`n` of 1,
# `store` false) loses nothing, and is not listed.


def report_members(request: Request, report: LossReport, *, carried: Collection[str] = ()) -> None:
    """List the members in `request.extras` that are not in `carried`."""
    report_extras(request.origin, "", request.extras, report, carried=carried)


def report_extras(
    origin: ClientProtocol,
    prefix: str,
    extras: Mapping[str, Any],
    report: LossReport,
    *,
    carried: Collection[str] = (),
) -> None:
    """List the extras of a part, a tool or the request; `prefix` goes before each name.

    `prefix` is "" or ends in a dot: `messages.` with `cache_control` is `messages.cache_control`.
    """
    if not extras:
        return
    neutral = origin.neutral
    for name, value in extras.items():
        field = prefix + name
        if value is None or name in carried:
            continue
        if field in neutral and neutral[field] == value:
            continue
        report.drop(field)


def report_part(origin: ClientProtocol, part: Part, report: LossReport) -> None:
    """List a part that cannot be said, or not where it stands; other parts are always said."""
    if isinstance(part, Media):
        report.drop(spelled_media(origin, part))
    elif isinstance(part, Thinking):
        report.drop(spelled(origin, "thinking"))


# The names an error has in each protocol, for one that an upstream reports within its stream.
#
# The words are those an upstream may use in any dialect; the names are the specification's (spec:
# Errors). HTTP errors have a status and are `gw/errors.py`'s part. An upstream out of funds is the
# operator's trouble: the client is told of an upstream error, not of its own balance.


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
    """The failure that an upstream's word, or its number, stands for; `OTHER` for an unknown."""
    return OTHER if code is None else _WORDS.get(code.lower(), OTHER)


# For an upstream that says that it failed, and not why.
UNNAMED = StreamFailed(None, "The upstream reported an error.")


def failure_in(error: Any, names: Iterable[str] = ("code", "type")) -> StreamFailed | None:
    """The failure that an upstream's `error` member states; None where it says nothing.

    `names` are the members that may hold its code, the most trusted first.
    """
    if not error:
        return None
    return StreamFailed(code_in(error, names), message_in(error) or UNNAMED.message)
