"""Rules, dashboards and runbooks against the table of metrics: nothing names what is not there.

That each query finds something is proved by the real Prometheus
(`tests/acceptance/test_dashboards.py`), that each alert fires by promtool
(`tests/integration/prometheus`).
"""

import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector

from channels.families import CHAT_PROTOCOLS
from gw.errors import ERROR_TABLE
from gw.processes.parent_metrics import FleetMetrics
from gw.runtime.database_pools import DatabasePools
from metrics.metric_families import FIRST_BYTE_SECONDS, METRIC_FAMILIES, MetricFamily
from metrics.prometheus import CHANNEL_STATES, Metrics
from tests.support.monitoring import (
    ALERTS,
    DASHBOARDS,
    OPS,
    PANELS,
    RECORDED,
    TILES,
    Query,
    alert_queries,
    annotation_queries,
    label_values,
    panel_queries,
    recorded_queries,
    runbook_queries,
)
from tests.support.rows import each
from tests.support.runbooks import quoted_in
from tests.tidy.files import ROOT, SOURCES

RUNBOOKS = OPS / "runbooks"
# Where the folder of runbooks is read, if the operator says so; else the file's name.
RUNBOOKS_URL = "{{ with $externalLabels.runbooks }}{{ . }}{{ else }}ops/runbooks{{ end }}"
FAULTS = {"gateway", "upstream", "database", "operator", "load", "any"}
DASHBOARD_NAMES = {"overview", "channels", "money", "process", "tasks", "knowledge"}

# What Prometheus adds to every series, the parent of several processes, and a histogram.
SCRAPE_LABELS = {"instance", "job", "process"}


def exposed_by(family: MetricFamily) -> tuple[str, ...]:
    """The names that an expression may use for it."""
    if family.kind == "histogram":
        return tuple(f"{family.name}_{part}" for part in ("bucket", "sum", "count"))
    return (family.name,)


LABELS = {
    exposed: {*family.labels, *SCRAPE_LABELS, *(["le"] if exposed.endswith("_bucket") else [])}
    for family in METRIC_FAMILIES
    for exposed in exposed_by(family)
}
# Prometheus's own.
LABELS["up"] = SCRAPE_LABELS
LABELS["ALERTS"] = LABELS["ALERTS_FOR_STATE"] = {"alertname", "alertstate", *ALERTS[0]["labels"]}
VALUES = {
    "state": {*CHANNEL_STATES, "in_use", "idle", "limit"},
    "status": {"success", "error", "interrupted", "rejected"},
    "result": {"hit", "miss"},
    "code": {kind.code for kind in ERROR_TABLE} | {"ok"},
    "window": {"5m", "10m", "15m", "30m", "1h", "2h", "6h", "1d", "3d"},
}
# Of all, or of the process that has the most.
QUANTILE = re.compile(r"(?:max by \([^)]*\) \()?\s*histogram_quantile\(")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left) \(([^)]*)\)")


def process_metrics() -> set[str]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return {sample.name for metric in registry.collect() for sample in metric.samples}


# Of the parent of several processes, which is scraped for all of them.
FLEET = {
    line.split(" ")[0]
    for line in FleetMetrics().render().splitlines()
    if line.startswith(("gw_process", "gw_parent_log")) and "_created " not in line
}
LABELS.update(dict.fromkeys(process_metrics() | FLEET, SCRAPE_LABELS))
for rule in RECORDED:
    grouped = GROUPING.match(rule["expr"].removeprefix("sum "))
    left = set(grouped[1].split(", ")) if grouped else set()
    LABELS.setdefault(rule["record"], set()).update(left, rule.get("labels", {}))

SELECTOR = re.compile(r"([a-z0-9_:]+)\{([^}]*)\}")
MATCHER = re.compile(r"([a-z_]+)(=~|!~|!=|=)\"([^\"]*)\"")

EXPRESSIONS = [
    (query.owner, query)
    for query in (
        *(*recorded_queries(), *alert_queries(), *panel_queries(), *annotation_queries()),
        *runbook_queries(),
    )
]


@each("owner, query", EXPRESSIONS)
def test_expression_uses_metrics_and_labels_that_exist(owner: str, query: Any) -> None:
    used = query.names()
    if not owner.endswith("_objective:ratio"):
        assert used, "an expression without a metric of ours"
    assert used <= set(LABELS)
    for name, matchers in SELECTOR.findall(query.expression):
        found = MATCHER.findall(matchers)
        assert ",".join(f'{label}{how}"{value}"' for label, how, value in found) == matchers
        for label, how, value in found:
            assert label in LABELS[name]
            # `status` of a call is a word, of a response it is a number.
            if label in VALUES and name != "gw_http_responses_total":
                for word in value.split("|") if how in ("=~", "!~") else [value]:
                    assert word in VALUES[label]
    known = set().union(*(LABELS[name] for name in used))
    for group in GROUPING.findall(query.expression):
        assert {label.strip() for label in group.split(",")} <= {*known, ""}


