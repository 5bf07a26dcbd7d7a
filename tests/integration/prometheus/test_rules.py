"""Rules and scrape configurations under the real promtool: they load, and each alert does its work.

The cases stand in `ops/prometheus/tests`, in promtool's own form, for whoever changes a rule.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
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
from tests.support.boards import tile
from tests.support.monitoring import (
    ALERTS,
    PROMETHEUS,
    RECORDED,
    RULE_FILES,
    TILES,
    Query,
    as_run,
    runbook_queries,
)
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


@dataclass(frozen=True)
class Tile:
    """What a tile shows of gauges that are well, and of others of which one is not.

    `well` and `ill` are series with their values, after fifty hours.
    """

    board: str
    title: str
    query: int
    well: Mapping[str, float]
    ill: Mapping[str, float]
    shown: tuple[float, float]


def of_processes(name: str, *values: float) -> dict[str, float]:
    """A gauge of as many processes of two gateways."""
    return {
        f'{name}{{instance="{"ab"[index % 2]}",process="{index}"}}': value
        for index, value in enumerate(values)
    }


CALLS = {"gw:calls:rate5m": 10, "gw_database_up": 1}
OBJECTIVES = {"gw:availability_objective:ratio": 0.999, "gw:latency_objective:ratio": 0.95}
AVAILABILITY, LATENCY = (f'gw:{of}_burn:ratio{{window="3d"}}' for of in ("availability", "latency"))
RUNNING, CONFIGURED = "gw_processes_running", "gw_processes_configured"
FOUR = of_processes(CONFIGURED, 4, 4)
HOURS = 50
PROVED = "gw_ledger_proof_timestamp_seconds"
TILES_SEEN = [
    Tile("overview", "Failing", 0, {**CALLS, "gw:calls_failed:rate5m": 0},
         {**CALLS, "gw:calls_failed:rate5m": 5}, (0, 0.5)),
    Tile("overview", "Without a database", 0, of_processes("gw_database_up", 1, 1, 1),
         of_processes("gw_database_up", 1, 0, 1), (0, 1)),
    Tile("overview", "Availability, 3 days", 0, {**OBJECTIVES, AVAILABILITY: 0.5},
         {**OBJECTIVES, AVAILABILITY: 5}, (0.9995, 0.995)),
    Tile("overview", "In time, 3 days", 0, {**OBJECTIVES, LATENCY: 0.5},
         {**OBJECTIVES, LATENCY: 5}, (0.975, 1 - (1 - 0.95) * 5)),
    Tile("money", "Ledger proved", 0, of_processes(PROVED, 3600 * (HOURS - 1), 0),
         of_processes(PROVED, 0, 0), (3600, -1)),
    Tile("money", "Ledger proved", 0, of_processes(PROVED, 3600 * (HOURS - 1), 0),
         of_processes(PROVED, 3600, 0), (3600, 3600 * (HOURS - 1))),
    Tile("money", "Rows that are off", 0, of_processes("gw_ledger_proof_faults", 0, 0),
         of_processes("gw_ledger_proof_faults", 0, 1), (0, 1)),
    Tile("money", "Rows that are off", 1, of_processes("gw_quarantined_messages", 0, 0),
         of_processes("gw_quarantined_messages", 0, 1), (0, 1)),
    Tile("money", "Without a recorder", 0, of_processes("gw_recorder_up", 1, 1, 1),
         of_processes("gw_recorder_up", 1, 0, 1), (0, 1)),
    Tile("money", "Budgets that are off", 0, of_processes("gw_budget_overshoot_usd", 0, 0),
         of_processes("gw_budget_overshoot_usd", 0, 0.01), (0, 0.01)),
    Tile("money", "Budgets that are off", 1, of_processes("gw_budget_phantom_refusals", 0, 0),
         of_processes("gw_budget_phantom_refusals", 0, 1), (0, 1)),
    # Another one runs for a moment where processes take turns.
    Tile("process", "Processes missing", 0, {**FOUR, **of_processes(RUNNING, 4, 5)},
         {**FOUR, **of_processes(RUNNING, 3, 5)}, (0, 1)),
    Tile("knowledge", "Accounts with sources left behind", 0,
         of_processes("gw_stray_source_accounts", 0, 0),
         of_processes("gw_stray_source_accounts", 0, 1), (0, 1)),
]  # fmt: skip


def test_tile_is_green_for_what_is_well_and_not_for_one_that_is_ill(tmp_path: Path) -> None:
    panels = {(board, panel["title"]): panel for board, panel in TILES}
    colored = {
        (board, title, query)
        for (board, title), panel in panels.items()
        if len(panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])) > 1
        for query in range(len(panel["targets"]))
    }
    assert {(one.board, one.title, one.query) for one in TILES_SEEN} == colored
    groups = []
    for one in TILES_SEEN:
        panel = panels[one.board, one.title]
        expression = as_run(panel["targets"][one.query]["expr"])
        for series, value, is_well in (
            (one.well, one.shown[0], True),
            (one.ill, one.shown[1], False),
        ):
            _, color = tile(panel, value)
            assert (color == "green") is is_well, (one.title, value, color)
            expected = [{"labels": "{}", "value": value}]
            groups.append(
                {
                    "interval": "1h",
                    "input_series": [
                        {"series": name, "values": f"{number}x{HOURS}"}
                        for name, number in series.items()
                    ],
                    "promql_expr_test": [
                        {"expr": expression, "eval_time": f"{HOURS}h", "exp_samples": expected}
                    ],
                }
            )
    path = tmp_path / "tiles.yml"
    path.write_text(yaml.safe_dump({"rule_files": [], "tests": groups}), encoding="utf-8")
    assert "SUCCESS" in promtool("test", "rules", path)


def test_expressions_of_runbooks_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"runbook:query:{number}", "expr": query.expression}
        for number, query in enumerate(runbook_queries())
    ]
    assert len(rules) >= 2
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}), encoding="utf-8")
    assert "SUCCESS" in promtool("check", "rules", path)


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
