"""`GET /v1/logs/{id}`: what was asked, what the upstream said, and a cost that adds up by hand.

Reference 6.4. The cost is worked out from the pairs alone, as the owner
of an account would with a pencil.
"""

import json
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

SUPPLIERS = ("supplier-alpha", "supplier-beta", "supplier-gamma")
SECRETS = ("supplier-", "key-of-", "127.0.0.1", "sk-platform")
SETTINGS: dict[str, Any] = {
    "channels": [*(channel(name, priority=place) for place, name in enumerate(SUPPLIERS, start=1))],
    "models": [
        model("sim-model", *SUPPLIERS),
        model(
            "promoted",
            "supplier-alpha",
            multiplier="0.3",
            price={"input": "1.25", "output": "9.99", "cached_input": "0.0625"},
            aliases=["promoted-latest"],
        ),
    ],
}
USAGE = {"input": 1000, "output": 77, "cached": 333}


class Detail:
    """The detail view of one call, its pairs as mappings."""

    def __init__(self, reply: Response) -> None:
        assert reply.status == 200, reply.body
        whole = reply.json
        assert list(whole) == ["id", "kind", "request", "upstream", "gateway", "request_note"]
        for name in ("request", "upstream", "gateway"):
            assert all(list(pair) == ["k", "v"] for pair in whole[name])
            assert all(isinstance(text, str) for pair in whole[name] for text in pair.values())
        assert not any(name.encode() in reply.body for name in SECRETS), reply.body
        self.whole = whole
        self.request = pairs(whole["request"])
        self.upstream = pairs(whole["upstream"])
        self.gateway = pairs(whole["gateway"])


def pairs(listed: list[dict[str, str]]) -> Mapping[str, str]:
    found = {pair["k"]: pair["v"] for pair in listed}
    assert len(found) == len(listed), "a name is there twice"
    return found


def detail_of(h: Deployment, tenant: Tenant, trace: str) -> Detail:
    """The detail of the call with this trace id, checked against its row and by hand."""
    row = h.row(trace)
    detail = Detail(tenant.client.get(f"/v1/logs/{row['id']}"))
    assert detail.whole["id"] == row["id"]
    assert detail.gateway["trace_id"] == trace
    assert detail.gateway["status"] == row["status"]
    assert Decimal(detail.gateway["cost_usd"]) * 10**9 == row["cost_nano_usd"]
    assert Decimal(detail.gateway["cost_credits"]) == Decimal(detail.gateway["cost_usd"]) * 1000
    if "price_multiplier" in detail.gateway:
        assert by_hand(detail.gateway) == row["cost_nano_usd"]
    else:
        assert row["cost_nano_usd"] == 0
    assert h.gw("receipt", str(row["id"]))["agrees"]
    return detail


def by_hand(gateway: Mapping[str, str]) -> int:
    """Counts times prices, times the multiplier, rounded half up: in nano-USD."""
    total = Decimal(0)
    for bucket in ("input_uncached", "input_cached", "input_cache_write", "output"):
        if f"tokens_{bucket}" in gateway:
            price = Decimal(gateway[f"price_{bucket}_usd_per_1m"])
            total += Decimal(gateway[f"tokens_{bucket}"]) * price / 1_000_000
    total *= Decimal(gateway["price_multiplier"]) * 10**9
    return int(total.quantize(Decimal(1), rounding=ROUND_HALF_UP))


