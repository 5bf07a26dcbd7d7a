"""What a call costs its operator: in the row, in the commands, and in nothing a client is sent."""

from __future__ import annotations

import pytest

from tests.support.house import PRICE, House, channel, model
from tests.support.scrape import Admin
from tests.support.tenants import Tenant

# 0.75 USD per million tokens in and 4.5 out, by the bundled list.
LISTED = {"id": "listed", "as": "gpt-5.4-mini"}
SETTINGS = {
    "channels": [
        channel("listed", kind="openai", protocols=["chat"]),
        channel("unlisted", protocols=["chat"]),
    ],
    "models": [
        model("sim-model", LISTED),
        model("strange", "unlisted"),
        model("cheap", LISTED, price={**PRICE, "input": "0.5", "output": "1"}),
    ],
}
USAGE = {"input": 1_000, "output": 10}
UPSTREAM = 1_000 * 750 + 10 * 4_500


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_row_keeps_what_the_operator_pays(h: House, tenant: Tenant, stream: bool) -> None:
    found = {}
    for name in ("sim-model", "strange"):
        reply = tenant.client.chat(model=name, stream=stream, sim={"usage": USAGE})
        row = h.row(reply.trace)
        found[name] = (row["upstream_cost_nano_usd"], row["channel_id"])
        assert row["cost_nano_usd"] == 1_000 * 1_000 + 10 * 10_000
    assert found == {"sim-model": (UPSTREAM, "listed"), "strange": (None, "unlisted")}


def test_no_client_is_shown_it(h: House, tenant: Tenant) -> None:
    reply = tenant.client.chat(sim={"usage": USAGE})
    row = h.row(reply.trace)
    assert row["upstream_cost_nano_usd"] == UPSTREAM
    # In nano-USD, in USD, in the credits of the configuration; and the name of the column.
    shown = {str(UPSTREAM), "0.000795", "0.795", "upstream_c"}
    sent = [reply.body.decode(), str(reply.headers)]
    for path in (
        "/v1/logs",
        f"/v1/logs?trace_id={reply.trace}",
        f"/v1/logs/{row['id']}",
        "/v1/logs/summary",
        "/v1/key/balance",
        "/v1/dashboard/billing/usage",
        "/v1/dashboard/billing/subscription",
        "/v1/models",
    ):
        answered = tenant.client.get(path)
        assert answered.status == 200, path
        sent.append(answered.body.decode())
    assert not [(text, body) for text in shown for body in sent if text in body]


def test_metrics_and_the_command_come_to_what_the_rows_have(h: House, tenant: Tenant) -> None:
    admin = Admin(h.gateway.admin_url)
    before = admin.page()
    for name, count in (("sim-model", 1), ("strange", 2), ("cheap", 3)):
        for _ in range(count):
            tenant.client.chat(model=name, sim={"usage": USAGE})
    page = admin.page()

    def more(family: str) -> dict[tuple[str, ...], float]:
        known = before.series(family)
        found = {key: value - known.get(key, 0) for key, value in page.series(family).items()}
        return {key: value for key, value in found.items() if value}

    assert more("gw_upstream_cost_nano_usd_total") == {
        ("listed", "sim-model"): UPSTREAM,
        ("listed", "cheap"): 3 * UPSTREAM,
    }
    assert more("gw_calls_of_unknown_cost_total") == {("unlisted", "strange"): 2}
    assert more("gw_calls_below_cost_total") == {("listed", "cheap"): 3}
    lines = h.gw("margin", "--by", "account")["rows"]
    (line,) = (one for one in lines if one.pop("account") == tenant.account)
    assert line == {
        "calls": 6,
        "revenue_usd": "0.00483",  # 1.1, twice 1.1, three times 0.51 thousandths
        "cost_usd": "0.00318",
        "margin_usd": "-0.00055",
        "margin_percent": "-20.91",
        "unknown_calls": 2,
        "unknown_revenue_usd": "0.0022",
    }
