"""What the page of the system shows as not in order: true of what is, each with a runbook."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from gw.console.board import ChannelTile
from gw.console.system import channel_conditions, money_conditions, process_conditions
from metrics.prometheus import Metrics
from tests.support.rows import cases

RUNBOOKS = Path(__file__).parents[3] / "ops" / "runbooks"
NOW = datetime(2027, 1, 31, tzinfo=UTC)
DAY = timedelta(days=1)
GOOD = ChannelTile(
    id="one",
    state="closed",
    in_use=0,
    slots=10,
    attempts=0,
    failures=0,
    hour_attempts=100,
    hour_failures=10,
    hour_seconds=1.0,
    key_seconds=[0.0, 0.0],
)


def named(found: Iterable[tuple[str, str]]) -> list[str]:
    """The runbooks, each of which is there beside a sentence."""
    rows = list(found)
    for text, runbook in rows:
        assert text
        assert (RUNBOOKS / f"{runbook}.md").is_file(), runbook
    return [runbook for _, runbook in rows]


@cases(
    "first, second, expected",
    ({}, {}, []),
    ({"state": "withdrawn"}, {}, []),
    ({"state": "open"}, {}, ["channel_open"]),
    ({"state": "open"}, {"state": "withdrawn"}, ["no_channel_available", "channel_open"]),
    ({"state": "open"}, {"state": "half_open"}, ["all_channels_open", *["channel_open"] * 2]),
    ({"key_seconds": [0.0, 9.0]}, {"in_use": 9}, ["channel_key_refused"]),
    ({"in_use": 10}, {}, ["channel_full"]),
    ({"hour_failures": 11}, {}, ["attempts_failing"]),
    ({"hour_attempts": 20, "hour_failures": 20}, {}, []),
)
def test_channels_that_need_a_look(
    first: dict[str, Any], second: dict[str, Any], expected: list[str]
) -> None:
    tiles = [msgspec.structs.replace(GOOD, **changes) for changes in (first, second)]
    assert named(channel_conditions(tiles)) == expected


def test_money_that_needs_a_look() -> None:
    assert named(money_conditions(None, None, 600, NOW)) == []
    assert named(money_conditions(NOW - DAY, 0, 0, NOW)) == []
    found = named(money_conditions(NOW - 2 * DAY, 1, 601, NOW))
    assert found == ["ledger_off", "ledger_unproved", "hold_overdue"]


def test_processes_report_what_their_own_gauges_show() -> None:
    now = NOW.timestamp()
    metrics = Metrics()
    metrics.call_log_kept(True)
    metrics.config.certificate(now + 15 * 86400)
    assert metrics.conditions(now) == []
    metrics.config.refused()  # of a worker, which reads no file
    metrics.config.certificate(now + 86400)
    assert metrics.conditions(now) == ["certificate_expiring_soon"]
    metrics.config.started(now)
    metrics.config.refused()
    metrics.config.certificate(now + 10 * 86400)
    metrics.call_log_kept(False)
    metrics.limits_degraded(True)
    metrics.overloaded(True)
    found = metrics.conditions(now)
    assert len(found) == 5
    assert named(process_conditions(["of_a_newer_one", *found], 31)) == [*found, "tasks_overdue"]
