"""Alerts, dashboard and runbooks against the table of metrics: nothing names what is not there."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from metrics.fleet import FleetMetrics
from metrics.prometheus import CHANNEL_STATES
from metrics.series import SERIES

OPS = Path(__file__).resolve().parents[3] / "ops"
RUNBOOKS = OPS / "runbooks"

# What Prometheus adds to every series, and what a histogram adds to its buckets.
SCRAPE_LABELS = {"instance", "job"}
LABELS = {
    exposed: {*series.labels, *SCRAPE_LABELS, *(["le"] if exposed.endswith("_bucket") else [])}
    for series in SERIES
    for exposed in series.exposed()
}
LABELS["up"] = SCRAPE_LABELS  # Prometheus's own
VALUES = {
    "state": set(CHANNEL_STATES),
    "status": {"success", "error", "interrupted", "rejected"},
    "result": {"hit", "miss"},
}


def process_metrics() -> set[str]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return {sample.name for metric in registry.collect() for sample in metric.samples}


# Of the parent of several processes, which is scraped for all of them.
FLEET = {
    line.split(" ")[0]
    for line in FleetMetrics().render().splitlines()
    if line.startswith(("gw_process", "gw_parent_log"))
}
LABELS.update(dict.fromkeys(process_metrics() | FLEET, SCRAPE_LABELS))

NAME = re.compile(r"\b(?:gw|process)_[a-z_]+\b|\bup\b")
SELECTOR = re.compile(r"\b([a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r"([a-z_]+)(=~|!~|!=|=)\"([^\"]*)\"")
GROUPING = re.compile(r"\b(?:by|without) \(([^)]*)\)")


def load_alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OPS / "prometheus" / "rules.yml").read_text(encoding="utf-8"))
    return [rule for group in groups["groups"] for rule in group["rules"]]


def load_panels() -> list[dict[str, Any]]:
    text = (OPS / "grafana" / "gateway.json").read_text(encoding="utf-8")
    return list(json.loads(text)["panels"])


ALERTS = load_alerts()
PANELS = load_panels()


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression with what it belongs to."""
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for panel in PANELS:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize(("owner", "expression"), EXPRESSIONS)
def test_expression_uses_metrics_and_labels_that_exist(owner: str, expression: str) -> None:
    bare = re.sub(r"\"[^\"]*\"", '""', expression)
    used = set(NAME.findall(bare))
    assert used, "an expression without a metric of ours"
    assert used <= set(LABELS)
    for name, matchers in SELECTOR.findall(expression):
        found = MATCHER.findall(matchers)
        assert ",".join(f'{label}{how}"{value}"' for label, how, value in found) == matchers
        for label, how, value in found:
            assert label in LABELS[name]
            # `status` of a call is a word, of a response it is a number.
            if how in ("=", "!=") and label in VALUES and name != "gw_http_responses_total":
                assert value in VALUES[label]
    known = set().union(*(LABELS[name] for name in used))
    for group in GROUPING.findall(expression):
        assert {label.strip() for label in group.split(",")} <= known


@pytest.mark.parametrize(("owner", "expression"), EXPRESSIONS)
def test_expression_treats_counters_and_histograms_as_such(owner: str, expression: str) -> None:
    assert expression.count("(") == expression.count(")")
    for series in SERIES:
        name = f"{series.name}_bucket" if series.kind == "histogram" else series.name
        for match in re.finditer(rf"\b{name}\b(?:\{{[^}}]*\}})?(\[)?", expression):
            if series.kind == "gauge":
                assert match[1] is None, "a gauge has no rate"
            elif "unless" not in expression:  # that asks for new series, not for a rate
                assert match[1] is not None, "a counter alone says nothing"
    if "_bucket" in expression:
        assert expression.lstrip().startswith("histogram_quantile(")
        assert re.search(r"by \(le\b", expression)


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel.get("targets", []))
    missing = [
        series.name
        for series in SERIES
        if not any(re.search(rf"\b{name}\b", shown) for name in series.exposed())
    ]
    assert missing == []


def test_panels_are_laid_out_without_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    titles = [panel["title"] for panel in PANELS]
    for one, other in itertools.combinations([panel["gridPos"] for panel in PANELS], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other, titles)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


@pytest.mark.parametrize(
    "panel",
    [panel for panel in PANELS if panel["type"] != "row"],
    ids=lambda panel: panel["title"],
)
def test_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    assert all(target["legendFormat"] for target in panel["targets"])


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_has_a_runbook_of_its_own(alert: dict[str, Any]) -> None:
    file = re.sub(r"(?<!^)(?=[A-Z])", "_", alert["alert"]).lower() + ".md"
    assert alert["annotations"]["runbook_url"] == f"ops/runbooks/{file}"
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert alert["annotations"]["summary"]
    text = (RUNBOOKS / file).read_text(encoding="utf-8")
    assert text.startswith(f"# {alert['alert']}\n\n")
    assert "\n## Look at\n" in text
    assert "\n## Do\n" in text
    assert len(text.splitlines()) <= 40


def test_every_runbook_has_an_alert() -> None:
    wanted = {Path(alert["annotations"]["runbook_url"]).name for alert in ALERTS}
    assert {path.name for path in RUNBOOKS.glob("*.md")} == wanted
    assert len(wanted) == len(ALERTS)


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda path: path.stem)
def test_runbook_names_metrics_and_neighbours_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"`(gw_[a-z_]+)`", text):
        assert name in {series.name for series in SERIES} | FLEET
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (RUNBOOKS / target).is_file()
