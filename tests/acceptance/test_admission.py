"""What lets a call in under a crowd: the pre-charge, exact to the nano-USD.

Reference 5.3. Estimates are in `tests/unit/calls`.
"""

import asyncio
import json
from typing import Any

import pytest

from gw.api.checks import OUT_OF_FUNDS
from loadtests.rig.async_connection import chat
from loadtests.rig.client import HELLO
from loadtests.rig.deployment import Deployment
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.support.aio import run

IN, OUT = 1_000, 10_000  # nano-USD for one token of an ordinary model
HELLO_BYTES = len(json.dumps([HELLO], separators=(",", ":")))
HELLO_TOKENS = -(-HELLO_BYTES // 4)
NOT_COVERED = (
    "The balance does not cover the estimated cost of this request. "
    "Top up the account, or send a smaller max_tokens."
)


def refused(message: str) -> dict[str, Any]:
    """The whole body of a 402."""
    return {"error": {"message": message, "type": "insufficient_quota", "code": "quota_exceeded"}}


def chat_at_once(tenant: Tenant, count: int, **members: Any) -> list[Response]:
    """So many calls at the same moment; all have been answered."""

    async def main() -> list[Response]:
        calls = (chat(tenant.client.url, tenant.key, **members) for _ in range(count))
        return await asyncio.gather(*calls)

    return run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_balance_for_ten_admits_exactly_ten_of_a_hundred(h: Deployment, stream: bool) -> None:
    # Each costs what was held for it, so that a settlement sets nothing free.
    max_tokens = 7
    cost = HELLO_TOKENS * IN + max_tokens * OUT
    tenant = h.tenant(nano_usd=10 * cost)
    sim = {"usage": {"input": HELLO_TOKENS, "output": max_tokens}, "delay_headers_ms": 50}
    replies = chat_at_once(tenant, 100, stream=stream, max_tokens=max_tokens, sim=sim)
    admitted = [reply for reply in replies if reply.status == 200]
    turned_away = [reply for reply in replies if reply.status == 402]
    assert (len(admitted), len(turned_away)) == (10, 90)
    assert h.upstream.stats()["requests"] == 10
    # Which of the two it is depends on whether a hold came in between.
    bodies = [refused(NOT_COVERED), refused(OUT_OF_FUNDS)]
    assert all(reply.json in bodies for reply in turned_away)
    assert all(reply.is_complete for reply in admitted) or not stream
    assert tenant.client.remaining_nano_usd() == 0
    rows = h.rows(tenant)
    assert len(rows) == 100
    assert {row["request_id"].replace("-", "") for row in rows} == {r.trace for r in replies}
    assert sorted(row["status"] for row in rows) == ["rejected"] * 90 + ["success"] * 10
    assert {row["cost_nano_usd"] for row in rows if row["status"] == "success"} == {cost}
    assert {row["error_code"] for row in rows if row["status"] == "rejected"} == {"quota_exceeded"}
    assert (h.balance_nano_usd(tenant), h.held_nano_usd(tenant)) == (0, 0)


def test_calls_under_way_hold_their_whole_estimate(h: Deployment) -> None:
    """They hang at the upstream, so nothing but their holds keeps the others out."""
    hold = HELLO_TOKENS * IN + 100 * OUT
    tenant = h.tenant(nano_usd=4 * hold - 1)
    hanging = [tenant.client.begin_chat(max_tokens=100, sim={"hang": "headers"}) for _ in range(3)]
    h.upstream.wait(active=3)
    until(lambda: h.held_nano_usd(tenant) == 3 * hold, what="their holds written")
    assert tenant.client.remaining_nano_usd() == hold - 1
    reply = tenant.client.chat(max_tokens=100)
    assert (reply.status, reply.json) == (402, refused(NOT_COVERED))
    assert h.upstream.stats()["requests"] == 3
    # Leaving gives everything back: nothing was delivered.
    for call in hanging:
        call.leave()
    until(lambda: h.held_nano_usd(tenant) == 0, what="holds given back")
    assert tenant.client.remaining_nano_usd() == 4 * hold - 1
    assert tenant.client.chat(max_tokens=100).status == 200