@each("stream", [False, True])
def test_success_shows_what_was_requested_answered_and_paid(h: Deployment, stream: bool) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.chat(
        model="promoted-latest",
        stream=stream,
        max_tokens=500,
        temperature=0.5,
        stop=["never"],
        sim={"usage": {**USAGE, "reasoning": 12}},
    )
    found = detail_of(h, tenant, reply.trace)
    assert (found.whole["kind"], found.whole["request_note"]) == (None, None)
    assert found.request == {
        "model": "promoted-latest",
        "stream": json.dumps(stream),
        "max_tokens": "500",
        "temperature": "0.5",
        "stop": "1",
        "messages": "1",
    }
    assert found.upstream["http_status"] == "200"
    assert found.upstream["finish_reason"] == "stop"
    assert found.upstream["usage_input"] == "1000"
    assert found.upstream["usage_cached"] == "333"
    assert found.upstream["usage_reasoning"] == "12"
    gateway = found.gateway
    assert gateway["model"] == "promoted"
    assert gateway["protocol"] == "chat_completions"
    assert gateway["channel_1"] == "chat_completions, native: attempt 1"
    assert gateway["attempt_1"].startswith("channel 1 answered after ")
    assert (gateway["tokens_input_uncached"], gateway["tokens_input_cached"]) == ("667", "333")
    assert (gateway["tokens_output"], gateway["tokens_output_reasoning"]) == ("77", "12")
    assert gateway["price_multiplier"] == "0.3"
    assert gateway["usage"] == "stated by the upstream"
    # (667 x 1.25 + 333 x 0.0625 + 77 x 9.99) x 0.3 / 1000000
    assert gateway["cost_usd"] == "0.000487138"
    assert gateway["cost_computed"].startswith(
        "(667 x 1.25 + 333 x 0.0625 + 77 x 9.99) x 0.3 / 1000000 = 0.000487138"
    )
    hold = (int(gateway["hold_input_tokens"]) * Decimal("1.25") + 500 * Decimal("9.99")) * 300
    assert Decimal(gateway["hold_usd"]) * 10**9 == hold.quantize(Decimal(1), rounding=ROUND_HALF_UP)


def test_failed_channels_are_shown_by_their_places(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("supplier-alpha", status=500)
    h.upstream.fault("supplier-beta", refuse=True)
    reply = tenant.client.chat(sim={"usage": USAGE})
    gateway = detail_of(h, tenant, reply.trace).gateway
    assert gateway["channels_considered"] == "3"
    assert gateway["channel_3"] == "chat_completions, native: attempt 3"
    assert gateway["attempt_1"].startswith("channel 1 failed after ")
    assert "upstream_500" in gateway["attempt_1"]
    assert gateway["attempt_2"].startswith("channel 2 could not be reached after ")
    assert gateway["attempt_3"].startswith("channel 3 answered after ")


@each("stream", [False, True])
def test_estimated_call_tells_what_the_estimate_rests_on(h: Deployment, stream: bool) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.chat(stream=stream, sim={"text": "nine char", "no_usage": True})
    found = detail_of(h, tenant, reply.trace)
    assert found.gateway["usage"].startswith("estimated: ")
    assert found.gateway["characters_delivered"] == "9"
    assert found.gateway["tokens_output"] == "3"
    assert "usage_input" not in found.upstream


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too dear": ({"max_tokens": 10**9}, "quota_exceeded"),
    "no model": ({"model": "sk-" + "a1" * 20}, "model_not_found"),
}


@each("members, code", REFUSED.values())
def test_refused_call_keeps_what_was_read(
    h: Deployment, tenant: Tenant, members: dict[str, Any], code: str
) -> None:
    reply = tenant.client.chat(**members)
    found = detail_of(h, tenant, reply.trace)
    assert (found.gateway["status"], found.gateway["error_code"]) == ("rejected", code)
    assert found.request["messages"] == "1"
    assert "a1a1a1a1" not in json.dumps(found.whole)
    assert found.upstream == {}
    if code == "quota_exceeded":
        assert Decimal(found.gateway["hold_refused_usd"]) > 10_000


def test_call_refused_before_its_parameters_were_read_says_so(
    h: Deployment, tenant: Tenant
) -> None:
    reply = tenant.client.chat(b"{")
    found = detail_of(h, tenant, reply.trace)
    assert found.request == {}
    assert "before its parameters were read" in found.whole["request_note"]


def test_row_out_of_sight_is_as_good_as_none(h: Deployment, tenant: Tenant) -> None:
    mine = h.row(tenant.client.chat().trace)["id"]
    stranger, other = h.tenant(account_logs=True), h.another(tenant)
    whole = h.another(tenant, account_logs=True)
    employee = h.another(tenant, account_logs=True, kind="employee")
    assert tenant.client.get(f"/v1/logs/{mine}").status == 200
    assert whole.client.get(f"/v1/logs/{mine}").status == 200
    unseen = [
        (stranger, mine),
        (other, mine),
        (employee, mine),
        *((tenant, name) for name in ("0", "9" * 19, "9" * 40, "-1", "1.0", "x", "%00", "%20")),
        (tenant, h.rows(tenant)[0]["request_id"]),
    ]
    for reader, name in unseen:
        reply = reader.client.get(f"/v1/logs/{name}")
        assert reply.refusal == (404, "invalid_request_error", "log_not_found"), name
        assert reply.headers["x-ratelimit-limit"] == "60"
