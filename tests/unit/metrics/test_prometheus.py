"""Metric families: counted, rendered, read again."""

import threading
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from metrics.prometheus import Metrics
from metrics.values import Distribution, FamilySeries, Number
from tests.support.rows import cases
from tests.unit.metrics.worlds import World


def test_rejected_call_does_not_count_as_a_quick_one(world: World) -> None:
    world.finish("rejected", "quota_exceeded", seconds=0.001)
    assert world.labels("gw_call_latency_seconds_count") == []


def settled(world: World, sold: int = 0, bought: int | None = 0, **more: Any) -> None:
    money = {"is_sold": True, "nano_usd": sold, "upstream_nano_usd": bought, **more}
    world.metrics.sales.settled(channel="c", model="m", **money)


def test_kinds_of_tokens_do_not_overlap(world: World) -> None:
    settled(world, input_tokens=100, cached_tokens=30, output_tokens=7)
    kinds = ("fresh_input", "cached_input", "output")
    assert [world.value("gw_tokens_total", model="m", kind=kind) for kind in kinds] == [70, 30, 7]
    labels = {"channel": "c", "model": "m"}
    assert world.value("gw_input_tokens_total", **labels) == 100
    assert world.value("gw_cached_input_tokens_total", **labels) == 30


def test_more_cached_tokens_than_input_do_not_raise(world: World) -> None:
    settled(world, input_tokens=1, cached_tokens=30)
    assert world.value("gw_tokens_total", model="m", kind="cached_input") == 30
    assert len(world.labels("gw_tokens_total")) == 1


def test_cost_adds_up_exactly(world: World) -> None:
    for sold, bought in ((2**53, 2**53), (1, 2), (0, None), (1, 0)):
        settled(world, sold, bought)
    assert world.value("gw_cost_nano_usd_total", model="m") == 2**53 + 2
    labels = {"channel": "c", "model": "m"}
    assert world.value("gw_upstream_cost_nano_usd_total", **labels) == 2**53 + 2
    assert world.value("gw_calls_below_cost_total", **labels) == 1
    assert world.value("gw_calls_of_unknown_cost_total", **labels) == 1


def test_call_that_failed_is_not_sold_below_its_cost(world: World) -> None:
    settled(world, 0, 5, is_sold=False)
    assert world.labels("gw_calls_below_cost_total") == []


def test_responses_are_counted_by_route_and_status(world: World) -> None:
    for _ in range(2):
        world.metrics.http_response(route="/v1/models", status=200)
    assert world.value("gw_http_responses_total", route="/v1/models", status="200") == 2


def test_money_events_move_their_series(world: World) -> None:
    metrics = world.metrics
    metrics.hold_latencies([0.0003])
    metrics.settle_latencies([0.003])
    metrics.ledger_batch(size=64, seconds=0.002)
    metrics.ledger_retry()
    metrics.holds(open_count=3, oldest_seconds=12.5, lease_seconds=2.0)
    metrics.hold_refused("insufficient_funds")
    metrics.idempotency("stored")
    metrics.settle_noop()
    metrics.recovery.recovered(50)
    metrics.recovery.corrected()
    metrics.recovery.damaged(3)
    assert world.value("gw_hold_latency_seconds_bucket", le="0.0005") == 1
    assert world.value("gw_hold_latency_seconds_bucket", le="0.0002") == 0
    assert world.value("gw_settle_latency_seconds_sum") == 0.003
    assert world.value("gw_ledger_batch_messages_bucket", le="64.0") == 1
    assert world.value("gw_ledger_batch_messages_bucket", le="32.0") == 0
    assert world.value("gw_ledger_batch_seconds_count") == 1
    assert world.value("gw_ledger_retries_total") == 1
    assert world.value("gw_holds_open") == 3
    assert world.value("gw_oldest_hold_seconds") == 12.5
    assert world.value("gw_oldest_lease_seconds") == 2.0
    assert world.value("gw_hold_refusals_total", reason="insufficient_funds") == 1
    assert world.value("gw_idempotency_total", standing="stored") == 1
    assert world.value("gw_settle_noops_total") == 1
    assert world.value("gw_calls_recovered_total") == 50
    assert world.value("gw_recoveries_corrected_total") == 1
    assert world.value("gw_recorder_damage_total") == 3


