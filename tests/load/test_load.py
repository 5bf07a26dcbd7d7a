"""Ten seconds of everything at once on real processes, and then nothing may be left over.

Clients that come, stream and leave, upstreams that fail and hang by a seed, a reload in the middle;
afterwards the money is exact, nothing is held, every slot is free and the gateway ends well. How
much it can take is not the question here: that is `ops/load` and `ops/bench`.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.machine import resident_mb
from tests.acceptance.pictures import picture
from tests.load.traffic import KINDS, Traffic
from tests.support.aio import run
from tests.support.house import House, channel, complaints, house, model
from tests.support.scrape import Admin, Page
from tests.support.streams import unlimited
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

SEED = 20
CLIENTS, ACCOUNTS = 64, 8
WARM_SECONDS, SECONDS = 3.0, 10.0
CREDIT_NANO_USD = 100 * 10**9
GROWTH_MB_MAX = 20.0
CHANNELS = ("one", "two", "three")
SETTINGS: dict[str, Any] = {
    # Long enough for the calls that do not hang, on a busy machine too.
    "timeouts": {"chat": 10},
    "channels": [
        channel(name, priority=place, protocols=["chat", "images"])
        for place, name in enumerate(CHANNELS)
    ],
    "models": [model("sim-model", *CHANNELS), picture("picture", *CHANNELS)],
}


def faults(h: House) -> None:
    """The first two channels fail now and then, so that calls move on; the third never does."""
    h.upstream.fault("one", status=503, rate=0.15)
    h.upstream.fault("two", refuse=True, rate=0.15)


def reload(h: House) -> None:
    """Another size for one channel, and one more."""
    first, second, third = h.settings["channels"]
    late = channel("late", priority=first["priority"], protocols=["chat", "images"])
    h.write(
        channels=[first, second, {**third, "max_concurrency": 500}, late],
        models=[model("sim-model", *CHANNELS, "late"), picture("picture", *CHANNELS, "late")],
    )
    h.gateway.popen.send_signal(signal.SIGHUP)
    until(lambda: h.events("configuration_reloaded"), what="the reload")


async def load(h: House, traffic: Traffic) -> float:
    """Run the traffic; returns by how many MB the gateway has grown since it was warm."""
    async with unlimited() as session:
        running = asyncio.create_task(traffic.run(session))
        await asyncio.sleep(WARM_SECONDS)
        warm_mb = resident_mb(h.gateway.popen.pid)
        await asyncio.sleep(SECONDS / 2 - WARM_SECONDS)
        await asyncio.to_thread(reload, h)
        await asyncio.sleep(SECONDS / 2)
        traffic.is_over = True
        await running
    return resident_mb(h.gateway.popen.pid) - warm_mb


def test_nothing_is_left_over_after_load(database_url: str, tmp_path: Path) -> None:
    """The house runs `gw ledger verify` when all has ended."""
    with house(database_url, tmp_path, **SETTINGS) as h:
        tenants = [h.tenant(nano_usd=CREDIT_NANO_USD) for _ in range(ACCOUNTS)]
        faults(h)
        traffic = Traffic(SEED, tenants, CLIENTS)
        grown_mb = run(load(h, traffic), timeout_seconds=300)
        assert_clients_saw_what_they_may(traffic)
        assert_at_rest(h)
        assert_rows_are_those_of_the_calls(h, traffic, tenants)
        assert grown_mb < GROWTH_MB_MAX
        assert len(h.events("configuration_reloaded")) == 1
        assert h.gateway.terminate() == 0
        assert not complaints(h.gateway.lines)
        assert h.query("SELECT * FROM holds") == []
        assert h.query("SELECT * FROM processes") == []


def assert_clients_saw_what_they_may(traffic: Traffic) -> None:
    assert traffic.counted().keys() == KINDS.keys()
    odd = [one for one in traffic.seen if not one.is_as_expected]
    assert not odd, (traffic.seed, len(odd), len(traffic.seen), odd[:5])


def assert_at_rest(h: House) -> None:
    """Nothing is in flight on either side, and every slot is free."""
    h.upstream.wait(active=0)
    admin = Admin(h.gateway.admin_url)
    page = admin.page_when(
        lambda page: not page.total("gw_calls_in_flight") and not page.value("gw_holds_open"),
        what="no call and no hold",
    )
    assert page.series("gw_channel_slots_in_use") == {(name,): 0 for name in (*CHANNELS, "late")}
    assert page.value("gw_channel_slots_limit", "three") == 500
    assert page.value("gw_attempts_total", "late", "ok") > 0
    assert page.value("gw_oldest_hold_seconds") == 0
    assert page.series("gw_actor_restarts_total") == {}
    assert page.value("gw_settle_noops_total") == page.value("gw_ledger_retries_total") == 0


def assert_rows_are_those_of_the_calls(h: House, traffic: Traffic, tenants: list[Tenant]) -> None:
    """Each call has one row that says what its client saw, and each account paid for its rows."""
    rows = {row["request_id"].replace("-", ""): row for one in tenants for row in h.rows(one)}
    traces = [one.trace for one in traffic.seen if one.trace]
    assert len(traces) == len(set(traces))
    assert set(traces) <= rows.keys()
    # A client that left before it saw an answer does not know its trace, nor whether it got in.
    unknown = sum(1 for one in traffic.seen if not one.trace)
    assert len(traces) <= len(rows) <= len(traces) + unknown
    for one in traffic.seen:
        if one.trace:
            assert rows[one.trace]["status"] in KINDS[one.kind].rows, one
    assert sum(len(h.rows(one)) for one in tenants) == len(rows)
    for tenant in tenants:
        spent = sum(row["cost_nano_usd"] for row in h.rows(tenant))
        assert spent > 0
        assert h.balance_nano_usd(tenant) == CREDIT_NANO_USD - spent
        assert h.held_nano_usd(tenant) == 0
    page = Admin(h.gateway.admin_url).page()
    assert page.total("gw_cost_nano_usd_total") == sum(
        row["cost_nano_usd"] for row in rows.values()
    )
    assert Counter(row["status"] for row in rows.values()) == _by_status(page)


def _by_status(page: Page) -> Counter[str]:
    counted: Counter[str] = Counter()
    for (_, _, _, status), count in page.series("gw_calls_total").items():
        counted[status] += int(count)
    return counted
