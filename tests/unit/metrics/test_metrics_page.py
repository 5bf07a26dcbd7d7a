"""The page of metrics, as Prometheus reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from metrics.prometheus import Metrics
from tests.unit.metrics.worlds import World


def test_page_has_the_process_beside_the_gateway() -> None:
    body, content_type = Metrics().render("")
    names = {family.name for family in parse_text(body.decode())}
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info"} <= names
    assert {"gw_calls", "gw_loop_lag_seconds"} <= names
    assert content_type.startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain", "application/openmetrics"),
        ("application/openmetrics-text", "application/openmetrics-text"),
        ("text/plain;version=0.0.4;q=0.3,*/*;q=0.1", "text/plain; version=0.0.4"),
        ("application/json", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=banana", "text/plain; version=0.0.4"),
        ("text/plain;version=", "text/plain; version=0.0.4"),
    ],
)
def test_page_comes_in_the_format_asked_for(world: World, accept: str, content_type: str) -> None:
    body, given = world.metrics.render(accept)
    assert given.startswith(content_type)
    assert body.decode().endswith("# EOF\n") == ("openmetrics" in given)


def test_page_says_the_same_in_both_formats(world: World) -> None:
    world.use('a "quoted"\\\nname')
    world.finish()
    world.metrics.hold_latency(0.1)
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
        protocol="chat",
        model="gpt-5",
        status="success",
        code="ok",
        seconds=0.3,
        trace_id=trace_id,
    )
    metrics.first_byte(protocol="chat", model="gpt-5", seconds=0.2, trace_id=trace_id)
    metrics.attempt(channel="a", outcome="ok", seconds=0.25, trace_id=trace_id)
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
        world.metrics.channel_slots(channel=f"c{n % 7}", in_use=n % 3, limit=4)
    stop.set()
    thread.join()
    assert not faults
