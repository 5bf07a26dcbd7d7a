"""What a call costs its operator: in the row, in the commands, and in nothing a client is sent."""

from __future__ import annotations

import pytest

from tests.support.house import PRICE, House, channel, model
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
