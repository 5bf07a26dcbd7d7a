"""Pages of metrics of several processes become one that a scraper reads"""

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families

from gw.processes.metrics_page import labelled, merged
from gw.processes.parent import joined
from gw.processes.parent_metrics import FleetMetrics
from metrics.prometheus import Metrics
from tests.support.rows import cases

CALLS = """# HELP gw_calls_total Calls.
# TYPE gw_calls_total counter
gw_calls_total{protocol="chat",code="a } b"} 3.0
gw_calls_total{protocol="messages",code="ok"} 1.0
"""
LAG = """# HELP gw_lag_seconds Lag.
# TYPE gw_lag_seconds gauge
gw_lag_seconds 0.25
"""


def test_every_sample_says_whose_it_is() -> None:
    page = merged([("0", CALLS + LAG), ("1", LAG)])
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert [
        (sample.labels["process"], sample.labels.get("protocol"), sample.value)
        for name in ("gw_calls", "gw_lag_seconds")
        for sample in families[name].samples
    ] == [("0", "chat", 3.0), ("0", "messages", 1.0), ("0", None, 0.25), ("1", None, 0.25)]
    assert page.count("# TYPE gw_lag_seconds") == page.count("# HELP gw_lag_seconds") == 1


@cases(
    "sample, expected",
    ("up 1", 'up{process="3"} 1'),
    ("up{} 1", 'up{process="3"} 1'),
    ('up{a="{b} c"} 1', 'up{process="3",a="{b} c"} 1'),
    ('up{a="b\u2028c"} 1', 'up{process="3",a="b\u2028c"} 1'),
)
def test_label_stands_first_in_any_sample(sample: str, expected: str) -> None:
    assert labelled(sample, "3") == expected
    assert merged([("3", f"# TYPE up gauge\n{sample}\n")]) == f"# TYPE up gauge\n{expected}\n"


def test_page_of_real_metrics_keeps_every_sample() -> None:
    metrics = Metrics()
    metrics.call_started("chat")
    body, _ = metrics.render("")
    page = body.decode()
    both = merged([("0", page), ("1", page)])
    count = sum(len(family.samples) for family in text_string_to_metric_families(page))
    found = [sample for family in text_string_to_metric_families(both) for sample in family.samples]
    assert len(found) == 2 * count
    assert {sample.labels["process"] for sample in found} == {"0", "1"}


def test_no_process_is_an_empty_page() -> None:
    assert merged([]) == ""


OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def test_pages_of_openmetrics_keep_exemplars_and_end_once() -> None:
    registry = CollectorRegistry()
    calls = Counter("gw_calls", "Calls.", ["code"], registry=registry)
    calls.labels("a } b").inc(3, {"trace_id": "abc"})
    lag = Histogram("gw_lag_seconds", "Lag.", registry=registry)
    lag.observe(0.2, {"trace_id": "def"})
    encode, _ = choose_encoder(OPENMETRICS)
    page = encode(registry).decode()
    fleet = FleetMetrics()
    fleet.config.started(5.0)
    body, content_type = joined(
        fleet.render(OPENMETRICS),
        [("0", page), ("1", page), ("parent", fleet.render_config(OPENMETRICS))],
        accept=OPENMETRICS,
    )
    text = body.decode()
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.count("# EOF") == 1
    found = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in found}
    counted = [one for one in families["gw_calls"].samples if one.name == "gw_calls_total"]
    assert [(one.labels["process"], one.exemplar.labels) for one in counted] == [
        ("0", {"trace_id": "abc"}),
        ("1", {"trace_id": "abc"}),
    ]
    assert sum(one.exemplar is not None for one in families["gw_lag_seconds"].samples) == 2
    (read_at,) = families["gw_config_last_success_timestamp_seconds"].samples
    assert (read_at.labels, read_at.value) == ({"process": "parent"}, 5.0)
    assert "gw_processes_running" in families


def test_joined_page_of_text_has_no_end() -> None:
    body, content_type = joined(FleetMetrics().render(), [("0", CALLS)], accept="")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"# EOF" not in body
    assert b'gw_calls_total{process="0",protocol="messages",code="ok"} 1.0\n' in body
