"""The balance as clients read it: exact right after each call, free, and at any balance.

Spec: Balance; contract §3. And after a crowd of calls that end in every way there is, the ledger
still adds up.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from tests.support.aio import run
from tests.support.client import CHAT, Client, chat_body, nano_usd
from tests.support.house import House
from tests.support.streams import unlimited
from tests.support.tenants import Tenant
from tests.support.waiting import until


def test_balance_is_exact_right_after_each_of_fifty_calls(h: House, tenant: Tenant) -> None:
    expected = 10**9
    for number in range(50):
        usage = {"input": 10 + number, "output": 1 + number % 7, "cached": number % 10}
        reply = tenant.client.chat(stream=number % 2 == 1, sim={"usage": usage})
        assert reply.status == 200
        fresh = usage["input"] - usage["cached"]
        expected -= fresh * 1_000 + usage["cached"] * 100 + usage["output"] * 10_000
        balance = tenant.client.get("/v1/key/balance").json
        assert nano_usd(balance["remaining_usd"]) == expected, number
        assert nano_usd(balance["used_usd"]) == 10**9 - expected
        assert nano_usd(balance["total_usd"]) == 10**9


def _free_endpoints(client: Client) -> dict[str, int]:
    paths = [
        "/v1/models",
        "/api/v1/models/public",
        "/v1/key/balance",
        "/v1/dashboard/billing/subscription",
        "/dashboard/billing/subscription",
        "/v1/dashboard/billing/usage?start_date=2026-01-01&end_date=2026-02-01",
        "/dashboard/billing/usage",
    ]
    return {path: client.get(path).status for path in paths}


def test_free_endpoints_answer_at_zero_and_below(h: House) -> None:
    tenant = h.tenant(nano_usd=0)
    assert set(_free_endpoints(tenant.client).values()) == {200}
    h.gw("account", "topup", tenant.account, "1")
    usage = {"input": 0, "output": 200_000}
    assert tenant.client.chat(max_tokens=10, sim={"usage": usage}).status == 200
    assert h.balance_nano_usd(tenant) == -(10**9)
    assert set(_free_endpoints(tenant.client).values()) == {200}
    balance = tenant.client.get("/v1/key/balance").json
    assert balance == {
        "object": "key.balance",
        "remaining_usd": "0",
        "used_usd": "2",
        "total_usd": "2",
        "expires_at": None,
    }
    assert [row["status"] for row in h.rows(tenant)] == ["success"]


# Kind of call: its body, and how its row ends. A client in LEAVES goes in the middle.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, "success"),
    "stream": ({"stream": True, "sim": {"events": 8, "delay_event_ms": 2}}, "success"),
    "no usage": ({"stream": True, "sim": {"no_usage": True}}, "success"),
    "cached": ({"sim": {"usage": {"input": 90, "output": 9, "cached": 70}}}, "success"),
    "tools": ({"stream": True, "sim": {"tool_calls": 2}}, "success"),
    "refused": ({"sim": {"status": 422, "message": "No."}}, "error"),
    "limited": ({"stream": True, "sim": {"status": 429}}, "error"),
    "failed": ({"sim": {"status": 500}}, "error"),
    "cut": ({"stream": True, "sim": {"events": 9, "cut_after_events": 5}}, "error"),
    "error event": ({"stream": True, "sim": {"events": 9, "error_event": 4}}, "error"),
    "unknown model": ({"model": "nothing"}, "rejected"),
    "too much": ({"max_tokens": 10**9}, "rejected"),
    "leaves a stream": (
        {"stream": True, "sim": {"endless": True, "delay_event_ms": 5}},
        "interrupted",
    ),
    "leaves a plain call": ({"model": "hanging", "sim": {"hang": "headers"}}, "interrupted"),
}
EACH = 12


def test_ledger_adds_up_after_a_crowd_of_every_kind(h: House) -> None:
    tenants = [h.tenant(), h.tenant()]
    calls = [kind for kind in KINDS for _ in range(EACH)]

    async def one(session: Any, tenant: Tenant, kind: str, all_hang: asyncio.Future[None]) -> None:
        body = json.dumps(chat_body(**KINDS[kind][0]))
        headers = {"Authorization": f"Bearer {tenant.key}"}
        post = session.post(tenant.client.url + CHAT, data=body, headers=headers)
        if kind == "leaves a plain call":
            call = asyncio.ensure_future(post)
            await asyncio.wait([all_hang])
            call.cancel()
            await asyncio.wait([call])
            return
        async with post as answer:
            if kind == "leaves a stream":
                await answer.content.readany()
                answer.close()
            else:
                await answer.read()

    async def main() -> None:
        async with unlimited() as session:
            all_hang = asyncio.ensure_future(
                asyncio.to_thread(h.upstream.wait, channel="quiet", active=EACH)
            )
            under_way = asyncio.gather(
                *(one(session, tenants[n % 2], kind, all_hang) for n, kind in enumerate(calls))
            )
            report = await asyncio.to_thread(h.verify)  # it holds at any moment
            assert report["ok"]
            await asyncio.gather(under_way, all_hang)

    run(main())
    until(lambda: all(h.held_nano_usd(tenant) == 0 for tenant in tenants), what="no open hold")
    rows = [row for tenant in tenants for row in h.rows(tenant)]
    assert Counter(row["status"] for row in rows) == Counter(KINDS[kind][1] for kind in calls)
    assert len({row["request_id"] for row in rows}) == len(calls)
    for tenant in tenants:
        spent = sum(row["cost_nano_usd"] for row in h.rows(tenant))
        assert tenant.client.remaining_nano_usd() == 10**9 - spent
    assert h.verify()["ok"]
    # Nothing has kept a place: not at a channel, not among the calls, not in the account's limit.
    h.upstream.wait(active=0)
    assert set(h.metrics("gw_channel_slots_in_use").values()) == {0}
    assert set(h.metrics("gw_calls_in_flight").values()) == {0}
    h.gw("account", "limits", tenants[0].account, "--concurrency", "1")
    assert tenants[0].client.chat().status == 200
