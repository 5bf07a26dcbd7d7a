"""Rules and scrape configurations under the real promtool: they load, and each alert does its work.

The cases stand in `ops/prometheus/tests`, in promtool's own form, for whoever changes a rule.
"""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from gw.api.admin.server import ROUTE as ADMIN_API
from gw.app import routes
from gw.console.pages import ROUTE as CONSOLE
from metrics.prometheus import Metrics
from tests.support.monitoring import ALERTS, PROMETHEUS, RECORDED, RULE_FILES, Query
from tests.support.packaged import ALERTMANAGER as AMTOOL
from tests.support.packaged import PROMETHEUS as PROGRAMS
from tests.support.packaged import programs
from tests.support.rows import each

pytestmark = pytest.mark.long

CASE_FILES = sorted((PROMETHEUS / "tests").glob("*.yml"))
ALERTMANAGER = PROMETHEUS / "alertmanager.yml"
CONFIGURATIONS = sorted(set(PROMETHEUS.glob("*.yml")) - {*RULE_FILES, ALERTMANAGER})


def promtool(*arguments: str | Path) -> str:
    """What it prints; fails when it finds a fault."""
    return printed_by(programs(PROGRAMS)["promtool"], *arguments)


def printed_by(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
    """Evaluated half as often as a server does, which most of the time goes into."""
    assert "SUCCESS" in promtool("test", "rules", path)


def test_names_of_metrics_are_what_prometheus_asks_for() -> None:
    registry = CollectorRegistry()
    page = Metrics(registry).render("text/plain")[0]
    done = subprocess.run(
        [programs(PROGRAMS)["promtool"], "check", "metrics"],
        input=page,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_every_route_that_fails_pages_by_its_name(tmp_path: Path) -> None:
    """That each is counted when it breaks is proved where its handler is (`tests/unit`)."""
    served = sorted({endpoint.route for endpoint in routes()} | {CONSOLE, ADMIN_API})
    series = [
        {"series": f'{name}{{instance="a",route="{route}"{labels}}}', "values": "0+1x80"}
        for route in served
        for name, labels in (
            ("gw_http_failures_total", ""),
            ("gw_http_responses_total", ',status="500"'),
        )
    ]
    firing = {
        "expr": 'count by (route) (ALERTS{alertname="RouteFailing",alertstate="firing"})',
        "eval_time": "15m",
        "exp_samples": [{"labels": f'{{route="{route}"}}', "value": 1} for route in served],
    }
    case = {
        "rule_files": [str(path) for path in RULE_FILES],
        "evaluation_interval": "15s",
        "tests": [
            {"interval": "15s", "input_series": series, "promql_expr_test": [firing]},
        ],
    }
    path = tmp_path / "routes.yml"
    path.write_text(yaml.safe_dump(case), encoding="utf-8")
    assert "SUCCESS" in promtool("test", "rules", path)


def test_alertmanager_takes_its_example_and_pages_for_what_is_critical() -> None:
    amtool = programs(AMTOOL)["amtool"]
    assert "SUCCESS" in printed_by(amtool, "check-config", ALERTMANAGER)
    for severity, receiver in (("critical", "pager"), ("warning", "tickets")):
        test = ("config", "routes", "test", f"--config.file={ALERTMANAGER}")
        assert printed_by(amtool, *test, f"severity={severity}").splitlines()[0] == receiver


SEVERITIES = {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}


def inhibited_by(name: str) -> set[str]:
    """The alerts that the example's Alertmanager keeps back while this one fires."""
    rules = yaml.safe_load(ALERTMANAGER.read_text(encoding="utf-8"))["inhibit_rules"]
    return {
        other
        for rule in rules
        if matches(rule["source_matchers"], name)
        for other in SEVERITIES
        # One that matches both sides is not inhibited by its like.
        if matches(rule["target_matchers"], other) and not matches(rule["source_matchers"], other)
    }


def matches(matchers: list[str], name: str) -> bool:
    labels = {"alertname": name, "severity": SEVERITIES[name]}
    found = [re.fullmatch(r'(\w+)(=~?)"([^"]*)"', matcher) for matcher in matchers]
    assert all(found), matchers
    return all(
        re.fullmatch(one[3] if one[2] == "=~" else re.escape(one[3]), labels[one[1]]) is not None
        for one in found
        if one is not None
    )


@pytest.mark.parametrize(
    ("cause", "others"),
    [
        ("DatabaseDown", "AvailabilityBurningFast LatencyBurningFast LedgerRetrying TasksOverdue"),
        ("DatabaseDown", "CallsShed AvailabilityBurningFast DatabasePoolFull HoldSlow"),
        ("DatabaseRefuses", "DatabaseDown LedgerRetrying AvailabilityBurningFast HoldSlow"),
        ("GatewayDown", "AvailabilityBurningFast LatencyBurningFast CallsShed ProcessMissing"),
        ("AllChannelsOpen", "NoChannelAvailable AvailabilityBurningFast ChannelOpen CallsFailing"),
        ("NoChannelAvailable", "AvailabilityBurningFast LatencyBurningFast"),
        ("CallsShed", "AvailabilityBurningFast LatencyBurningFast LoopLagging MailboxBacklog"),
        ("RouteFailing", "AvailabilityBurningFast ModelDown LatencyBurningFast"),
        ("DatabaseDown", "RouteFailing ModelDown"),
        ("AvailabilityBurningFast", "LatencyBurningFast AttemptsFailing CallsFailing"),
    ],
)
def test_one_outage_is_one_page(cause: str, others: str) -> None:
    firing = {cause, *others.split()}
    assert firing - set().union(*map(inhibited_by, firing)) == {cause}


def test_no_alert_is_kept_back_in_a_circle_and_money_never() -> None:
    money = {"LedgerOff", "HoldOverdue", "LeaseOverdue"}
    for name in SEVERITIES:
        kept_back = inhibited_by(name)
        assert not kept_back & money
        assert not any(name in inhibited_by(other) for other in kept_back)
    # Every name that a rule has is one of an alert.
    text = ALERTMANAGER.read_text(encoding="utf-8")
    named = re.findall(r'alertname=~?"([^"]*)"', text)
    assert {name for names in named for name in names.split("|")} <= set(SEVERITIES)


def raw_names(expression: str) -> set[str]:
    """The metrics that an expression reads, through recorded ones too."""
    names: set[str] = set()
    for name in Query("", expression).names():
        sources = [rule["expr"] for rule in RECORDED if rule["record"] == name]
        names |= set().union(*map(raw_names, sources)) if sources else {name}
    return names


@cache
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


@each("alert", ALERTS)
def test_alert_has_cases_of_both_kinds(alert: dict[str, Any]) -> None:
    found = [(fires, given) for name, fires, given in cases() if name == alert["alert"]]
    assert {fires for fires, _ in found} == {True, False}
    # One that is silent because there is nothing to see would prove nothing.
    read = raw_names(alert["expr"])
    assert all(given & read for fires, given in found if not fires)
