"""`gw receipt` on a real PostgreSQL."""

from typing import Any
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Hold, Outcome
from actors.wallet.rows import encode_settlement
from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw
from tests.integration.money import PROCESS, open_account
from tests.support.aio import run
from tests.support.ledger_values import facts, hold, refused, settle

PRICE = {"input": "1", "output": "10", "cached_input": "0.1", "multiplier": "0.5"}
DETAIL: dict[str, Any] = {
    "request": {"model": "m", "max_tokens": "9"},
    "price": PRICE,
    "hold": 100_000,
    "estimate": [10, 9],
    "order": [["one", "chat"], ["two", "messages"], ["three", "messages"]],
    "passed_over": {"one": "full"},
    "tried": [["two", 1_790_000_000.5, 250, "ok"]],
    "upstream": {"status": 200, "id": "r1", "finish": "stop"},
}
# (600 x 1 + 400 x 0.1 + 100 x 10) x 0.5 USD per million
COST = 820_000


@pytest.fixture
def settled(database_url: str) -> str:
    """The trace of a settled call; the one after it was refused."""

    tokens = {"input_tokens": 1000, "output_tokens": 100, "cached_tokens": 400}

    async def main() -> None:
        async with Database(database_url) as database:
            await open_account(database, 10**9)
            await apply(database, PROCESS, Batch(holds=[hold(1, 100_000)]))
            batch = Batch(
                settlements=[settle(1, COST, detail=DETAIL, **tokens)],
                records=[refused(2, seconds=2.0, error_code="model_not_found")],
            )
            await apply(database, PROCESS, batch)

    run(main())
    return UUID(int=1).hex


def tamper(database_url: str, assignment: str) -> None:
    with transaction(database_url) as cursor:
        cursor.execute(f"UPDATE call_logs SET {assignment} WHERE cost_nano_usd > 0")
        assert cursor.rowcount == 1


def test_receipt_names_channels_and_agrees(gw: Gw, settled: str) -> None:
    found = gw.run_json("receipt", settled)
    assert found["agrees"] is True
    assert found["cost_usd"] == found["computed_usd"] == "0.00082"
    assert found["computation"] == (
        "(600 x 1 + 400 x 0.1 + 100 x 10) x 0.5 / 1000000 = 0.00082 USD"
    )
    assert found["channels"] == [
        {"channel": "one", "protocol": "chat", "outcome": "full", "ms": None},
        {"channel": "two", "protocol": "messages", "outcome": "ok", "ms": 250},
        {"channel": "three", "protocol": "messages", "outcome": None, "ms": None},
    ]
    assert gw.run_json("receipt", str(found["id"])) == found
    assert gw.run_json("receipt", str(UUID(settled))) == found
    text = gw.run("receipt", settled).out
    assert "two" in text
    assert "which is what was charged: 0.00082 USD" in text


def test_corrected_call_says_what_it_was_and_agrees_with_what_it_is(
    gw: Gw, database_url: str, settled: str
) -> None:
    async def main() -> None:
        async with Database(database_url) as database:
            who = facts(3)
            recovered = Outcome(
                status="interrupted",
                cost_nano_usd=5000,
                created_at=1_790_000_020.0,
                latency_ms=20_000,
                error_code="gateway_restarted",
                output_tokens=1000,
                detail={"price": PRICE},
            )
            true = Outcome(
                status="success",
                cost_nano_usd=COST,
                created_at=1_790_000_040.0,
                latency_ms=40_000,
                input_tokens=1000,
                output_tokens=100,
                cached_tokens=400,
                detail=DETAIL,
            )
            hold = Hold(facts=who, amount_nano_usd=100_000)
            await apply(database, PROCESS, Batch(holds=[hold]))
            for settle in (
                encode_settlement(who, recovered, is_recovery=True),
                encode_settlement(who, true),
            ):
                await apply(database, PROCESS, Batch(settlements=[settle]))

    run(main())
    found = gw.run_json("receipt", UUID(int=3).hex)
    assert (found["agrees"], found["cost_usd"]) == (True, "0.00082")
    result = found["gateway"]
    assert (result["status"], result["latency_ms"]) == ("success", "40000")
    assert (result["status_before"], result["cost_before_usd"]) == ("interrupted", "0.000005")
    assert result["ended_at"] == "2026-09-21T14:13:40.000Z"  # its place in the log is recovery's
    assert "error_code" not in result
    assert gw.run_json("ledger", "verify", "--costs")["ok"]


def test_refused_call_comes_to_nothing(gw: Gw, settled: str) -> None:
    found = gw.run_json("receipt", UUID(int=2).hex)
    assert (found["agrees"], found["cost_usd"]) == (True, "0")


OFF = {
    "cost": "cost_nano_usd = cost_nano_usd + 1",
    "tokens": "output_tokens = output_tokens - 1",
    "price": "detail = jsonb_set(detail::jsonb, '{price,output}', '\"11\"')::json",
    "no price": "detail = NULL",
    "more cached than there was": "cached_tokens = 1001",
}


@pytest.mark.parametrize("assignment", OFF.values(), ids=OFF)
def test_cost_that_is_off_is_shown_as_such(
    gw: Gw, database_url: str, settled: str, assignment: str
) -> None:
    tamper(database_url, assignment)
    message = gw.run("receipt", settled)
    assert message.exit_code == 1
    assert "which is NOT what was charged" in message.out


@pytest.mark.parametrize("ref", ["4711", UUID(int=9).hex])
def test_unknown_call_is_refused(gw: Gw, settled: str, ref: str) -> None:
    assert gw.refuses("receipt", ref)[0] == "call_not_found"


@pytest.mark.parametrize("ref", ["", "x", "-1", "9" * 19, "9" * 25, "a" * 31])
def test_what_is_no_id_is_a_usage_fault(gw: Gw, ref: str) -> None:
    assert gw.run("receipt", ref).exit_code == 2