def test_process_events_move_their_series(world: World) -> None:
    metrics = world.metrics
    metrics.mailbox(actor="channel", depth=3, wait_seconds=0.0001)
    metrics.actor_restarted("channel")
    metrics.taken_for_dead()
    assert world.value("gw_taken_for_dead_total") == 1
    metrics.loop_lag(0.02)
    metrics.cache(cache="keys", hit=True)
    metrics.cache(cache="keys", hit=False)
    metrics.limit_refused("rpm")
    metrics.database_up(True)
    assert world.value("gw_mailbox_depth_messages_sum", actor="channel") == 3
    assert world.value("gw_mailbox_wait_seconds_bucket", actor="channel", le="0.0002") == 1
    assert world.value("gw_actor_restarts_total", actor="channel") == 1
    assert world.value("gw_loop_lag_seconds_bucket", le="0.025") == 1
    assert world.value("gw_cache_lookups_total", cache="keys", result="hit") == 1
    assert world.value("gw_cache_lookups_total", cache="keys", result="miss") == 1
    assert world.value("gw_limit_refusals_total", dimension="rpm") == 1
    assert world.value("gw_database_up") == 1
    metrics.database_up(False)
    assert world.value("gw_database_up") == 0
    metrics.call_log_kept(True)
    assert world.value("gw_call_log_kept") == 1


def test_page_has_the_process_beside_the_gateway() -> None:
    body, content_type = Metrics().render("")
    names = {family.name for family in parse_text(body.decode())}
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info"} <= names
    assert {"gw_calls", "gw_loop_lag_seconds"} <= names
    assert content_type.startswith("text/plain; version=0.0.4")


@cases(
    "accept, content_type",
    ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain", "application/openmetrics"),
    ("application/openmetrics-text", "application/openmetrics-text"),
    ("text/plain;version=0.0.4;q=0.3,*/*;q=0.1", "text/plain; version=0.0.4"),
    ("application/json", "text/plain; version=0.0.4"),
    ("application/openmetrics-text;version=banana", "text/plain; version=0.0.4"),
    ("text/plain;version=", "text/plain; version=0.0.4"),
)
def test_page_comes_in_the_format_requested(world: World, accept: str, content_type: str) -> None:
    body, given = world.metrics.render(accept)
    assert given.startswith(content_type)
    assert body.decode().endswith("# EOF\n") == ("openmetrics" in given)


def test_page_says_the_same_in_both_formats(world: World) -> None:
    world.use('a "quoted"\\\nname')
    world.finish()
    world.metrics.hold_latencies([0.1])
    text = world.metrics.render("")[0].decode()
    openmetrics = world.metrics.render("application/openmetrics-text")[0].decode()
    assert values(parse_text(text)) == values(
        parse_openmetrics(openmetrics)  # type: ignore[no-untyped-call]
    )