@each("owner, query", EXPRESSIONS)
def test_expression_treats_counters_and_histograms_as_such(owner: str, query: Any) -> None:
    expression = query.expression
    for family in METRIC_FAMILIES:
        name = f"{family.name}_bucket" if family.kind == "histogram" else family.name
        for match in re.finditer(rf"(?<![\w:]){name}(?![\w:])(?:\{{[^}}]*\}})?(\[)?", expression):
            if family.kind == "gauge":
                assert match[1] is None, "a gauge has no rate"
            elif "unless gw_" not in expression:  # that asks for new series, not for a rate
                assert match[1] is not None, "a counter alone says nothing"
    if "_bucket[" in expression and owner.split(" ")[0] not in LABELS:
        assert QUANTILE.match(expression.lstrip())
        assert re.search(r"by \(le\b", expression)


def test_every_metric_is_on_a_dashboard() -> None:
    recorded = {rule["record"]: rule["expr"] for rule in RECORDED}
    shown = " ".join(
        " ".join([query.expression, *(recorded.get(name, "") for name in query.names())])
        for query in (*panel_queries(), *annotation_queries())
    )
    names = [
        *((family.name, exposed_by(family)) for family in METRIC_FAMILIES),
        *((one, (one,)) for one in FLEET),
    ]
    missing = [
        name
        for name, exposed in names
        if not any(re.search(rf"\b{one}\b", shown) for one in exposed)
    ]
    assert missing == []


def test_objective_of_latency_is_that_of_the_chat_families() -> None:
    named = {
        match[1] for rule in RECORDED for match in re.finditer(r'protocol=~"([^"]*)"', rule["expr"])
    }
    assert named == {"|".join(CHAT_PROTOCOLS)}
    bounds = {
        match[1] for rule in RECORDED for match in re.finditer(r'le="([\d.]+)"', rule["expr"])
    }
    assert {float(bound) for bound in bounds} <= set(FIRST_BYTE_SECONDS)


def test_every_recorded_name_is_read() -> None:
    queries = [*alert_queries(), *panel_queries(), *recorded_queries()]
    read = set().union(*(query.names() for query in queries))
    assert {rule["record"] for rule in RECORDED} <= read


@each("name", DASHBOARDS)
def test_dashboard_leads_to_the_others_and_shows_deploys(name: str) -> None:
    board = DASHBOARDS[name]
    assert board["uid"] == f"gw-{name}"
    assert "gw" in board["tags"]
    (link,) = board["links"]
    assert (link["type"], link["tags"]) == ("dashboards", ["gw"])
    assert link["includeVars"]
    assert link["keepTime"]
    assert [one["name"] for one in board["annotations"]["list"]] == ["Deploys", "Configurations"]
    variables = [one["name"] for one in board["templating"]["list"]]
    assert variables[:2] == ["datasource", "instance"]
    used = set(re.findall(r"\$([a-z]+)", str(board["panels"])))
    assert {*variables} - {"datasource"} == used, (
        "a variable that nothing uses, or one that is not there"
    )


def test_dashboards_are_those_there_should_be() -> None:
    assert set(DASHBOARDS) == DASHBOARD_NAMES
    for metric, label in label_values():
        assert label in LABELS[metric]


@each("name, panel", [(name, panel) for name, panel in PANELS if panel["type"] != "row"])
def test_panel_says_what_it_shows(name: str, panel: dict[str, Any]) -> None:
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    assert all(target["legendFormat"] for target in panel["targets"])


@each("name, panel", TILES)
def test_tile_shows_the_present_and_never_a_number_that_nobody_measured(
    name: str, panel: dict[str, Any]
) -> None:
    assert panel["options"]["reduceOptions"]["calcs"] == ["last"], "a number of the past"
    assert panel["fieldConfig"]["defaults"]["noValue"] == "no data: is the gateway scraped?"


# A sum over gauges that are 1 or 0, and a share of the limits of all, hide the one process that is
# ill or full.
STATES = "|".join(one.name for one in METRIC_FAMILIES if one.help.startswith(("1 while", "1 when")))
HIDING = re.compile(
    rf"\b(?:sum|avg) ?(?:by \([^)]*\) )?\((?:(?:{STATES})\b|\w+_limit\b|\w+\{{[^}}]*=\"limit\")"
)


@each("query", list(panel_queries()))
def test_panel_shows_the_one_process_that_is_ill_or_full(query: Any) -> None:
    assert not HIDING.search(query.expression)


def shown_from_the_start() -> set[str]:
    """What a process shows before anything has happened."""
    registry = CollectorRegistry()
    Metrics(registry)
    return FLEET | {sample.name for metric in registry.collect() for sample in metric.samples}


