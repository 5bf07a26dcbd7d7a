"""The balance as clients read it: exact right after each call, free, and at any balance.

Reference 5.10.
"""

from loadtests.rig.client import Client, nano_usd
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant


def test_balance_is_exact_right_after_each_of_fifty_calls(h: Deployment, tenant: Tenant) -> None:
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


def test_free_endpoints_answer_at_zero_and_below(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=0)
    assert set(_free_endpoints(tenant.client).values()) == {200}
    h.gw("account", "topup", tenant.account, "1")
    # Twice the maximum is still believed, and the hold was for the maximum.
    usage = {"input": 20_000, "output": 198_000}
    assert tenant.client.chat(max_tokens=99_000, sim={"usage": usage}).status == 200
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