def test_latencies_show_a_traced_call_to_scrapers_that_read_it(world: World) -> None:
    trace_id = "ab" * 16
    metrics = world.metrics
    metrics.call_started("chat")
    metrics.call_finished(
        protocol="chat", model="gpt-5", status="success", code="ok", seconds=0.3, trace_id=trace_id
    )
    metrics.first_byte("chat", "gpt-5", 0.2, trace_id)
    metrics.attempt("a", "ok", 0.25, trace_id)
    page = metrics.render("application/openmetrics-text")[0].decode()
    shown = {
        sample.name: (sample.exemplar.labels, sample.exemplar.value)
        for family in parse_openmetrics(page)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert shown == {
        "gw_call_latency_seconds_bucket": ({"trace_id": trace_id}, 0.3),
        "gw_first_byte_seconds_bucket": ({"trace_id": trace_id}, 0.2),
        "gw_attempt_seconds_bucket": ({"trace_id": trace_id}, 0.25),
    }
    assert trace_id not in metrics.render("")[0].decode()


def values(families: Iterable[Metric]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_page_may_be_written_in_another_thread(world: World) -> None:
    stop = threading.Event()
    pages: list[bytes] = []
    faults: list[BaseException] = []

    def scrape() -> None:
        try:
            while not stop.is_set():
                pages.append(world.metrics.render("")[0])
        except BaseException as fault:  # noqa: BLE001 - whatever it is, the test wants it
            faults.append(fault)

    thread = threading.Thread(target=scrape)
    thread.start()
    n = 0
    while len(pages) < 5 and not faults:
        n += 1
        world.metrics.call_finished(
            protocol="chat", model=f"m{n % 3000}", status="success", code="ok", seconds=0.1
        )
        world.metrics.channel_removed(f"c{n % 7}")
        world.metrics.channel_slots(channel=f"c{n % 7}", limit=4).value = n % 3
    stop.set()
    thread.join()
    assert not faults


BOUNDS = (0.001, 0.5, 1, 2.5)


def numbers(*, width: int = 1, limit: int = 100) -> FamilySeries[Number]:
    return FamilySeries(Number, width=width, limit=limit)


def test_number_and_its_text_are_one_series() -> None:
    series = numbers(width=2)
    series["/v1", 200].value += 1
    series["/v1", "200"].value += 1
    series["/v1", 200].value += 1
    assert [(values, cell.value) for values, cell in series.shown()] == [(("/v1", "200"), 3)]
    assert series.get(("/v1", 200)) is series["/v1", "200"]  # found at once next time


def test_empty_label_value_is_other() -> None:
    series = numbers()
    series[("",)].value += 1
    series[("other",)].value += 1
    assert [(values, cell.value) for values, cell in series.shown()] == [(("other",), 2)]


def test_values_past_the_limit_share_one_series() -> None:
    series = numbers(width=2, limit=3)
    for n in range(1000):
        series[f"m{n}", "chat"].value += 1
    assert {values: cell.value for values, cell in series.shown()} == {
        ("m0", "chat"): 1,
        ("m1", "chat"): 1,
        ("m2", "chat"): 1,
        ("other", "other"): 997,
    }
    series["m1", "chat"].value += 1
    assert series["m1", "chat"].value == 2  # what is known goes on


@cases(
    "value, bound",
    (-1, "0.001"),
    (0.001, "0.001"),
    (0.0011, "0.5"),
    (1, "1.0"),
    (2.5, "2.5"),
    (2.6, "+Inf"),
)
def test_observation_falls_under_the_first_bound_not_below_it(value: float, bound: str) -> None:
    cell = Distribution(BOUNDS)
    cell.observe(value)
    buckets = {labels["le"]: n for suffix, labels, n, _ in cell.samples() if suffix == "_bucket"}
    assert list(buckets) == ["0.001", "0.5", "1.0", "2.5", "+Inf"]
    place = list(buckets).index(bound)
    assert list(buckets.values()) == [0] * place + [1] * (5 - place)


@given(st.lists(st.floats(-10, 10)))
def test_distribution_equals_the_librarys_histogram(values: list[float]) -> None:
    """The library's histogram is slower and is the reference."""
    registry = CollectorRegistry()
    reference = Histogram("h", "help", registry=registry, buckets=BOUNDS)
    cell = Distribution(BOUNDS)
    for value in values:
        reference.observe(value)
        cell.observe(value)

    def key(suffix: str, labels: dict[str, str]) -> tuple[str, str]:
        return suffix, labels.get("le", "")

    (metric,) = registry.collect()
    wanted: dict[Any, float] = {
        key(sample.name.removeprefix("h"), dict(sample.labels)): sample.value
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }
    assert {key(suffix, labels): value for suffix, labels, value, _ in cell.samples()} == wanted
