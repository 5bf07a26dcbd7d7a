"""Rules and scrape configurations under the real promtool: they load, and each alert does its work.

The cases stand in `ops/prometheus/tests`, in promtool's own form, for whoever changes a rule.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.monitoring import ALERTS, PROMETHEUS, RECORDED, RULE_FILES, Query
from tests.support.prometheus_programs import programs

CASE_FILES = sorted((PROMETHEUS / "tests").glob("*.yml"))
CONFIGURATIONS = sorted(set(PROMETHEUS.glob("*.yml")) - set(RULE_FILES))


def promtool(*arguments: str | Path) -> str:
    """What it says; fails when it finds a fault."""
    done = subprocess.run(
        [programs()["promtool"], *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_configuration_loads_with_every_rule(path: Path) -> None:
    assert promtool("check", "config", path).count("SUCCESS") == 2 + len(RULE_FILES)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert config["rule_files"] == [one.name for one in RULE_FILES]
    # Rules, dashboards and runbooks go by this name.
    assert [job["job_name"] for job in config["scrape_configs"]] == ["gw"]


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_alerts_fire_and_stay_silent(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", path)


def raw_names(expression: str) -> set[str]:
    """The metrics that an expression reads, through recorded ones too."""
    names: set[str] = set()
    for name in Query("", expression).names():
        sources = [rule["expr"] for rule in RECORDED if rule["record"] == name]
        names |= set().union(*map(raw_names, sources)) if sources else {name}
    return names


def cases() -> list[tuple[str, bool, set[str]]]:
    """Each check of each case: its alert, whether it fires, the metrics that the case has."""
    groups = [
        group
        for path in CASE_FILES
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
    ]
    return [
        (check["alertname"], bool(check["exp_alerts"]), given_names(group))
        for group in groups
        for check in group["alert_rule_test"]
    ]


def given_names(group: dict[str, Any]) -> set[str]:
    """The metrics that a case has."""
    return {one["series"].partition("{")[0] for one in group["input_series"]}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_has_cases_of_both_kinds(alert: dict[str, Any]) -> None:
    found = [(fires, given) for name, fires, given in cases() if name == alert["alert"]]
    assert {fires for fires, _ in found} == {True, False}
    # One that is silent because there is nothing to see would prove nothing.
    read = raw_names(alert["expr"])
    assert all(given & read for fires, given in found if not fires)
