"""Which days or hours are searched for a page: as few as are sure to hold it (spec: Call logs)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gw.api.logs.pages import enough

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, HALF = timedelta(hours=1), timedelta(minutes=30)
# Five rows in each of four hours, the newest first.
BUSY = [(NOON - number * HOUR, 5) for number in range(4)]
OLDEST, END = BUSY[-1][0], NOON + HOUR


@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ({}, 2),
        ({"limit": 5}, 1),
        ({"limit": 21}, 4),
        ({"last": NOON + HALF}, 3),
        ({"after_at": NOON}, 3),
        ({"after_at": END}, 2),
        ({"first": NOON - HALF}, 4),
    ],
    ids=["whole hours", "one", "all", "cut at its end", "cursor", "behind it", "its start"],
)
def test_hour_counts_whose_rows_are_all_still_to_be_shown(
    changes: dict[str, Any], hours: int
) -> None:
    params = {"first": OLDEST, "last": END, "after_at": None, "limit": 10, **changes}
    assert enough(BUSY, HOUR, params) == BUSY[:hours]
