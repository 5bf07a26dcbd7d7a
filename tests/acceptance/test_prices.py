"""What a call costs, to the nano-USD: cached part, multiplier, rounding, estimate, names.

Spec: Account wallet, billing; contract §3 and §7. The rules one by one are proved in
`tests/unit/wallet`; here they are seen at the balance and in the row.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.client import HELLO, chat_body
from tests.support.house import House
from tests.support.tenants import Tenant

HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])

COSTS = {
    "fresh": ("sim-model", {"input": 1_000, "output": 100}, 1_000 * 1_000 + 100 * 10_000),
    "cached": (
        "sim-model",
        {"input": 1_000, "output": 100, "cached": 400},
        600 * 1_000 + 400 * 100 + 100 * 10_000,
    ),
    "all cached": ("sim-model", {"input": 64, "output": 1, "cached": 64}, 64 * 100 + 10_000),
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
    "half is rounded up": ("fine", {"input": 1, "output": 0}, 1),
    "once, not in parts": ("fine", {"input": 1, "output": 1}, 2),
    "half of five": ("fine", {"input": 2, "output": 1}, 3),
    "zero is no usage missing": ("sim-model", {"input": 0, "output": 0}, 0),
    "free": ("free", {"input": 1_000_000, "output": 1_000_000}, 0),
}


@BOTH
@pytest.mark.parametrize(("name", "usage", "cost"), COSTS.values(), ids=COSTS)
def test_usage_of_the_upstream_is_charged(
    h: House, tenant: Tenant, name: str, usage: dict[str, int], cost: int, stream: bool
) -> None:
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


TOOL = {"name": "look", "arguments": '{"q":"zwölf"}'}
ANSWERS = {
    "text": ({"text": "x" * 41}, 11),
    "characters, not bytes": ({"text": "世界🌍!"}, 1),
    "one character": ({"text": "x"}, 1),
    "tool calls": ({"tool_calls": [TOOL]}, 5),  # 4 and 13 characters
    "thinking": ({"reasoning_text": "y" * 8, "text": "x" * 8}, 4),
}


@BOTH
@pytest.mark.parametrize(("sim", "output_tokens"), ANSWERS.values(), ids=ANSWERS)
def test_answer_without_usage_is_estimated(
    h: House, tenant: Tenant, sim: dict[str, Any], output_tokens: int, stream: bool
) -> None:
    reply = tenant.client.chat(stream=stream, sim={**sim, "no_usage": True})
    cost = HELLO_TOKENS * 1_000 + output_tokens * 10_000
    assert tenant.client.remaining_nano_usd() == 10**9 - cost
    row = h.row(reply.trace)
    assert (row["status"], row["input_tokens"], row["output_tokens"], row["cost_nano_usd"]) == (
        "success",
        HELLO_TOKENS,
        output_tokens,
        cost,
    )
    assert row["detail"]["basis"] == "estimated"


@BOTH
@pytest.mark.parametrize("name", ["canonical", "canonical-latest", "old-name"])
def test_any_name_reaches_the_upstream_as_its_own_and_the_row_as_the_canonical(
    h: House, tenant: Tenant, name: str, stream: bool
) -> None:
    asked = {"stream_options": {"include_usage": True}} if stream else {}
    body = chat_body(model=name, stream=stream, max_tokens=50, **asked)
    sent = json.dumps(body, separators=(",", ":")).encode()
    reply = tenant.client.chat(sent)
    forwarded = sent.replace(f'"{name}"'.encode(), b'"upstream/name-7b"')
    assert h.upstream.last_request()["body"].encode() == forwarded
    # The answer is the upstream's, its name for the model included, byte for byte.
    assert reply.body == h.upstream.answer(forwarded)
    assert b'"model":"upstream/name-7b"' in reply.body
    assert h.row(reply.trace)["model"] == "canonical"
