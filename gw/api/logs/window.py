"""The time window of a request: a period that ends now, or `from` and `to`.

Half-open: it contains rows with `start <= created_at < end`. Days, months and dates are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gw import instants
from gw.api.logs.parameters import Parameters, quoted, refuse

PERIODS = ("today", "7d", "30d", "this_month", "all")
DEFAULT_PERIOD = "30d"
# No row is outside of these, and arithmetic on both sides does not overflow.
EARLIEST, LATEST = instants.EPOCH, datetime(9000, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end`, which is excluded, both in UTC."""

    start: datetime
    end: datetime


def read_window(
    parameters: Parameters, now: datetime, *, default_period: str = DEFAULT_PERIOD
) -> Window:
    """Return the window of a request (reference 6.3). Raises 400.

    `from` and `to` take precedence over `period`, which is then ignored.
    """
    since, until = parameters.text("from"), parameters.text("to")
    if (since is None) != (until is None):
        missing, given = ("to", "from") if until is None else ("from", "to")
        raise refuse(given, f"needs `{missing}`: the two are given together.")
    if since is None or until is None:
        return _of_period(parameters.choice("period", PERIODS) or default_period, now)
    (start, _), (last, end) = _read("from", since), _read("to", until)
    if start > end or start == end != last:
        raise refuse("from", "lies after `to`.")
    return Window(start, end)


def _of_period(period: str, now: datetime) -> Window:
    today = instants.midnight(now.date())
    starts = {
        "today": today,
        "7d": now - 7 * _DAY,
        "30d": now - 30 * _DAY,
        "this_month": today.replace(day=1),
        "all": instants.EPOCH,
    }
    return Window(starts[period], now)


def _read(name: str, text: str) -> tuple[datetime, datetime]:
    """Return the start and end of the time named by a text; equal for an instant."""
    try:
        day = instants.read_date(text)
        instant = instants.read_instant(text) if day is None else instants.midnight(day)
    except instants.NotAnInstant:
        raise refuse(
            name,
            "is a date (2026-11-21) or an RFC 3339 timestamp with its offset"
            f" (2026-11-21T08:30:00Z), not {quoted(text)}.",
        ) from None
    instant = min(max(instant, EARLIEST), LATEST)
    return instant, instant if day is None else instant + _DAY
