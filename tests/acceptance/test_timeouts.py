"""A call has so many seconds in all, streaming included (spec: Limits; contract §4: 504, no retry).

The house's are few, so that a test need not wait long.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import HELLO, Reply
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant
from tests.support.waiting import until

CHAT_SECONDS = 0.6
# Later than this the gateway is not keeping its time, whatever else the machine is doing.
LATE_SECONDS = 3.0
HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@pytest.fixture(scope="module")
def silent_url() -> Iterator[str]:
    """An address whose queue of connections is full: another one waits and waits."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for filler in fillers:
                filler.close()


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, silent_url: str) -> Iterator[House]:
    settings: dict[str, Any] = {
        "timeouts": {"chat": CHAT_SECONDS, "connect": 0.2},
        "channels": [
            channel("one", priority=1),
            channel("two", priority=2),
            channel("silent", priority=1, base_url=silent_url),
        ],
        "models": [model("sim-model", "one", "two"), model("silent", "silent", "two")],
    }
    with shared_house(postgres, **settings) as built:
        yield built


def timed(tenant: Tenant, **members: Any) -> Reply:
    """A call that ends when the gateway's time is up, not before and not long after."""
    started = time.monotonic()
    reply = tenant.client.chat(**members)
    assert CHAT_SECONDS * 0.9 < time.monotonic() - started < CHAT_SECONDS + LATE_SECONDS
    return reply


@BOTH
def test_upstream_that_does_not_answer_is_a_504_and_nobody_else_is_tried(
    h: House, tenant: Tenant, stream: bool
) -> None:
    reply = timed(tenant, stream=stream, sim={"hang": "headers"})
    assert reply.refusal == (504, "api_error", "upstream_timeout")
    h.upstream.wait(cancelled=1, active=0)
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
        "interrupted",
        "upstream_timeout",
        0,
    )
    assert tenant.client.remaining_nano_usd() == 10**9


def test_stream_without_a_first_event_is_a_504(h: House, tenant: Tenant) -> None:
    reply = timed(tenant, stream=True, sim={"hang": 0})
    assert reply.refusal == (504, "api_error", "upstream_timeout")
    assert h.upstream.requested("one", "two") == [1, 0]


STREAMS = {
    "fallen silent": {"events": 9, "hang": 5},
    "too long": {"endless": True, "delay_event_ms": 40},
}


@pytest.mark.parametrize("sim", STREAMS.values(), ids=STREAMS)
def test_stream_that_takes_too_long_ends_early_and_is_paid_for(
    h: House, tenant: Tenant, sim: dict[str, Any]
) -> None:
    reply = timed(tenant, stream=True, sim=sim)
    assert reply.status == 200
    assert reply.text
    assert b"[DONE]" not in reply.body
    assert b'"finish_reason":"' not in reply.body
    assert b'"error"' not in reply.body
    h.upstream.wait(cancelled=1, active=0)
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("interrupted", "upstream_timeout")
    cost = HELLO_TOKENS * 1_000 + -(-len(reply.text) // 4) * 10_000
    assert row["cost_nano_usd"] == cost
    assert tenant.client.remaining_nano_usd() == 10**9 - cost


def test_plain_answer_that_takes_too_long_is_a_504(h: House, tenant: Tenant) -> None:
    reply = timed(tenant, sim={"endless": True, "delay_event_ms": 20})
    assert reply.refusal == (504, "api_error", "upstream_timeout")
    assert h.row(reply.trace)["cost_nano_usd"] == 0


def test_time_is_the_calls_not_the_attempts(h: House, tenant: Tenant) -> None:
    """What the first channel took is gone when the second one hangs."""
    h.upstream.fault("one", status=500, delay_headers_ms=CHAT_SECONDS * 1000 * 0.7)
    h.upstream.fault("two", hang="headers")
    reply = timed(tenant)
    assert reply.refusal == (504, "api_error", "upstream_timeout")
    attempts = h.row(reply.trace)["attempts"]
    assert [attempt["error_code"] for attempt in attempts] == ["upstream_500", "upstream_timeout"]


def test_client_that_never_reads_is_let_go_when_the_time_is_up(h: House, tenant: Tenant) -> None:
    with tenant.client.begin_chat(stream=True, sim={"endless": True}, receive_buffer_bytes=16_384):
        rows = until(lambda: h.rows(tenant), what="the row")
        h.upstream.wait(cancelled=1, active=0)
    (row,) = rows
    assert (row["status"], row["error_code"]) == ("interrupted", "upstream_timeout")
    assert row["cost_nano_usd"] > 0
    assert h.held_nano_usd(tenant) == 0


def test_connection_that_is_not_taken_in_time_is_tried_elsewhere(h: House, tenant: Tenant) -> None:
    reply = tenant.client.chat(model="silent")
    assert reply.status == 200
    assert h.upstream.requested("two") == [1]
    (attempt,) = h.row(reply.trace)["attempts"]
    assert attempt["error_code"] == "upstream_unreachable"
