"""Covers a window with as few sums and rows as possible: whole days, whole hours, then single rows.

Each end of the window is moved to the nearest edge of a day, from there back to the nearest edge
of an hour, and from there to itself. A step outwards is subtracted, so that at either end at most
half a day of hours and half an hour of rows is read. Pure; instants are UTC.

    |  day  |  day  |  day  |      end at d+19:50:  + days up to d+1
                  ▲ end            − hours 20:00…24:00 of d,  − rows 19:50…20:00
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gw.api.logs.window import Window
from gw.instants import EPOCH

DAY_HOURS = 24


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A range of sums of some hours, or of rows (0), to be added (1) or subtracted (-1)."""

    hours: int
    start: datetime
    end: datetime
    sign: int


def cover(window: Window, now: datetime) -> list[WindowPart]:
    """Return the parts of a window, without empty ones.

    No rows exist after `now`, so a step beyond it is free.
    """
    days = [_nearest(edge, DAY_HOURS, now) for edge in (window.start, window.end)]
    pieces = list(_stretch(DAY_HOURS, *days, sign=1))
    for edge, day, sign in ((window.start, days[0], 1), (window.end, days[1], -1)):
        hour = _nearest(edge, 1, now)
        pieces += _stretch(1, hour, day, sign=sign)
        pieces += _stretch(0, edge, hour, sign=sign)
    return pieces


def part_columns(parts: Sequence[WindowPart]) -> dict[str, list[Any]]:
    """Return the parts as the array parameters of a statement."""
    return {
        "hours": [part.hours for part in parts],
        "starts": [part.start for part in parts],
        "ends": [part.end for part in parts],
        "signs": [part.sign for part in parts],
    }


def _stretch(hours: int, start: datetime, end: datetime, *, sign: int) -> Iterator[WindowPart]:
    """Yield the range between two instants, with the opposite sign if it runs backwards."""
    if start < end:
        yield WindowPart(hours, start, end, sign)
    elif end < start:
        yield WindowPart(hours, end, start, -sign)


def _nearest(instant: datetime, hours: int, now: datetime) -> datetime:
    """Return the edge of a bucket with the shortest range to the instant."""
    width = timedelta(hours=hours)
    floor = instant - (instant - EPOCH) % width
    behind, ahead = instant - floor, min(floor + width, max(instant, now)) - instant
    return floor if behind <= ahead else floor + width
