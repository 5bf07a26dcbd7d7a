"""Clients that leave and clients that read slowly, as the upstream and the gateway feel them.

Contract §4: who leaves cancels the upstream at once, and not when the call's time is up, which is
later than any test waits; a slow reader slows the upstream, and the
gateway's memory stays as it was.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from loadtests.attacks.connections import Attack
from tests.support.client import HELLO, Call, Client
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.transactions import transaction
from tests.support.waiting import until

pytestmark = pytest.mark.long

WAITING_FOR_A_LOCK = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%ledger_batch%'
"""
HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)


def sockets_bytes() -> int:
    """What the sockets between an upstream and a client that does not read may hold, at most.

    Send and receive buffers of both connections, as large as this machine lets them grow.
    """
    settings = [Path(f"/proc/sys/net/ipv4/{name}").read_text() for name in ("tcp_rmem", "tcp_wmem")]
    return 2 * sum(int(line.split()[2]) for line in settings)


def resident_bytes(h: House) -> int:
    """The gateway's memory."""
    status = Path(f"/proc/{h.gateway.popen.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def assert_interrupted(h: House, tenant: Tenant, *, is_charged: bool) -> dict[str, Any]:
    """The one row of the tenant says that its client left; what it costs is gone."""
    rows = until(lambda: h.rows(tenant), what="the row")
    (row,) = rows
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    assert (row["cost_nano_usd"] > 0) is is_charged
    assert tenant.client.remaining_nano_usd() == 10**9 - row["cost_nano_usd"]
    assert h.held_nano_usd(tenant) == 0
    return dict(row)


PLAIN = {
    "no answer": {"hang": "headers"},
    "a late answer": {"delay_headers_ms": 60_000},
    "half an answer": {"endless": True},
}


@pytest.mark.parametrize("sim", PLAIN.values(), ids=PLAIN)
def test_client_that_leaves_a_plain_call_cancels_it_at_once(
    h: House, tenant: Tenant, sim: dict[str, Any]
) -> None:
    with tenant.client.begin_chat(sim=sim) as call:
        h.upstream.wait(active=1)
        call.leave()
        h.upstream.wait(cancelled=1, active=0)
    row = assert_interrupted(h, tenant, is_charged=False)
    assert (row["input_tokens"], row["output_tokens"]) == (0, 0)
    assert h.upstream.requested("one", "two") == [1, 0]


def clients_gone(h: House) -> float:
    """How many clients the gateway has seen leave before their response."""
    responses = h.metrics("gw_http_responses_total")
    return responses.get('route="chat_completions",status="499"', 0)


def test_client_that_leaves_while_its_money_is_held_holds_nothing(h: House, tenant: Tenant) -> None:
    """Somebody has locked the account's row, so that the ledger has to wait."""
    with transaction(h.settings["database_url"]) as cursor:
        query = "SELECT FROM accounts WHERE id = %s FOR NO KEY UPDATE"
        cursor.execute(query, (tenant.account,))
        before = clients_gone(h)
        with tenant.client.begin_chat():
            until(lambda: h.query(WAITING_FOR_A_LOCK), what="a ledger that waits")
        until(lambda: clients_gone(h) > before, what="the gateway's word that it left")
    assert_interrupted(h, tenant, is_charged=False)
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.chat().status == 200


STREAMS = {
    "silent": {"text": "more or less", "hang": 4},
    "slow": {"endless": True, "delay_event_ms": 20},
    "fast": {"endless": True},
}


@pytest.mark.parametrize("sim", STREAMS.values(), ids=STREAMS)
def test_client_that_leaves_a_stream_cancels_it_at_once_and_pays_for_what_it_got(
    h: House, tenant: Tenant, sim: dict[str, Any]
) -> None:
    with tenant.client.begin_chat(stream=True, sim=sim) as call:
        call.read_until(b'"more ')
        call.leave()
        h.upstream.wait(cancelled=1, active=0)
    row = assert_interrupted(h, tenant, is_charged=True)
    assert row["input_tokens"] == HELLO_TOKENS
    assert row["detail"]["basis"] == "estimated"


def read_slowly(call: Call, count: int) -> None:
    """Read so many bytes in sips."""
    seen = 0
    while seen < count:
        seen += len(call.read_some(8192))


def stalled(h: House) -> int:
    """Wait until the upstream writes no more, for nobody reads; how much it had written."""
    seen = [0, 1, 2]
    while len(set(seen)) > 1:
        time.sleep(0.05)  # a pause in which a writer that is not held back writes megabytes
        seen = [*seen[1:], h.upstream.stats()["bytes_sent"]]
    return seen[0]


def begin_flood(client: Client) -> Call:
    sim = {"endless": True}
    return client.begin_chat(stream=True, sim=sim, receive_buffer_bytes=16_384)


def test_slow_reader_slows_the_upstream_and_takes_no_memory(h: House, tenant: Tenant) -> None:
    readers, rounds, gulp = 5, 3, 512 << 10
    with ExitStack() as stack:
        calls = [stack.enter_context(begin_flood(tenant.client)) for _ in range(readers)]
        read_slowly(calls[0], gulp)
        before = resident_bytes(h)
        # Nobody reads: the upstream comes to a stand with what the sockets hold.
        assert stalled(h) < readers * sockets_bytes()
        for _ in range(rounds):
            for call in calls:
                read_slowly(call, gulp)
        # It has gone on as fast as it was read, and no faster.
        assert stalled(h) < readers * (sockets_bytes() + 2 * (rounds + 1) * gulp)
        grown = resident_bytes(h) - before
        assert grown < readers * (1 << 20), f"{grown >> 10} KiB for {readers} slow readers"
        stack.close()
        h.upstream.wait(cancelled=readers, active=0)
    until(lambda: h.held_nano_usd(tenant) == 0, what="no open hold")
    assert {row["status"] for row in h.rows(tenant)} == {"interrupted"}


def test_slow_readers_keep_nobody_else_waiting(h: House, tenant: Tenant) -> None:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(begin_flood(tenant.client)).begun()
        stalled(h)
        assert tenant.client.chat().status == 200  # they stay for longer than a client waits


def test_client_that_pipelines_and_reads_nothing_is_read_no_further(h: House) -> None:
    """And has the gateway hold nothing of what it asks, which needs no key."""
    before = resident_bytes(h)
    asked = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n" * 100_000
    hostile = Attack(h.gateway.url, asked, connections=1, is_slow=False, ends=False)
    try:
        sent = -1
        while sent < hostile.sent_bytes:  # until it is taken no more of
            sent = hostile.sent_bytes
            hostile.go_on(1.0)
        assert resident_bytes(h) - before < 16 * 1024 * 1024
        assert h.client.get("/v1/key/balance").status == 200
    finally:
        hostile.leave()
