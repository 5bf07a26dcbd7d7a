"""What a budget has room for is admitted, and nothing else: over processes, kills and changes.

A call costs what it holds, so that what is admitted can be counted. All of it happens on three
processes, but where a test is about one.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest

from actors.wallet.money import NANO_PER_USD, format_usd
from loadtests.rig.deployment import Deployment, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.response import Disconnected
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until
from tests.acceptance.budgets import current, make

pytestmark = pytest.mark.long

COST = NANO_PER_USD // 100  # of a call, and what it holds
TOKENS = 10
# Nothing but what comes out costs anything, and all that may come out does.
MODELS = [model("sim-model", "one", price={"input": "0", "output": "1000"})]
SETTINGS: dict[str, Any] = {"processes": 3, "models": MODELS}
SIM = {"usage": {"input": 1, "output": TOKENS}}
AT_ONCE = 24
EXPECTED_LOG = ("process_died",)  # one that a test has killed
BORDER_SECONDS = 15.0  # from the first call of a day to its end


def usd(calls: int) -> str:
    """What so many calls cost."""
    return format_usd(calls * COST)


def ask(tenant: Tenant, headers: Mapping[str, str] | None = None, **sim: Any) -> int:
    """The status of one call; 0: its process died."""
    try:
        reply = tenant.client.chat(max_tokens=TOKENS, sim={**SIM, **sim}, headers=headers)
    except (Disconnected, ConnectionError):
        return 0
    return 0 if reply.is_broken else reply.status


def flood(tenant: Tenant, calls: int, headers: Mapping[str, str] | None = None) -> Counter[int]:
    """The statuses of so many calls at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(lambda _: ask(tenant, headers), range(calls)))


def assert_proved(h: Deployment) -> None:
    """No sum is off, none has passed its limit, and no refusal was for nothing."""
    assert h.gw("ledger", "verify")["faults"] == []
    for name in ("gw_budget_overshoot_usd", "gw_budget_phantom_refusals"):
        assert set(h.metrics(name).values()) <= {0.0}, name


@pytest.fixture(scope="module")
def alone(postgres: PostgresForTests) -> Iterator[Deployment]:
    """A deployment of one process."""
    with shared_deployment(postgres, models=MODELS) as built:
        yield built


def test_parallel_calls_are_admitted_as_budgets_have_room(
    shared: Deployment, alone: Deployment
) -> None:
    for h in (shared, alone):
        tenant = h.tenant(nano_usd=100 * NANO_PER_USD)
        made = make(h, tenant, limit_usd=usd(57), period="month")
        each = make(h, tenant, name="each", scope="every_end_user", limit_usd=usd(20), period="day")
        found = flood(tenant, 60, {"x-gateway-end-user": "ann"})
        assert found == {200: 20, 402: 40}
        assert flood(tenant, 30, {"x-gateway-end-user": "bob"}) == {200: 20, 402: 10}
        # Of the first budget 17 are left, and calls for nobody match it alone.
        assert flood(tenant, 40) == {200: 17, 402: 23}
        shown = current(h, made["id"])
        assert (shown["spent"], shown["held"], shown["remaining"]) == (57 * COST, 0, 0)
        for name in ("ann", "bob"):
            assert current(h, each["id"], "--subject", name)["spent"] == 20 * COST
        assert_proved(h)


def test_a_run_has_one_ceiling_over_processes_and_keys(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=100 * NANO_PER_USD)
    other = h.another(tenant)
    run = {"x-gateway-run": "r1"}
    assert flood(tenant, 30, run) == {200: 30}  # before anybody names one, nothing counts
    capped = {**run, "x-gateway-run-max-usd": usd(25)}
    with ThreadPoolExecutor(3) as pool:
        floods = [
            pool.submit(flood, one, 20, headers)
            for one, headers in ((tenant, capped), (other, run), (other, capped))
        ]
        admitted = [one.result() for one in floods]
    # Of the calls that name none some may have been before the ceiling.
    named = admitted[0][200] + admitted[2][200]
    assert named <= 25 <= named + admitted[1][200]
    assert flood(other, 5, run) == {402: 5}
    assert flood(other, 5, {"x-gateway-run": "r2"}) == {200: 5}
    assert_proved(h)


def test_killed_processes_leave_a_budget_exact(h: Deployment) -> None:
    limit = 150
    tenant = h.tenant(nano_usd=100 * NANO_PER_USD)
    made = make(h, tenant, limit_usd=usd(limit))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        calls = [pool.submit(ask, tenant, delay_headers_ms=100) for _ in range(90)]
        killed = [0]
        for _ in range(2):
            time.sleep(0.15)
            found_pids = h.query(
                "SELECT pid FROM processes WHERE buried_at IS NULL AND pid <> ALL (%s) AND id"
                " IN (SELECT process_id FROM leases WHERE account_id = %s"
                " UNION SELECT process_id FROM holds WHERE account_id = %s)",
                *(killed, tenant.account, tenant.account),
            )
            for row in found_pids[:1]:
                os.kill(row["pid"], signal.SIGKILL)
                killed.append(row["pid"])
        found = Counter(call.result() for call in calls)
    assert found[402] == 0, found
    until(lambda: current(h, made["id"])["held"] == 0, what="the holds of the dead")
    spent = current(h, made["id"])["spent"]
    assert spent is not None
    assert spent <= limit * COST
    left = (limit * COST - spent) // COST
    found = flood(tenant, left + 30)
    assert (found[200], found[402]) == (left, 30), found
    assert_proved(h)


