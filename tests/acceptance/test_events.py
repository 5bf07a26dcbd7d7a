"""Events as operators pull them, and what becomes of them when the gateway is killed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.client import Client, nano_usd
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.test_admin_api import AdminClient, client, send
from tests.support.console import visitor
from tests.support.rows import each

SETTINGS: dict[str, Any] = {
    "processes": 2,
    "console_listen": A_KNOWN_PORT,
    "events": {"call_settled": True},
}


@pytest.fixture(scope="module")
def admin(shared: Deployment) -> AdminClient:
    return client(shared, "read")


def pulled(admin: AdminClient, query: str) -> Iterator[dict[str, Any]]:
    """Every event of a query, page by page, to the end as it is when that is reached."""
    cursor = ""
    while True:
        reply = admin.get(f"events?limit=3&{query}{cursor}")
        assert reply.status == 200, reply
        yield from reply.json["data"]
        if not reply.json["data"]:
            return
        cursor = f"&cursor={reply.json['next_cursor']}"


def test_what_happens_to_an_account_is_pulled_in_order(h: Deployment, admin: AdminClient) -> None:
    account = h.gw("account", "create", "Ann", "--credit-usd", "2")["id"]
    key = h.gw("key", "create", "--account", account, "--name", "laptop")
    h.gw("account", "alerts", account, "--below-usd", "1.9999999")
    caller = Client(h.gateway.url, key["key"])
    named = {"x-gateway-run": "r/1", "x-gateway-labels": "team=a, feature=b"}
    trace = caller.chat(headers=named).trace
    (row,) = caller.get("/v1/logs").json["data"]
    h.gw("account", "correct", account, "-1", "--reason", "r")
    h.gw("key", "revoke", key["id"])

    def found() -> list[dict[str, Any]]:
        events = list(pulled(admin, f"account_id={account}"))
        return events if any(one["type"] == "call.settled" for one in events) else []

    events = until(found, what="the event of the call")
    assert Counter(one["type"] for one in events) == Counter(
        [
            *("account.created", "key.created", "account.updated"),
            *("call.settled", "balance.low", "key.revoked"),
        ]
    )
    numbers = [one["sequence"] for one in events]
    assert numbers == sorted(set(numbers))
    (call,) = (one["data"] for one in events if one["type"] == "call.settled")
    assert (call["request_id"], call["run"]) == (trace, "r/1")
    assert nano_usd(call.pop("cost_usd")) == h.row(trace)["cost_nano_usd"]
    assert call == row
    (low,) = (one["data"] for one in events if one["type"] == "balance.low")
    assert low["threshold_usd"] == "1.9999999"
    assert [one["id"] for one in pulled(admin, f"account_id={account}&type=key.revoked")] == [
        events[-1]["id"]
    ]
    by_command = h.gw("events", "list", "--account", account)
    assert [one["id"] for one in by_command["events"]] == [one["id"] for one in events]
    assert by_command["next_cursor"]
    assert key["key"] not in str(events)
    until(lambda: sum(h.metrics("gw_events_total").values()) >= len(events), what="their count")


def test_budgets_tell_of_themselves_in_the_same_order(
    h: Deployment, admin: AdminClient, tenant: Tenant
) -> None:
    named = ("--name", "all", "--scope", "account", "--period", "total", "--action", "warn")
    limits = ("--limit-usd", "0.0000001", "--warn-at", "50")
    budget = h.gw("budget", "create", "--account", tenant.account, *named, *limits)["id"]
    assert tenant.client.chat().status == 200

    def found() -> list[dict[str, Any]]:
        events = list(pulled(admin, f"account_id={tenant.account}"))
        kinds = {one["type"] for one in events}
        return events if {"call.settled", "budget.exhausted"} <= kinds else []

    events = until(found, what="the budget's events")
    told = [one for one in events if one["type"].startswith("budget.")]
    assert [(one["type"], one["data"]["percent"]) for one in told] == [
        ("budget.warning", 50),
        ("budget.exhausted", 100),
    ]
    assert set(told[0]["data"]) == {
        *("budget_id", "name", "scope", "subject", "percent", "limit_usd", "spent_usd"),
        *("held_usd", "period_from", "resets_at"),
    }
    assert {one["data"]["budget_id"] for one in told} == {budget}


@each(
    "query",
    ["type=key.lost", "type=webhook.test", "cursor=AAAA", "cursor=", "limit=0", "limit=201", "x=1"],
)
def test_a_query_that_is_none_is_refused(admin: AdminClient, query: str) -> None:
    reply = admin.get(f"events?{query}")
    assert (reply.status, reply.code) == (400, "invalid_request")


def test_events_are_for_operators(h: Deployment, admin: AdminClient, tenant: Tenant) -> None:
    assert send(h.gateway.admin_url, "GET", "events").status == 401
    assert admin.get("events?account_id=acct_nobody").code == "account_not_found"
    operator = visitor(h)
    h.gw("account", "alerts", tenant.account, "--below-usd", "5")
    page = operator.get("/events")
    assert page.status_code == 200
    assert "account.updated" in page.text
    assert "balance_alerts_usd" in page.text


def test_a_cursor_expires_with_what_is_kept(database_url: str, tmp_path: Path) -> None:
    with deployment(database_url, tmp_path, events={"keep_days": 0.00002}) as h:
        admin = client(h, "read")
        h.gw("account", "create", "Ann")
        cursor = admin.get("events").json["next_cursor"]
        until(lambda: admin.get(f"events?cursor={cursor}").status == 410, what="its end")
        reply = admin.get(f"events?cursor={cursor}")
        assert reply.code == "cursor_expired"


@pytest.mark.long
def test_each_call_has_one_event_through_many_kills(database_url: str, tmp_path: Path) -> None:
    """Clients call while the gateway is killed thrice; a reader follows and numbers meanwhile."""
    settings: dict[str, Any] = {"events": {"call_settled": True}}
    with deployment(database_url, tmp_path, **settings) as h, ThreadPoolExecutor(8) as pool:
        tenants = [h.tenant() for _ in range(4)]

        def call(number: int) -> None:
            with suppress(OSError):  # the gateway is dead, or not there yet
                Client(h.gateway.url, tenants[number % 4].key).chat(stream=number % 2 == 0)

        def half(running: Sequence[Future[None]]) -> bool:
            return 2 * sum(one.done() for one in running) >= len(running)

        for _ in range(3):
            h.upstream.fault("one", delay_headers_ms=20)
            running = [pool.submit(call, number) for number in range(80)]
            until(partial(half, running), what="half of the calls")
            h.gateway.kill()
            for one in running:
                one.result()
            h.gateway.close()
            h.start()
        until(
            lambda: h.query("SELECT count(*) AS n FROM holds")[0]["n"] == 0, what="every call ended"
        )
        admin = client(h, "read")
        events = list(pulled(admin, "type=call.settled"))
        rows = h.query("SELECT id FROM call_logs ORDER BY id")
        corrected = h.query("SELECT row_id AS id FROM call_log_corrections")
        assert Counter(one["data"]["id"] for one in events) == Counter(
            one["id"] for one in (*rows, *corrected)
        )
        assert len(rows) >= 100
        report = h.verify()
        assert report["ok"]
        assert report["counts"]["events"] >= len(events)
