"""What a call costs, to the nano-USD: cached part, multiplier, rounding, names.

Reference 5.2. The rules one by one are proved in
`tests/unit/wallet`; here they are seen at the balance and in the row.
"""

import json
from typing import Any

from loadtests.rig.client import HELLO, chat_body
from loadtests.rig.deployment import Deployment
from tests.support.rows import each

COSTS = {
    "cached": (
        "sim-model",
        {"input": 1_000, "output": 100, "cached": 400},
        600 * 1_000 + 400 * 100 + 100 * 10_000,
    ),
    "reasoning is output, once": (
        "sim-model",
        {"input": 10, "output": 300, "reasoning": 256},
        10 * 1_000 + 300 * 10_000,
    ),
    "multiplier, cached too": (
        "promoted",
        {"input": 1_000, "output": 100, "cached": 400},
        (600 * 1_000 + 400 * 100 + 100 * 10_000) * 6 // 10,
    ),
    "no cached price": (
        "uncached",
        {"input": 1_000, "output": 100, "cached": 400},
        1_000 * 1_000 + 100 * 10_000,
    ),
    "once, not in parts": ("fine", {"input": 1, "output": 1}, 2),
    "free": ("free", {"input": 1_000_000, "output": 1_000}, 0),
}


@each("stream", [False, True])
@each("name, usage, cost", COSTS.values())
def test_usage_of_the_upstream_is_charged(
    h: Deployment, name: str, usage: dict[str, int], cost: int, stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.chat(model=name, stream=stream, sim={"usage": usage})
    assert reply.status == 200
    assert tenant.client.remaining_nano_usd() == 10**9 - cost
    row = h.row(reply.trace)
    assert (row["status"], row["model"], row["cost_nano_usd"]) == ("success", name, cost)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (
        usage["input"],
        usage["output"],
        usage.get("cached", 0),
    )
    assert (row["error_code"], row["attempts"], row["unit_type"]) == (None, None, None)


# What is stated, what is charged of it, and the counts of the row that are not possible: a maximum
# of 1,000, and no context.
ODD = {
    "half is rounded up": ("fine", {"input": 1, "output": 0}, (1, 4), {}),
    "zeros beside an answer": ("sim-model", {"input": 0, "output": 0}, (9, 4), {}),
    "absurd": (
        "sim-model",
        {"input": 100_000_000, "output": 50_000_000},
        (9, 4),
        {"input": 100_000_000, "output": 50_000_000},
    ),
}


@each("stream", [False, True])
@each("name, usage, tokens, doubted", ODD.values())
def test_odd_usage_of_the_upstream_is_estimated(
    h: Deployment,
    name: str,
    usage: dict[str, int],
    tokens: tuple[int, int],
    doubted: dict[str, int],
    stream: bool,
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.chat(model=name, stream=stream, sim={"usage": usage})
    assert reply.status == 200
    row = h.row(reply.trace)
    assert (row["input_tokens"], row["output_tokens"]) == tokens
    assert tenant.client.remaining_nano_usd() == 10**9 - row["cost_nano_usd"]
    assert row["detail"].get("doubted", {}) == doubted


# With the region's factor of 1.1, and 0.001 USD a request.
DIMENSIONAL = {
    "reasoning apart": (
        {"input": 1_000, "output": 100, "cached": 400, "reasoning": 30},
        600 * 1_100 + 400 * 110 + 70 * 11_000 + 30 * 22_000 + 1_000_000,
    ),
    "above the step": (
        {"input": 100_001, "output": 2, "cached": 100_000, "reasoning": 1},
        2_200 + 100_000 * 110 + 16_500 + 22_000 + 1_000_000,
    ),
}


@each("stream", [False, True])
@each("usage, cost", DIMENSIONAL.values())
def test_every_dimension_of_a_price_is_charged_and_worked_out_again(
    h: Deployment, usage: dict[str, int], cost: int, stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.chat(
        model="dimensions", stream=stream, service_tier="priority", sim={"usage": usage}
    )
    assert reply.status == 200, reply.body
    assert tenant.client.remaining_nano_usd() == 10**9 - cost
    receipt = h.gw("receipt", reply.trace)
    assert (receipt["agrees"], receipt["cost_usd"]) == (True, f"{cost / 10**9:.9f}".rstrip("0"))
    assert h.gw("ledger", "verify", "--costs")["ok"] is True


TIERS = {
    "chat": ("/v1/chat/completions", {"messages": [HELLO]}, "service_tier", "priority"),
    "responses": ("/v1/responses", {"input": "Hello"}, "service_tier", "fast"),
    "messages": ("/v1/messages", {"messages": [HELLO], "max_tokens": 5}, "speed", "fast"),
    "native": (
        "/v1beta/models/sim-model:generateContent",
        {"contents": [{"parts": [{"text": "Hello"}]}]},
        "serviceTier",
        "priority",
    ),
}


@each("path, body, member, tier", TIERS.values())
def test_a_dearer_tier_without_a_price_is_refused_before_any_hold(
    h: Deployment, path: str, body: dict[str, Any], member: str, tier: str
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    named = {} if "generateContent" in path else {"model": "sim-model"}
    reply = tenant.client.send("POST", path, {**named, **body, member: tier})
    assert reply.status == 400
    assert f"{member}: `{tier}` has no price".encode() in reply.body
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("rejected", 0)
    assert "hold" not in (row["detail"] or {})


@each("stream", [False, True])
@each("name", ["canonical", "canonical-latest", "old-name"])
def test_any_name_reaches_the_upstream_as_its_own_and_the_row_as_the_canonical(
    h: Deployment, name: str, stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    request = {"stream_options": {"include_usage": True}} if stream else {}
    body = chat_body(model=name, stream=stream, max_tokens=50, **request)
    sent = json.dumps(body, separators=(",", ":")).encode()
    reply = tenant.client.chat(sent)
    forwarded = sent.replace(f'"{name}"'.encode(), b'"upstream/name-7b"')
    assert h.upstream.last_request()["body"].encode() == forwarded
    # The answer is the upstream's, its name for the model included, byte for byte.
    assert reply.body == h.upstream.serve(forwarded)
    assert b'"model":"upstream/name-7b"' in reply.body
    assert h.row(reply.trace)["model"] == "canonical"
