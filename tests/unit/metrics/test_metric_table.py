"""The table of metrics against what is exposed, and against its snapshot."""

import os
import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from channels.families import CHAT_PROTOCOLS
from metrics.metric_families import METRIC_FAMILIES, MetricFamily
from metrics.prometheus import Metrics
from tests.support.monitoring import OPS
from tests.support.rows import cases, each

SNAPSHOT = Path(__file__).with_name("metrics.snap.txt")
UNITS = ("seconds", "total", "messages", "usd")
# Gauges that count what their name says, and flags.
BARE = {
    "gw_agent_pages_injected",
    "gw_budget_phantom_refusals",
    "gw_calls_in_flight",
    "gw_channel_state",
    "gw_channel_slots_in_use",
    "gw_channel_slots_limit",
    "gw_holds_open",
    "gw_stray_source_accounts",
    "gw_tasks_in_flight",
    "gw_database_up",
    "gw_recorder_up",
    "gw_overloaded",
    "gw_call_log_kept",
    "gw_webhook_pending",
    "gw_config_last_reload_successful",
    "gw_limits_degraded",
    "gw_ledger_proof_faults",
    "gw_database_connections",
    "gw_files",
    "gw_http_connections",
    "gw_build_info",
}


def table() -> str:
    """Return the table as text, one metric a line."""
    lines = []
    for family in METRIC_FAMILIES:
        buckets = " ".join(f"{bound:g}" for bound in family.buckets)
        line = f"{family.name} {family.kind} {','.join(family.labels) or '-'} {buckets}"
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def test_table_equals_its_snapshot() -> None:
    if os.environ.get("GW_SNAP"):
        SNAPSHOT.write_text(table(), encoding="utf-8")
    assert table() == SNAPSHOT.read_text(encoding="utf-8"), "see the top of this file"


def test_every_series_of_the_table_is_exposed_and_no_other() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    exposed = [
        (metric.name + ("_total" if metric.type == "counter" else ""), metric.type)
        for metric in registry.collect()
    ]
    assert exposed == [(family.name, family.kind) for family in METRIC_FAMILIES]


def test_names_are_unique_and_follow_the_convention() -> None:
    names = [family.name for family in METRIC_FAMILIES]
    assert len(names) == len(set(names))
    for family in METRIC_FAMILIES:
        assert re.fullmatch(r"gw_[a-z]+(_[a-z]+)*", family.name), family
        assert family.name.endswith("_total") == (family.kind == "counter"), family
        assert family.name.endswith(UNITS) or family.name in BARE, family


@each("family", METRIC_FAMILIES)
def test_family_is_described_and_cheap(family: MetricFamily) -> None:
    assert family.help.endswith(".")
    assert len(family.labels) <= 4
    assert bool(family.buckets) == (family.kind == "histogram")
    assert list(family.buckets) == sorted(set(family.buckets))
    assert len(family.buckets) <= 15


def series(*, models: int, channels: int, protocols: int) -> int:
    """How many lines a process shows that has served each model, also failed, on two channels."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for number in range(channels):
        name = f"channel-{number}"
        metrics.channel_slots(channel=name, limit=1)
        metrics.channel_state(channel=name, state="closed")
        for result in ("ok", "status_5xx"):
            metrics.attempt(name, result, 1.0)
    for number in range(models):
        model = f"model-{number}"
        metrics.models.responded(model, model, model)
        metrics.output_token(model, 0.1)
        for channel in {number % channels, (number + 1) % channels}:
            metrics.sales.settled(
                channel=f"channel-{channel}",
                model=model,
                nano_usd=1,
                upstream_nano_usd=2,
                is_sold=True,
                input_tokens=2,
                cached_tokens=1,
                output_tokens=1,
            )
        for protocol in CHAT_PROTOCOLS[:protocols]:
            metrics.first_byte(protocol, model, 0.1)
            for status, code in (("success", "ok"), ("error", "upstream_error")):
                metrics.call_started(protocol)
                metrics.call_finished(protocol, model, status, code, 1.0)
        metrics.call_failed(model=model, fault="upstream")
    return sum(len(metric.samples) for metric in registry.collect())


def test_book_says_how_many_series_there_are() -> None:
    """A family by one more label, or with more buckets, shows here first."""
    book = (OPS / "running.md").read_text(encoding="utf-8")
    pattern = (
        r"([\d,]+) more with one model on one channel, ([\d,]+) with 50 models on four\s+protocols,"
        r" each on two of 20 channels, ([\d,]+) with 200 models and 50 channels"
    )
    (stated,) = re.findall(pattern, book)
    alone = series(models=0, channels=0, protocols=0)
    sizes = ((1, 1, 1), (50, 20, 4), (200, 50, 4))
    for text, (models, channels, protocols) in zip(stated, sizes, strict=True):
        count = series(models=models, channels=channels, protocols=protocols) - alone
        assert abs(int(text.replace(",", "")) - count) <= 0.05 * count, (text, count)


@cases(
    "name, lowest, highest",
    ("gw_call_latency_seconds", 0.001, 280),
    ("gw_first_byte_seconds", 0.01, 180),
    ("gw_hold_latency_seconds", 0.0002, 1),
    ("gw_settle_latency_seconds", 0.0002, 1),
    ("gw_loop_lag_seconds", 0.001, 1),
)
def test_buckets_cover_what_can_happen(name: str, lowest: float, highest: float) -> None:
    (family,) = (family for family in METRIC_FAMILIES if family.name == name)
    assert family.buckets[0] <= lowest
    assert family.buckets[-1] >= highest