def test_changed_limits_are_in_force_when_the_answer_is_there(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=100 * NANO_PER_USD)
    made = make(h, tenant, limit_usd=usd(10))
    is_over, seen = Event(), Counter[int]()

    def call_on() -> None:
        while not is_over.is_set():
            seen[ask(tenant)] += 1

    threads = [Thread(target=call_on) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for limit in (40, 20, 60, 0, 90, 75, 120):
            h.gw("budget", "set", made["id"], "--limit-usd", usd(limit))
            before = current(h, made["id"])
            taken = (before["spent"] or 0) + (before["held"] or 0)
            time.sleep(0.4)
            after = current(h, made["id"])["spent"]
            # Calls under way are not cut, and nothing more is admitted than fits.
            assert (after or 0) <= max(taken, limit * COST)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert set(seen) == {200, 402}, seen
    spent = current(h, made["id"])["spent"] or 0
    assert spent == seen[200] * COST
    left = 120 - seen[200]
    assert flood(tenant, left + 20) == Counter({200: left, 402: 20})
    assert_proved(h)


@contextmanager
def border_ahead(h: Deployment) -> Iterator[tuple[str, float, float]]:
    """Let a day end soon, by the clock that budgets go by, which is put ahead.

    Yields the time zone of that day, the Unix times of its midnight and of when that comes.
    """
    now = datetime.now(UTC)
    minutes = (1438 - now.hour * 60 - now.minute) % 1440
    minutes -= 1440 if minutes > 720 else 0
    sign = "-" if minutes < 0 else "+"
    zone = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    midnight = now.replace(second=0, microsecond=0).timestamp() + 120
    comes = now.timestamp() + BORDER_SECONDS
    right = [
        row["text"]
        for row in h.query(
            "SELECT pg_get_functiondef(oid) AS text FROM pg_proc"
            " WHERE proname IN ('budget_now', 'budget_leased')"
        )
    ]
    ahead = f"(clock_timestamp() + interval '{midnight - comes} seconds')"
    wrong = [text.replace("clock_timestamp()", ahead) for text in right]
    assert all(text.count(ahead) == 1 for text in wrong), wrong
    try:
        define(h, wrong)
        yield zone, midnight, comes
    finally:
        define(h, right)


def define(h: Deployment, functions: list[str]) -> None:
    with transaction(h.settings["database_url"]) as cursor:
        for text in functions:
            cursor.execute(text)


def test_a_period_ends_at_its_border_and_calls_stay_in_theirs(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=100 * NANO_PER_USD)
    with border_ahead(h) as (zone, midnight, comes), ThreadPoolExecutor(5) as pool:
        made = make(h, tenant, limit_usd=usd(30), period="day", time_zone=zone)
        assert flood(tenant, 20) == {200: 20}
        # They end when the day is over.
        delay = round(1000 * (comes - time.time())) + 2000
        late = [pool.submit(ask, tenant, delay_headers_ms=delay) for _ in range(5)]
        until(lambda: current(h, made["id"])["held"] == 5 * COST, what="five calls")
        assert flood(tenant, 15) == {200: 5, 402: 10}
        until(lambda: ask(tenant) == 200, what="the next day")
        assert time.time() >= comes
        assert flood(tenant, 50) == {200: 29, 402: 21}
        assert [one.result() for one in late] == [200] * 5
        today = current(h, made["id"])
    assert (today["spent"], today["held"]) == (30 * COST, 0)
    instant = datetime.fromtimestamp(midnight - 1, UTC).isoformat().replace("+00:00", "Z")
    yesterday = current(h, made["id"], "--at", instant)
    assert (yesterday["spent"], yesterday["held"]) == (30 * COST, 0)
    assert_proved(h)


def test_while_the_database_is_away_calls_go_on_as_far_as_budgets_are_leased(
    alone: Deployment, postgres: PostgresForTests
) -> None:
    h = alone
    tenant = h.tenant(nano_usd=1000 * NANO_PER_USD)
    made = make(h, tenant, limit_usd=usd(400), period="month")
    until(
        lambda: ask(tenant) == 200 and leased(h, made["id"]) > 3 * COST,
        what="a lease of the budget",
    )
    with postgres.away(h.settings["database_url"]):
        found = Counter(ask(tenant) for _ in range(3))
        assert found == {200: 3}, found
        until(lambda: ask(tenant) == 503, what="the end of the lease")
    until(lambda: ask(tenant) == 200, what="the ledger again")
    h.settled(tenant)  # what was admitted meanwhile
    shown = current(h, made["id"])
    spent = shown["spent"] or 0
    assert shown["held"] == 0
    left = 400 - spent // COST
    assert flood(tenant, left + 20) == Counter({200: left, 402: 20})
    assert_proved(h)


def leased(h: Deployment, budget_id: str) -> int:
    """Nano-USD of a budget that processes lease."""
    (row,) = h.query(
        "SELECT coalesce(sum(amount_nano_usd), 0)::bigint AS sum FROM budget_leases"
        " WHERE budget_id = %s",
        budget_id,
    )
    return int(row["sum"])
