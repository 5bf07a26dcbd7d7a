"""A call has so many seconds in all, streaming included (spec: Limits; contract §4: 504, no retry).

All calls that run out of time do so side by side, because nothing shortens the wait of a real
process; on a clock that jumps, the unit tests look at every moment at which time may be up.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.client import HELLO, Reply
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

# Enough for the first events of a stream to arrive on a machine that stands still now and then.
CHAT_SECONDS = 2.0
HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)
WITHOUT_ANSWER: dict[str, dict[str, Any]] = {
    "no headers": {"sim": {"hang": "headers"}},
    "no headers of a stream": {"stream": True, "sim": {"hang": "headers"}},
    "no first event": {"stream": True, "sim": {"hang": 0}},
    "no end of a plain answer": {"sim": {"endless": True, "delay_event_ms": 20}},
}
STREAMS: dict[str, dict[str, Any]] = {
    "fallen silent": {"stream": True, "sim": {"events": 9, "hang": 5}},
    "too long": {"stream": True, "sim": {"endless": True, "delay_event_ms": 40}},
}


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
        "timeouts": {"chat": CHAT_SECONDS, "connect": CHAT_SECONDS / 2},
        "channels": [
            channel("one", priority=1),
            channel("two", priority=2),
            channel("silent", priority=1, base_url=silent_url),
        ],
        "models": [model("sim-model", "one", "two"), model("silent", "silent", "two")],
    }
    with shared_house(postgres, **settings) as built:
        yield built


@dataclass(frozen=True)
class Late:
    """A call, how long it took, and its row."""

    tenant: Tenant
    reply: Reply
    seconds: float
    row: dict[str, Any]

    @property
    def tried(self) -> list[str]:
        return [channel_id for channel_id, *_ in self.row["detail"]["tried"]]


def call(shared: House, tenant: Tenant, members: dict[str, Any]) -> Late:
    started = time.monotonic()
    reply = tenant.client.chat(**members)
    seconds = time.monotonic() - started
    return Late(tenant, reply, seconds, shared.row(reply.trace))


def never_read(shared: House, tenant: Tenant) -> dict[str, Any]:
    """The row of a call whose client does not read what it is sent."""
    sim = {"endless": True}
    with tenant.client.begin_chat(stream=True, sim=sim, receive_buffer_bytes=16_384):
        (row,) = until(lambda: shared.rows(tenant), what="the row")
    return row


@dataclass(frozen=True)
class Record:
    """What came of every call that ran out of time."""

    calls: dict[str, Late]
    unread: Tenant
    row_of_unread: dict[str, Any]


@pytest.fixture(scope="module")
def record(shared: House) -> Record:
    calls = {**WITHOUT_ANSWER, **STREAMS, "not connected": {"model": "silent"}}
    payers, unread = {name: shared.tenant() for name in calls}, shared.tenant()
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        not_read = pool.submit(never_read, shared, unread)
        begun = {
            name: pool.submit(call, shared, payers[name], members)
            for name, members in calls.items()
        }
        shared.upstream.wait(active=0, cancelled=len(calls))  # all but the one tried elsewhere
        return Record(
            {name: one.result() for name, one in begun.items()}, unread, not_read.result()
        )


@pytest.fixture(scope="module")
def late(record: Record) -> dict[str, Late]:
    return record.calls


@pytest.mark.parametrize("name", WITHOUT_ANSWER)
def test_call_without_an_answer_in_time_is_a_504_and_nobody_else_is_tried(
    late: dict[str, Late], name: str
) -> None:
    one = late[name]
    assert one.reply.refusal == (504, "api_error", "upstream_timeout")
    assert one.seconds > CHAT_SECONDS * 0.9
    assert one.tried == ["one"]
    row = one.row
    assert (row["status"], row["error_code"]) == ("interrupted", "upstream_timeout")
    assert row["cost_nano_usd"] == 0
    assert one.tenant.client.remaining_nano_usd() == 10**9


@pytest.mark.parametrize("name", STREAMS)
def test_stream_that_takes_too_long_ends_early_and_is_paid_for(
    late: dict[str, Late], name: str
) -> None:
    one = late[name]
    reply = one.reply
    assert reply.status == 200
    assert one.seconds > CHAT_SECONDS * 0.9
    assert reply.text
    assert b"[DONE]" not in reply.body
    assert b'"finish_reason":"' not in reply.body
    assert b'"error"' not in reply.body
    assert (one.row["status"], one.row["error_code"]) == ("interrupted", "upstream_timeout")
    cost = HELLO_TOKENS * 1_000 + -(-len(reply.text) // 4) * 10_000
    assert one.row["cost_nano_usd"] == cost
    assert one.tenant.client.remaining_nano_usd() == 10**9 - cost


def test_connection_that_is_not_taken_in_time_is_tried_elsewhere(late: dict[str, Late]) -> None:
    one = late["not connected"]
    assert one.reply.status == 200
    assert one.tried == ["silent", "two"]
    (attempt,) = one.row["attempts"]
    assert attempt["error_code"] == "upstream_unreachable"


def test_client_that_never_reads_is_let_go_when_the_time_is_up(
    shared: House, record: Record
) -> None:
    row = record.row_of_unread
    assert (row["status"], row["error_code"]) == ("interrupted", "upstream_timeout")
    assert row["cost_nano_usd"] > 0
    assert shared.held_nano_usd(record.unread) == 0
