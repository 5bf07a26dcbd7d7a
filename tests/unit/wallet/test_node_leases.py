"""Nodes leased by a process on the in-memory ledger: what is admitted in memory, and until when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from actors.store.errors import StatementRefused
from actors.wallet.messages import HeldNode, Hold, NodeHold
from actors.wallet.wallets import HoldRefused
from tests.support.fake_nodes import DAY_SECONDS, FakeBudget
from tests.support.ledger_values import ACCOUNT, facts, outcome
from tests.support.logs import logs
from tests.unit.wallet.bank import Bank, bank

# Of the node less is leased than of the balance, which would cover twice as many calls.
NODE, AMOUNT, LIMIT = "bud_a", 100, 2_000


def hold(number: int, *, version: int = 1, nodes: tuple[NodeHold, ...] | None = None) -> Hold:
    on_node = (NodeHold(NODE, "", AMOUNT),)
    return Hold(
        facts=facts(number),
        amount_nano_usd=AMOUNT,
        nodes=on_node if nodes is None else nodes,
        budgets_version=version,
    )


@asynccontextmanager
async def leased_bank() -> AsyncIterator[Bank]:
    """A process that has leased part of the one node, a day's."""
    async with bank(10**9) as b:
        b.ledger.nodes.now = b.clock.now
        b.ledger.nodes.make(FakeBudget(NODE, ACCOUNT, LIMIT, period="day"))
        b.ledger.unleased.clear()
        for number in range(4):
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(0))
            await b.wallets.settled(ACCOUNT)
        assert leased(b) >= AMOUNT
        yield b
        assert b.ledger.faults() == []


def leased(b: Bank) -> int:
    return sum(b.ledger.nodes.leases.values())


def is_admitted(b: Bank, hold: Hold) -> bool:
    waiting = b.wallets.hold(hold)
    if waiting is not None:
        waiting.close()
    return waiting is None


async def test_no_more_is_admitted_in_memory_than_is_leased() -> None:
    async with leased_bank() as b:
        admitted = [number for number in range(100, 200) if is_admitted(b, hold(number))]
        assert len(admitted) == leased(b) // AMOUNT
        await b.wallets.settled(ACCOUNT)
        (found,) = b.ledger.nodes.sums.values()
        assert found.held == AMOUNT * len(admitted)


async def test_a_model_of_a_chain_that_has_not_served_gives_back_its_part_of_the_lease() -> None:
    """At once, before the call is written."""
    async with leased_bank() as b:
        nodes, number = (NodeHold(NODE, "", AMOUNT, model="a"),), 100
        while is_admitted(b, hold(number, nodes=nodes)):
            number += 1
        for ended, served, is_free in ((100, "a", False), (101, "b", True)):
            b.wallets.settle(facts(ended), outcome(AMOUNT, served=served))
            number += 1
            assert is_admitted(b, hold(number, nodes=nodes)) is is_free
        await b.wallets.settled(ACCOUNT)
        (found,) = b.ledger.nodes.sums.values()
        assert found.spent == AMOUNT


@logs("ledger_batch_failed", "ledger_message_refused")
async def test_a_refused_hold_of_a_chain_is_written_where_it_was_served() -> None:
    async with leased_bank() as b:
        (found,) = b.ledger.nodes.sums.values()
        healthy = b.ledger.apply

        def refuse_admitted(*args: Any, **more: Any) -> Any:
            if more["written"]:
                raise StatementRefused("22003", "out of range")
            return healthy(*args, **more)

        b.ledger.apply = refuse_admitted  # type: ignore[method-assign]
        for number, served in ((100, "a"), (101, "b")):
            assert is_admitted(b, hold(number, nodes=(NodeHold(NODE, "", AMOUNT, model="a"),)))
            await b.wallets.settled(ACCOUNT)  # its hold is refused
            b.wallets.settle(facts(number), outcome(AMOUNT, served=served))
            await b.wallets.settled(ACCOUNT)
            assert found.spent == AMOUNT


async def test_a_call_that_a_dead_process_had_not_written_costs_where_it_was_served() -> None:
    async with leased_bank() as b:
        (found,) = b.ledger.nodes.sums.values()
        part = HeldNode(found.id, AMOUNT, "a")
        for number, served in ((100, "a"), (101, "b")):
            how = outcome(AMOUNT, "interrupted", served=served)
            b.wallets.settle_unwritten(
                hold(number), "proc_dead", how, is_recovery=True, budgets=(part,)
            )
            await b.wallets.settled(ACCOUNT)
            assert found.spent == AMOUNT


async def test_a_call_matched_by_the_nodes_of_before_is_not_admitted() -> None:
    async with leased_bank() as b:
        with pytest.raises(HoldRefused, match="stale_budgets"):
            await b.hold(hold(100, version=0, nodes=()))
        b.ledger.nodes.make(FakeBudget("bud_b", ACCOUNT, 100_000))
        b.ledger.unleased.clear()
        # A lease is called back with the change; the next one is for the new nodes alone.
        await b.wallets.give_back(ACCOUNT)
        with pytest.raises(HoldRefused, match="stale_budgets"):
            await b.hold(hold(101))


async def test_a_lease_of_a_node_ends_with_its_period() -> None:
    async with leased_bank() as b:
        assert is_admitted(b, hold(100))
        await b.wallets.settled(ACCOUNT)
        b.clock.advance(DAY_SECONDS)
        b.identity.confirmed_at = b.clock.monotonic()
        await b.hold(hold(101))
        before, after = (b.ledger.holds[UUID(int=n)]["budgets"][0][0] for n in (100, 101))
        assert before != after
        b.wallets.settle(facts(100), outcome(AMOUNT))
        await asyncio.wait_for(b.wallets.settled(ACCOUNT), 10)
        assert b.ledger.nodes.sums[b.ledger.nodes.places[before]].spent == AMOUNT
