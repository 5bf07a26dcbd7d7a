"""A collector of traces that is slow, hangs, refuses or is gone costs no call anything.

What waits for it is bounded: the rest is dropped, and the log says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.traced import SETTINGS, environ
from tests.support.collector import running_sink
from tests.support.house import house
from tests.support.postgres import PostgresForTests
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.long

CALLS = 60
BOUNDS = {
    "OTEL_BSP_MAX_QUEUE_SIZE": "40",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
}


@pytest.fixture
def database(postgres: PostgresForTests) -> Iterator[str]:
    """An empty database."""
    with postgres.database() as url:
        yield url


def test_collector_that_hangs_holds_up_no_call_and_no_end(database: str, tmp_path: Path) -> None:
    with (
        running_sink() as sink,
        house(database, tmp_path, environ=environ(sink, **BOUNDS), **SETTINGS) as built,
    ):
        first = built.client.chat()
        sink.call(first.trace)
        _, headers, body = sink.posts.get(timeout=PATIENCE_SECONDS)
        assert (headers["content-encoding"], body[:2]) == ("gzip", b"\x1f\x8b")
        sink.answers.clear()
        replies = [built.client.chat() for _ in range(CALLS)]
        assert {reply.status for reply in replies} == {200}
        until(lambda: "Queue full" in built.gateway.log(), what="a word on spans dropped")
        # Far more than once it was, and the log is not flooded with it.
        assert sum("Queue full" in line for line in built.gateway.lines) < CALLS
        sink.answers.set()
        until(lambda: built.client.chat().trace in sink.gateway_traces, what="spans again")
        assert not {reply.trace for reply in replies} <= sink.gateway_traces
        sink.answers.clear()
        assert built.client.chat().status == 200
        assert built.gateway.terminate() == 0
        built.start()
