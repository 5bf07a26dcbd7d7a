"""What is wrong now: true of what is, and in step with the alerts of Prometheus."""

import dataclasses
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Any

from gw.conditions import (
    CONDITIONS,
    ChannelFacts,
    DatabaseFacts,
    FoundCondition,
    conditions_of,
)
from metrics.prometheus import Metrics
from tests.support.monitoring import ALERTS
from tests.support.rows import cases, each

NOW = datetime(2027, 1, 31, tzinfo=UTC)
DAY = timedelta(days=1)
GOOD = ChannelFacts(
    id="one",
    state="closed",
    in_use=0,
    slots=10,
    keys=2,
    aside=0,
    hour_attempts=100,
    hour_failures=10,
)
FINE = DatabaseFacts(NOW, None, None, 600, 30, 1)
# What is compared in an expression of an alert: a number, or the product of some.
COMPARED = re.compile(r"[<>]=?\s*(\d[\d.]*(?:\s*\*\s*\d[\d.]*)*)")
# Of these the alert compares a rate, and the condition what a process says of itself.
JUDGED_OTHERWISE = {"calls_shed"}


def named(found: Iterable[FoundCondition]) -> list[str]:
    """The names, each of which stands beside a whole sentence."""
    rows = list(found)
    assert all(row.message.endswith(".") and "{" not in row.message for row in rows)
    return [row.name for row in rows]


@each("name", CONDITIONS)
def test_condition_has_severity_and_thresholds_of_its_alert(name: str) -> None:
    (alert,) = (one for one in ALERTS if one["labels"]["runbook"] == name)
    row = CONDITIONS[name]
    assert row.severity == alert["labels"]["severity"]
    compared = {
        prod(float(factor) for factor in text.split("*"))
        for text in COMPARED.findall(alert["expr"])
    }
    if name not in JUDGED_OTHERWISE:
        assert set(row.thresholds) == compared - {0}


@cases(
    "first, second, expected",
    ({}, {}, []),
    ({"state": "withdrawn"}, {}, []),
    ({"state": "open"}, {}, ["channel_open"]),
    ({"state": "open"}, {"state": "withdrawn"}, ["no_channel_available", "channel_open"]),
    ({"state": "open"}, {"state": "half_open"}, ["all_channels_open", *["channel_open"] * 2]),
    ({"aside": 1}, {"in_use": 9}, ["channel_key_refused"]),
    ({"in_use": 10}, {}, ["channel_full"]),
    ({"hour_failures": 11}, {}, ["attempts_failing"]),
    ({"hour_attempts": 20, "hour_failures": 20}, {}, []),
)
def test_channels_that_need_a_look(
    first: dict[str, Any], second: dict[str, Any], expected: list[str]
) -> None:
    channels = [dataclasses.replace(GOOD, **changes) for changes in (first, second)]
    assert named(conditions_of(FINE, channels, [])) == expected


def test_what_the_database_knows_that_needs_a_look() -> None:
    assert named(conditions_of(FINE, [], [])) == []
    proved = dataclasses.replace(FINE, proved_at=NOW - DAY, faults=0)
    assert named(conditions_of(proved, [], [])) == []
    bad = DatabaseFacts(NOW, NOW - 2 * DAY, 1, 601, 31, 1)
    expected = ["ledger_off", "ledger_unproved", "hold_overdue", "tasks_overdue"]
    assert named(conditions_of(bad, [], [])) == expected


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
    metrics.quarantined(1)
    metrics.budgets.overshot(1)
    metrics.budgets.refused_for_nothing()
    found = metrics.conditions(now)
    assert len(found) == 8
    assert named(conditions_of(FINE, [], ["of_a_newer_one", *found])) == found
