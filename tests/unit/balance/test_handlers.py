"""What is left: the wallets' figures and their endpoint."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.ledger import Spending
from gw.api import services
from gw.api.balance import Funds, key_balance, subscription, usage
from gw.api.failures import STORE_MESSAGE
from tests.support.aio import eventually
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.http.client import request, served

USD = 10**9


def spending(balance: int, held: int = 0, spent: int = 0, key_held: int = 0) -> Spending:
    return Spending(
        balance_nano_usd=balance,
        held_nano_usd=held,
        key_spent_nano_usd=spent,
        key_held_nano_usd=key_held,
    )


@cases(
    "figures, cap, remaining",
    (spending(5 * USD), None, 5 * USD),
    (spending(5 * USD, held=2 * USD), None, 3 * USD),
    (spending(2 * USD, held=2 * USD), None, 0),
    (spending(-1), None, 0),
    (spending(5 * USD, spent=1 * USD), 3 * USD, 2 * USD),
    (spending(1 * USD, spent=1 * USD), 3 * USD, 1 * USD),
    # What the key holds for a call under way is no longer its to spend.
    (spending(5 * USD, held=USD, spent=USD, key_held=USD), 3 * USD, 1 * USD),
    (spending(5 * USD, spent=4 * USD), 3 * USD, 0),
    (spending(5 * USD), 0, 0),
)
def test_remaining_is_the_smaller_of_balance_and_cap(
    figures: Spending, cap: int | None, remaining: int
) -> None:
    assert Funds.of(figures, cap).remaining_nano_usd == remaining


@cases(
    "expires_at, text, access_until",
    (1_800_000_000.0, "2027-01-15T08:00:00Z", 1_800_000_000),
    (1_800_000_000.5, "2027-01-15T08:00:00.500000Z", 1_800_000_000),
    (None, None, 0),
)
def test_an_expiry_is_shown_in_each_form(
    expires_at: float | None, text: str | None, access_until: int
) -> None:
    funds = Funds(0, 0)
    assert key_balance(funds, expires_at)["expires_at"] == text
    assert json.loads(subscription(funds, expires_at))["access_until"] == access_until


def test_the_billing_bodies_in_full() -> None:
    funds = Funds(remaining_nano_usd=12_340_000_000, used_nano_usd=660_000_001)
    assert json.loads(subscription(funds, None)) == {
        "object": "billing_subscription",
        "has_payment_method": True,
        "soft_limit_usd": 13.000000001,
        "hard_limit_usd": 13.000000001,
        "system_hard_limit_usd": 13.000000001,
        "access_until": 0,
    }
    assert usage(funds) == b'{"object":"list","total_usage":66.0000001,"daily_costs":[]}'


@given(
    balance=st.integers(-USD, 10**18),
    held=st.integers(0, 10**18),
    spent=st.integers(0, 10**18),
    cap=st.none() | st.integers(0, 10**18),
)
def test_the_figures_add_up_exactly(balance: int, held: int, spent: int, cap: int | None) -> None:
    funds = Funds.of(spending(balance, held, spent), cap)
    shown = key_balance(funds, None)
    remaining, used, total = (
        Decimal(shown[name]) for name in ("remaining_usd", "used_usd", "total_usd")
    )
    assert remaining >= 0
    assert remaining + used == total
    # The literals on the wire, read without rounding, keep the documented equation.
    hard_limit = json.loads(subscription(funds, None), parse_float=Decimal, parse_int=Decimal)
    cents = json.loads(usage(funds), parse_float=Decimal, parse_int=Decimal)["total_usage"]
    assert hard_limit["hard_limit_usd"] == total
    assert cents == used * 100
    assert hard_limit["hard_limit_usd"] - cents / 100 == remaining


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
        response = await address.request(request("GET", target))
        return response.status, response.json


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
    await eventually(lambda: "settled" in world.money.requested)
    world.money.lag.set()
    _, body = await asking
    assert (body["remaining_usd"], body["used_usd"]) == ("1", "4")
    assert world.money.requested == ["settled", "spending"]


@logs("request_failed")
async def test_a_ledger_that_does_not_settle_is_a_clear_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SETTLE_SECONDS", 0.01)
    world.money.lag = asyncio.Event()
    code, body = await get(world, BALANCE)
    assert (code, body["error"]["code"]) == (503, "no_channel_available")
    assert body["error"]["message"] == STORE_MESSAGE


@logs("request_failed")
async def test_a_database_that_is_away_is_a_clear_error(world: World) -> None:
    world.money.is_down = True
    code, body = await get(world, BALANCE)
    assert (code, body["error"]["message"]) == (503, STORE_MESSAGE)
