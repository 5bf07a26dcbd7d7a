"""The balance endpoints over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.wallet.ledger import Spending
from gw.api import services
from gw.api.base import STORE_MESSAGE
from tests.support.aio import eventually
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.http.wire import request, served

BALANCE = "/v1/key/balance"
PATHS = (
    BALANCE,
    "/v1/dashboard/billing/subscription",
    "/dashboard/billing/subscription",
    "/v1/dashboard/billing/usage",
    "/dashboard/billing/usage",
)


@pytest.fixture
def world() -> World:
    return World()


async def get(world: World, target: str) -> tuple[int, Any]:
    async with served(world.application()) as address:
        answer = await address.ask(request("GET", target))
        return answer.status, answer.json()


@pytest.mark.parametrize("path", PATHS)
async def test_an_empty_and_fully_limited_account_is_answered(world: World, path: str) -> None:
    world.money.available_nano_usd = 0
    world.money.figures = Spending(
        balance_nano_usd=-7, held_nano_usd=0, key_spent_nano_usd=0, key_held_nano_usd=0
    )
    world.keys.known[KEY] = make_principal(rpm_limit=0, concurrency_limit=0)
    code, body = await get(world, path)
    assert code == 200
    amounts = {name: value for name, value in body.items() if "usd" in name or "usage" in name}
    assert set(map(float, amounts.values())) == {0.0}
    assert world.keys.uses == [(KEY, False)]
    assert world.refusals == []


async def test_both_mounts_say_the_same(world: World) -> None:
    for name in ("subscription", "usage"):
        path = f"/dashboard/billing/{name}"
        query = "?start_date=2026-01-01&end_date=nonsense"
        plain = await get(world, path)
        assert plain == await get(world, f"/v1{path}{query}")


async def test_a_cap_and_an_expiry_are_shown(world: World) -> None:
    world.keys.known[KEY] = make_principal(spend_cap_nano_usd=2 * 10**9, expires_at=1_900_000_000.0)
    world.money.figures = Spending(
        balance_nano_usd=5 * 10**9,
        held_nano_usd=0,
        key_spent_nano_usd=500_000_000,
        key_held_nano_usd=0,
    )
    assert await get(world, BALANCE) == (
        200,
        {
            "object": "key.balance",
            "remaining_usd": "1.5",
            "used_usd": "0.5",
            "total_usd": "2",
            "expires_at": "2030-03-17T17:46:40Z",
        },
    )


async def test_settlements_on_their_way_are_waited_for(world: World) -> None:
    world.money.lag = asyncio.Event()
    world.money.after_lag = Spending(
        balance_nano_usd=10**9, held_nano_usd=0, key_spent_nano_usd=4 * 10**9, key_held_nano_usd=0
    )
    asking = asyncio.ensure_future(get(world, BALANCE))
    await eventually(lambda: "settled" in world.money.asked)
    world.money.lag.set()
    _, body = await asking
    assert (body["remaining_usd"], body["used_usd"]) == ("1", "4")
    assert world.money.asked == ["settled", "spending"]


async def test_a_ledger_that_does_not_settle_is_a_clear_error(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    expect_log: Callable[..., None],
) -> None:
    expect_log("request_failed")
    monkeypatch.setattr(services, "SETTLE_SECONDS", 0.01)
    world.money.lag = asyncio.Event()
    code, body = await get(world, BALANCE)
    assert (code, body["error"]["code"]) == (503, "no_channel_available")
    assert body["error"]["message"] == STORE_MESSAGE


async def test_a_database_that_is_away_is_a_clear_error(
    world: World, expect_log: Callable[..., None]
) -> None:
    expect_log("request_failed")
    world.money.is_down = True
    code, body = await get(world, BALANCE)
    assert (code, body["error"]["message"]) == (503, STORE_MESSAGE)


async def test_an_agent_key_has_no_balance_to_read(world: World) -> None:
    world.keys.known[KEY] = make_principal(kind="agent", agent_id="agent_1")
    code, body = await get(world, BALANCE)
    assert (code, body["error"]["code"]) == (403, "permission_denied")
