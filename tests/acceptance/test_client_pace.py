"""Clients that leave and clients that read slowly, as the upstream and the gateway feel them.

Reference 2.6: who leaves cancels the upstream at once, and not when the call's time is up, which is
later than any test waits; a slow reader slows the upstream, and the
gateway's memory stays as it was.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.client import HELLO, Call, Client
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)


def sockets_bytes() -> int:
    """What the sockets between an upstream and a client that does not read may hold, at most.

    Send and receive buffers of both connections, as large as this machine lets them grow.
    """
    settings = [Path(f"/proc/sys/net/ipv4/{name}").read_text() for name in ("tcp_rmem", "tcp_wmem")]
    return 2 * sum(int(line.split()[2]) for line in settings)


def resident_bytes(h: Deployment) -> int:
    """The gateway's memory."""
    status = Path(f"/proc/{h.gateway.popen.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def assert_interrupted(h: Deployment, tenant: Tenant, *, is_charged: bool) -> dict[str, Any]:
    """The one row of the tenant says that its client left; what it costs is gone."""
    rows = until(lambda: h.rows(tenant), what="the row")
    (row,) = rows
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    assert (row["cost_nano_usd"] > 0) is is_charged
    assert tenant.client.remaining_nano_usd() == 10**9 - row["cost_nano_usd"]
    assert h.held_nano_usd(tenant) == 0
    return dict(row)


STREAMS = {
    "silent": {"text": "more or less", "hang": 4},
    "slow": {"endless": True, "delay_event_ms": 20},
    "fast": {"endless": True},
}


@pytest.mark.parametrize("sim", STREAMS.values(), ids=STREAMS)
def test_client_that_leaves_a_stream_cancels_it_at_once_and_pays_for_what_it_got(
    h: Deployment, tenant: Tenant, sim: dict[str, Any]
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


def stalled(h: Deployment) -> int:
    """Wait until the upstream writes no more, for nobody reads; how much it had written."""
    seen = [0, 1, 2]
    while len(set(seen)) > 1:
        time.sleep(0.05)  # a pause in which a writer that is not held back writes megabytes
        seen = [*seen[1:], h.upstream.stats()["bytes_sent"]]
    return seen[0]


def begin_flood(client: Client) -> Call:
    sim = {"endless": True}
    return client.begin_chat(stream=True, sim=sim, receive_buffer_bytes=16_384)


def test_slow_reader_slows_the_upstream_and_takes_no_memory(h: Deployment, tenant: Tenant) -> None:
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


def test_slow_readers_of_whole_answers_share_a_bound_and_others_are_served(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    """One account cannot fill the memory with answers that it does not read."""
    readers, size = 16, 8 << 20
    settings: dict[str, Any] = {"max_body_mb": 10, "max_answers_mb": 20}  # 10 MB for one account
    with (
        postgres.database() as url,
        deployment(url, tmp_path, **settings) as h,
        ExitStack() as stack,
    ):
        tenant, other = h.tenant(nano_usd=500 * 10**9), h.tenant(nano_usd=500 * 10**9)
        other.client.chat()
        before = resident_bytes(h)
        sim = {"chars": size}
        for _ in range(readers):
            call = tenant.client.begin_chat(sim=sim, receive_buffer_bytes=16_384)
            stack.enter_context(call)
        h.upstream.wait(requests=readers + 1)
        for _ in range(3):  # and meanwhile those that can be read are
            assert other.client.chat(sim=sim).status == 200
        most = resident_bytes(h) - before
        assert most < 9 * size, f"{most >> 20} MiB for {readers} slow readers"
        stack.close()
        until(lambda: h.held_nano_usd(tenant) == 0, what="no open hold")