FROM_THE_START = shown_from_the_start()
COUNTERS = {family.name for family in METRIC_FAMILIES if family.kind == "counter"}


@each("name, panel", [(name, panel) for name, panel in PANELS if panel["type"] != "row"])
def test_panel_of_what_has_not_happened_says_so(name: str, panel: dict[str, Any]) -> None:
    """No data would be a fault of the scrape."""
    shown = set().union(*(Query("", target["expr"]).names() for target in panel["targets"]))
    if shown <= COUNTERS - FROM_THE_START:
        assert panel["fieldConfig"]["defaults"].get("noValue")


ONE_EVENT = re.compile(r"\bincrease\((gw_\w+)[^\[]*\[\w+\]\)+ > 0")


@each("alert", ALERTS)
def test_alert_on_one_event_sees_the_first(alert: dict[str, Any]) -> None:
    """A series that begins at 1 has not increased."""
    for name in ONE_EVENT.findall(alert["expr"]):
        assert name in FROM_THE_START or f"unless {name}" in alert["expr"]


@each("alert", ALERTS)
def test_alert_has_a_runbook_of_its_own(alert: dict[str, Any]) -> None:
    file = re.sub(r"(?<!^)(?=[A-Z])", "_", alert["alert"]).lower() + ".md"
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS_URL}/{file}"
    assert alert["labels"]["severity"] in {"critical", "warning"}
    # What a dashboard's table of what is firing shows beside it: whose fault, and the page.
    assert alert["labels"]["runbook"] == file.removesuffix(".md")
    assert alert["labels"]["fault"] in FAULTS
    assert alert["annotations"]["summary"]
    text = (RUNBOOKS / file).read_text(encoding="utf-8")
    assert text.startswith(f"# {alert['alert']}\n\n")
    assert "\n## Look at\n" in text
    assert "\n## Do\n" in text
    assert len(text.splitlines()) <= 40


def test_book_names_those_that_page() -> None:
    text = (OPS / "running.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("| `critical` |")]
    paging = {alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "critical"}
    assert set(re.findall(r"`([A-Z]\w+)`", line)) == paging


def test_every_runbook_has_an_alert() -> None:
    wanted = {Path(alert["annotations"]["runbook_url"]).name for alert in ALERTS}
    assert {path.name for path in RUNBOOKS.glob("*.md")} == wanted
    assert len(wanted) == len(ALERTS)


# Names in runbooks that neither the program nor a file of `ops` spells out.
ELSEWHERE = {
    *("budget_limit_usd", "budget_spent_usd", "budget_held_usd", "budget_needed_usd"),
    *("redis_lost", "redis_reached", "parent_lost", "parent_reached"),
    "PROCESS.damaged",
    # PostgreSQL's.
    *("psql", "default_transaction_read_only", "search_path", "P0001"),
    *("25006", "42883", "42P01", "42703", "53100", "53200", "53300", "58030", "XX001", "XX002"),
    # Redis's, OpenTelemetry's.
    *("READONLY", "OOM", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
}


def words_of_the_product() -> set[str]:
    """Every word of the program, and of what is shipped with it to run and to watch it."""
    files = [
        *(path for room in SOURCES for path in (ROOT / room).rglob("*.py")),
        *(path for room in SOURCES for path in (ROOT / room).rglob("*.sql")),
        *(
            path
            for path in OPS.glob("*/*")
            if path.suffix in (".yml", ".yaml", ".service", ".timer")
        ),
        *(OPS / name for name in ("configuration.md", "running.md")),
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return set(re.findall(r"\w+", text)) | FLEET


def test_runbooks_name_what_the_product_has() -> None:
    """Events of the log, keys of the configuration, columns, labels: none was renamed since."""
    words = words_of_the_product()
    unknown = {
        (path.stem, name)
        for path in RUNBOOKS.glob("*.md")
        for name in quoted_in(path.read_text(encoding="utf-8"))
        if " " not in name and not (OPS.parent / name).exists()
        if not set(re.findall(r"\w+", name)) <= words
    }
    assert {name for _, name in unknown} == ELSEWHERE, unknown


def test_runbook_of_a_full_pool_names_every_pool() -> None:
    pools = DatabasePools("", Metrics(CollectorRegistry()).database)
    text = (RUNBOOKS / "database_pool_full.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert set(quoted_in(text)) - {"gw_database_wait_seconds"} == {*vars(pools)}


@each("path", sorted(RUNBOOKS.glob("*.md")))
def test_runbook_names_metrics_and_neighbours_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"`(gw_[a-z_]+)`", text):
        assert name in {family.name for family in METRIC_FAMILIES} | FLEET
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (RUNBOOKS / target).is_file()
