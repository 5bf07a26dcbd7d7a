"""`gw ledger verify --costs`: PostgreSQL works each cost out as the gateway did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Hold, Settle
from actors.wallet.pricing import ImagePrice
from actors.wallet.sheets import token_price
from actors.wallet.verify import verify
from channels.families import TOKEN_PRICES
from channels.prices import PriceSpec
from tests.integration.money import PROCESS, open_account
from tests.support.ledger_values import facts, outcome
from tests.support.prices import kept_of, spec_of, usage_of

CALLS = 400


def usd(random: Random) -> Decimal:
    digits, places = random.randrange(1, 11), random.randrange(10)
    return Decimal(random.randrange(int("9" * digits))).scaleb(-places)


def perhaps(random: Random) -> Decimal | None:
    return usd(random) if random.random() < 0.5 else None


def priced(random: Random) -> tuple[str, int, dict[str, Any]]:
    """A protocol, the cost of a call of it, and what its row keeps."""
    multiplier = random.choice([Decimal(1), Decimal("0.3"), Decimal("1.0001"), Decimal("0")])
    if random.random() < 0.3:
        images = ImagePrice.of(
            PriceSpec(
                per_image=usd(random),
                per_image_large=perhaps(random),
                per_reference=perhaps(random),
            ),
            multiplier,
        )
        counts = {"standard": random.randrange(1, 9), "large": random.randrange(5), "references": 2}
        detail = {"price": images.stated, "units": {name: n for name, n in counts.items() if n}}
        return "images", images.cost_nano_usd(**counts), {"detail": detail}
    if random.random() < 0.5:
        plain: dict[str, Any] = {name: perhaps(random) for name in TOKEN_PRICES}
        price = token_price(PriceSpec(**plain), multiplier)
    else:
        price = token_price(spec_of(random), multiplier)
    usage = usage_of(random)
    row = {
        "detail": kept_of(price, usage),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    return "chat", price.cost_nano_usd(usage), row


async def settle(database: Database, calls: Sequence[tuple[str, int, Mapping[str, Any]]]) -> None:
    """One settled call for each."""
    await open_account(database, 4 * 10**18)
    holds, settlements = [], []
    for number, (protocol, cost, row) in enumerate(calls, start=1):
        who, ended = facts(number, protocol=protocol), outcome(cost, **row)
        holds.append(Hold(facts=who, amount_nano_usd=1))
        settlements.append(Settle(facts=who, outcome=ended))
    await apply(database, PROCESS, Batch(holds=holds))
    await apply(database, PROCESS, Batch(settlements=settlements))


async def test_every_cost_is_worked_out_alike(database_url: str) -> None:
    async with Database(database_url) as database:
        random = Random(4711)
        made = [priced(random) for _ in range(CALLS)]
        calls = [call for call in made if call[1] < 10**15]  # together no more than there is
        assert len({kind for kind, _, _ in calls}) == 2
        assert len(calls) > CALLS / 2
        await settle(database, calls)
        assert (await verify(database, with_costs=True)).faults == []


WRONG = {
    "cost": "cost_nano_usd = cost_nano_usd + 1",
    "tokens": "output_tokens = output_tokens + 1",
    "parts of the input": "cached_tokens = cached_tokens + 1",
    "price": 'detail = replace(detail::text, \'"output":"10"\', \'"output":"11"\')::json',
    "no price": "detail = NULL",
    "no cost": "cost_nano_usd = 0",
}


@pytest.mark.parametrize("assignment", WRONG.values(), ids=WRONG)
async def test_cost_that_is_not_price_times_counts_is_found(
    database_url: str, assignment: str
) -> None:
    price = {"input": "1", "output": "10", "cached_input": "0.1", "multiplier": "0.5"}
    row = {"detail": {"price": price}, "input_tokens": 10, "output_tokens": 4, "cached_tokens": 5}

    async with Database(database_url) as database:
        await settle(database, [("chat", 22_750, row)])
        assert (await verify(database, with_costs=True)).faults == []
        await database.execute(f"UPDATE call_logs SET {assignment}")
        faults = (await verify(database, with_costs=True)).faults
        assert "cost_is_price_times_counts" in {fault["invariant"] for fault in faults}
