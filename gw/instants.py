"""Instants in texts of clients and operators: RFC 3339, or a date alone; always UTC.

The standard library accepts more than RFC 3339 (week dates, no offset) and less (leap seconds,
more than six decimals), so the form is validated here.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
# An unescaped plus in a query arrives as a space.
_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<time>(?!24)\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,30}))?"
    r"(?:[Zz]|(?P<sign>[+\- ])(?P<hours>\d\d):(?P<minutes>\d\d))",
    re.ASCII,
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class NotAnInstant(ValueError):
    """The text is neither a date nor an RFC 3339 timestamp."""


def read_date(text: str) -> date | None:
    """Return a date of the form `YYYY-MM-DD`, or None. Raises NotAnInstant for 31 June."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise NotAnInstant(text) from error


def midnight(day: date) -> datetime:
    """Return the first instant of a day of UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def read_instant(text: str, *, is_exact: bool = False) -> datetime:
    """Return an RFC 3339 timestamp in UTC, truncated to microseconds. Raises NotAnInstant.

    An exact one has neither a leap second nor a space for a plus.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise NotAnInstant(text)
    clock = found["time"]
    is_leap = clock.endswith(":60")
    if is_exact and (is_leap or found["sign"] == " "):
        raise NotAnInstant(text)
    try:
        local = datetime.fromisoformat(
            f"{found['date']}T{clock[:-2]}{'59' if is_leap else clock[-2:]}"
        )
        fraction = 0 if is_leap else int((found["fraction"] or "0")[:6].ljust(6, "0"))
        local += timedelta(seconds=is_leap, microseconds=fraction)
        return local.replace(tzinfo=_zone(found)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise NotAnInstant(text) from error


def format_instant(instant: datetime, *, timespec: str = "auto") -> str:
    """Return an instant as RFC 3339 in UTC, with microseconds unless they are zero."""
    return instant.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def to_microseconds(instant: datetime) -> int:
    """Return the exact microseconds since 1970."""
    return (instant - EPOCH) // _MICROSECOND


def of_microseconds(microseconds: int) -> datetime:
    """Return the instant of microseconds since 1970. Raises OverflowError outside years 1–9999."""
    return EPOCH + timedelta(microseconds=microseconds)


def of_seconds(unix_seconds: float) -> datetime:
    """Return the instant of seconds since 1970, in UTC."""
    return datetime.fromtimestamp(unix_seconds, UTC)


def _zone(found: re.Match[str]) -> timezone:
    if found["sign"] is None:
        return UTC
    if int(found["minutes"]) > 59 or int(found["hours"]) > 23:
        raise NotAnInstant(found[0])
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"]))
    return timezone(-offset if found["sign"] == "-" else offset)
