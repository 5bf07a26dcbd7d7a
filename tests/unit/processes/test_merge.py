"""Pages of metrics of several processes become one that a scraper reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gw.processes.merge import labelled, merged
from metrics.prometheus import Metrics

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


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("up 1", 'up{process="3"} 1'),
        ("up{} 1", 'up{process="3"} 1'),
        ('up{a="{b} c"} 1', 'up{process="3",a="{b} c"} 1'),
        ('up{a="b\u2028c"} 1', 'up{process="3",a="b\u2028c"} 1'),
    ],
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
