"""Cursors of lists by age: the last row's instant and id. Permissions are checked for each page."""

from __future__ import annotations

from datetime import datetime

from gw.instants import of_microseconds, to_microseconds


def write_cursor(at: datetime, row_id: str | int) -> str:
    """Return the cursor of the next page."""
    return f"{to_microseconds(at)}.{row_id}"


def read_cursor(text: str | None) -> tuple[datetime, str] | None:
    """Return the position of a cursor; None for the beginning, and for an invalid one."""
    at, dot, row_id = (text or "").partition(".")
    if not dot or not (at.isascii() and at.isdigit() and len(at) <= 17):
        return None
    try:
        return of_microseconds(int(at)), row_id
    except OverflowError:
        return None
