"""What lets a call in: the pre-charge, exact to the nano-USD, alone and under a crowd.

Spec: Limits, Chat pre-charge; contract §3 and §7. Each estimate is proved from both sides: an
account with exactly that much is let in, one nano-USD less is not.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gw.api.checks import OUT_OF_FUNDS
from tests.support.aio import run
from tests.support.client import CHAT, HELLO, Reply, chat_body
from tests.support.house import House
from tests.support.rows import each
from tests.support.streams import unlimited
from tests.support.tenants import Tenant
from tests.support.waiting import until

IN, OUT = 1_000, 10_000  # nano-USD for one token of an ordinary model
HELLO_BYTES = len(json.dumps([HELLO], separators=(",", ":")))
HELLO_TOKENS = -(-HELLO_BYTES // 4)
NOT_COVERED = (
    "The balance does not cover the estimated cost of this request. "
    "Top up the account, or send a smaller max_tokens."
)
CAP_REACHED = "This key has reached its spend cap. Raise the cap, or send a smaller max_tokens."


def refused(message: str) -> dict[str, Any]:
    """The whole body of a 402."""
    return {"error": {"message": message, "type": "insufficient_quota", "code": "quota_exceeded"}}


def chat_at_once(tenant: Tenant, count: int, **members: Any) -> list[Reply]:
    """So many calls at the same moment; all have been answered."""

    async def main() -> list[Reply]:
        async with unlimited() as session:

            async def one() -> Reply:
                async with session.post(
                    tenant.client.url + CHAT,
                    data=json.dumps(chat_body(**members), separators=(",", ":")),
                    headers={"x-api-key": tenant.key},
                ) as answer:
                    headers = {name.lower(): value for name, value in answer.headers.items()}
                    return Reply(answer.status, headers, await answer.read())

            return await asyncio.gather(*(one() for _ in range(count)))

    return run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_balance_for_ten_admits_exactly_ten_of_a_hundred(h: House, stream: bool) -> None:
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


def test_calls_under_way_hold_their_whole_estimate(h: House) -> None:
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


ESTIMATES = {
    "max_completion_tokens too": ({"max_completion_tokens": 12}, HELLO_TOKENS * IN + 12 * OUT),
    "above the ceiling in full": ({"max_tokens": 5_000}, HELLO_TOKENS * IN + 5_000 * OUT),
    "null is none": ({"max_tokens": None}, HELLO_TOKENS * IN + 1_000 * OUT),
    "none: at most 32768": ({"model": "wide"}, HELLO_TOKENS * IN + 32_768 * OUT),
    "no ceiling: 32768": ({"model": "open-ended"}, HELLO_TOKENS * IN + 32_768 * OUT),
    "the multiplier counts": (
        {"model": "cheap", "max_tokens": 10},
        (HELLO_TOKENS * IN + 10 * OUT) * 3 // 10,
    ),
    "tools do not count": (
        {
            "max_tokens": 12,
            "tools": [{"type": "function", "function": {"name": "f", "description": "x" * 999}}],
        },
        HELLO_TOKENS * IN + 12 * OUT,
    ),
}


@each("members, estimate", ESTIMATES.values())
def test_estimate_is_exact(h: House, members: dict[str, Any], estimate: int) -> None:
    h.upstream.reset()
    short = h.tenant(nano_usd=estimate - 1)
    reply = short.client.chat(**members)
    assert (reply.status, reply.json) == (402, refused(NOT_COVERED))
    assert h.upstream.stats()["requests"] == 0
    assert short.client.remaining_nano_usd() == estimate - 1
    enough = h.tenant(nano_usd=estimate)
    assert enough.client.chat(**members, sim={"text": "ok"}).status == 200


def test_settlement_may_dip_below_zero_and_the_next_call_is_refused(h: House) -> None:
    tenant = h.tenant(nano_usd=HELLO_TOKENS * IN + 10 * OUT)
    sim = {"usage": {"input": 1_000, "output": 1_000}}
    assert tenant.client.chat(max_tokens=10, sim=sim).status == 200
    dipped = HELLO_TOKENS * IN + 10 * OUT - 1_000 * IN - 1_000 * OUT
    assert tenant.client.remaining_nano_usd() == 0
    assert h.balance_nano_usd(tenant) == dipped
    reply = tenant.client.chat(max_tokens=1)
    assert (reply.status, reply.json) == (402, refused(OUT_OF_FUNDS))


def test_empty_account_is_refused_before_its_body_is_read(h: House) -> None:
    tenant = h.tenant(nano_usd=0)
    reply = tenant.client.chat(b"this is no JSON")
    assert (reply.status, reply.json) == (402, refused(OUT_OF_FUNDS))
    # Topped up, it is asked for a better body at once.
    h.gw("account", "topup", tenant.account, "1")
    assert tenant.client.chat(b"this is no JSON").refusal == (
        400,
        "invalid_request_error",
        "invalid_request",
    )


def test_spend_cap_bounds_one_key_and_not_the_others(h: House, tenant: Tenant) -> None:
    cost = HELLO_TOKENS * IN + 5 * OUT
    capped = h.another(tenant, spend_cap_nano_usd=3 * cost)
    assert capped.client.remaining_nano_usd() == 3 * cost
    sim = {"usage": {"input": HELLO_TOKENS, "output": 5}, "delay_headers_ms": 50}
    replies = chat_at_once(capped, 20, max_tokens=5, sim=sim)
    assert sorted(reply.status for reply in replies) == [200] * 3 + [402] * 17
    assert {reply.json["error"]["message"] for reply in replies if reply.status == 402} == {
        CAP_REACHED
    }
    assert h.upstream.stats()["requests"] == 3
    balance = capped.client.get("/v1/key/balance").json
    assert (balance["remaining_usd"], balance["used_usd"]) == ("0", balance["total_usd"])
    assert tenant.client.remaining_nano_usd() == 10**9 - 3 * cost
    assert tenant.client.chat(max_tokens=5).status == 200
