"""`GET /v1/logs/summary` over HTTP: its shape, its figures, and that it holds for its minute."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.house import House
from tests.support.rows import each
from tests.support.tenants import Tenant

SUMMARY = "/v1/logs/summary"


def summary(tenant: Tenant, query: str = "") -> dict[str, Any]:
    reply = tenant.client.get(f"{SUMMARY}?{query}")
    assert reply.status == 200, reply
    body: dict[str, Any] = reply.json
    return body


def test_figures_are_those_of_the_calls(h: House, tenant: Tenant) -> None:
    usage = {"usage": {"input": 1000, "output": 20, "cached": 400}}
    tenant.client.chat(sim=usage)
    tenant.client.chat(model="other-model", sim=usage)
    tenant.client.chat(model="other-model", sim=usage)
    tenant.client.chat(sim={"status": 422})
    tenant.client.chat(model="nothing")
    days = [row["created_at"].astimezone(UTC).date().isoformat() for row in h.rows(tenant)]
    found = summary(tenant)
    assert list(found) == [
        *("object", "currency", "scope", "period_from", "period_to"),
        *("total", "status_counts", "by_day", "by_model"),
    ]
    assert (found["object"], found["currency"], found["scope"]) == (
        "logs.summary",
        "points",
        "key",
    )
    begin, end = (datetime.fromisoformat(found[name]) for name in ("period_from", "period_to"))
    assert end - begin == timedelta(days=30)
    assert found["total"] == {
        "requests": 5,
        "cost": "2.52",
        "input_tokens": 3000,
        "output_tokens": 60,
        "cached_tokens": 1200,
    }
    assert found["status_counts"] == {"success": 3, "error": 1, "interrupted": 0, "rejected": 1}
    assert [day["date"] for day in found["by_day"]] == sorted(set(days))
    assert list(found["by_day"][0]) == ["date", *found["total"]]
    assert sum(day["requests"] for day in found["by_day"]) == 5
    assert found["by_model"] == [
        {"model": "other-model", "requests": 2, "cost": "1.68", "total_tokens": 2040},
        {"model": "sim-model", "requests": 2, "cost": "0.84", "total_tokens": 1020},
        {"model": "nothing", "requests": 1, "cost": "0", "total_tokens": 0},
    ]


def test_an_answer_holds_for_its_minute_and_no_longer(h: House, tenant: Tenant) -> None:
    """Asked twice with a call between. When a minute ends meanwhile, it is tried again."""
    for _ in range(3):
        tenant.client.chat()
        minute = time.time() // 60
        before = tenant.client.get(SUMMARY)
        tenant.client.chat()
        after = tenant.client.get(SUMMARY)
        fresh = tenant.client.get(f"{SUMMARY}?period=7d").json
        if time.time() // 60 == minute:
            assert after.body == before.body
            assert fresh["total"]["requests"] == before.json["total"]["requests"] + 1
            return
    pytest.fail("three minutes ended one after the other")


@each(
    "query",
    [
        "period=all",
        "period=90d",
        "model=sim-model",
        "status=success",
        "unit_type=chat",
        "error_code=x",
        "ref=x",
        "from=2024-01-01&to=2024-12-31",
        "from=2026-01-01",
        "to=2026-01-01",
        "scope=nobody",
        "key_id=key_1",
    ],
)
def test_what_a_summary_does_not_take_is_400(h: House, query: str) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.get(f"{SUMMARY}?{query}")
    assert reply.refusal == (400, "invalid_request_error", "invalid_request")
    assert reply.headers["x-ratelimit-remaining"] == "59"
