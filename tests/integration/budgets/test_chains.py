"""What a call of a chain costs on budgets: on those of the model that served it, on no other's."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.store.database import Database
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.messages import (
    Admitted,
    CallFacts,
    HeldNode,
    Hold,
    LeaseChange,
    NodeChange,
    NodeHold,
    NodeLease,
    Settle,
    pays,
)
from actors.wallet.rows import encode_settlement, encode_void
from actors.wallet.verify import verify
from tests.integration.budgets.nodes import NODE, make_node, sums_of, version_of
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.ledger_values import facts, outcome

# Of the account, of the chain that is called, and of its two models.
BEST, GPT, CLAUDE = "bud_best", "bud_gpt", "bud_claude"
STEPS = {NODE: "", BEST: "", GPT: "gpt", CLAUDE: "claude"}
Sums = dict[tuple[str, str], tuple[int, int, int, int]]


@asynccontextmanager
async def ledger(url: str, limit: int = 10_000) -> AsyncIterator[Database]:
    async with Database(url) as database:
        await open_account(database, 1_000_000)
        await make_node(database, limit)
        for budget_id in (BEST, GPT, CLAUDE):
            subject = budget_id.removeprefix("bud_")
            await make_node(database, limit, budget_id, scope="model", subject=subject)
        yield database
        assert await faults_of(database) == []


async def faults_of(database: Database) -> list[Mapping[str, Any]]:
    faults = (await verify(database)).faults
    return [one for one in faults if one["invariant"].startswith("budget")]


def call(number: int) -> CallFacts:
    return facts(number, key_id=KEY, model="best")


def hold_of(number: int, amount: int, *, version: int = 4) -> Hold:
    nodes = tuple(NodeHold(name, "", amount, model=step) for name, step in STEPS.items())
    return Hold(facts=call(number), amount_nano_usd=amount, nodes=nodes, budgets_version=version)


async def hold(database: Database, number: int, amount: int = 100) -> None:
    applied = await apply(database, PROCESS, Batch(holds=[hold_of(number, amount)]))
    assert applied.refused == {}


def settle(
    number: int, cost: int, served: str = "", status: Any = "success", **more: Any
) -> Settle:
    is_recovery = status == "interrupted"
    ended = outcome(cost, status, served=served, **more)
    return encode_settlement(call(number), ended, is_recovery=is_recovery)


async def end(database: Database, *settlements: Settle) -> Applied:
    return await apply(database, PROCESS, Batch(settlements=settlements))


def figures(*, every: tuple[int, int, int, int], **others: tuple[int, int, int, int]) -> Sums:
    """Spent, held, leased and excess: of the account and the chain, then of its models."""
    return {(name, ""): others.get(step, every) for name, step in STEPS.items()}


async def test_a_written_call_costs_where_it_was_served(database_url: str) -> None:
    async with ledger(database_url) as database:
        for number in range(1, 6):
            await hold(database, number)
        # More than it held, a failure before any response, and one whose client had left.
        await end(database, settle(1, 30, "gpt"), settle(2, 170, "claude"), settle(3, 0))
        await end(database, encode_void(call(4)))
        assert await sums_of(database) == figures(
            every=(200, 100, 0, 70), gpt=(30, 100, 0, 0), claude=(170, 100, 0, 70)
        )
        # Written while its batch cannot be the common one.
        late = settle(5, 7, "claude", "interrupted")
        assert (await end(database, late)).unsettled == frozenset()
        assert await sums_of(database) == figures(
            every=(207, 0, 0, 70), gpt=(30, 0, 0, 0), claude=(177, 0, 0, 70)
        )


@pytest.mark.parametrize("limit", [400, 10_000])
async def test_a_call_admitted_in_memory_costs_where_it_was_served(
    database_url: str, limit: int
) -> None:
    """Whether the limits cover its batch, or its leases."""
    async with ledger(database_url, limit) as database:
        await database.execute("UPDATE accounts SET unleased_until = NULL")
        changes = [NodeChange(NodeLease(ACCOUNT, name, "", 0.0), 100) for name in STEPS]
        leases = Batch(changes=[LeaseChange(ACCOUNT, 1000)], nodes=changes)
        rows = (await apply(database, PROCESS, leases, 1)).nodes
        sums = {row[1]: row[3] for row in rows}
        await hold(database, 1, 300)

        def admitted(number: int, held: int) -> Admitted:
            parts = tuple(HeldNode(sums[name], held, step) for name, step in STEPS.items())
            one = hold_of(number, held, version=version)
            return Admitted(one, PROCESS, 0.0, held, parts)

        version = await version_of(database)
        ended = []
        for number, held, cost, served in ((2, 10, 4, "gpt"), (3, 20, 50, "claude")):
            one = admitted(number, held)
            one.budgets = tuple(part for part in one.budgets if pays(part, served))
            ended.append(encode_settlement(call(number), outcome(cost, served=served), one))
        batch = Batch(settlements=ended, admitted=[admitted(4, 36)])
        applied = await apply(database, PROCESS, batch, 2)
        assert bool(applied.drawn) == (limit == 400)
        found = await sums_of(database)
        assert {key: (*row[:2], row[3]) for key, row in found.items()} == {
            (NODE, ""): (54, 336, 30),
            (BEST, ""): (54, 336, 30),
            (GPT, ""): (4, 336, 0),
            (CLAUDE, ""): (50, 336, 30),
        }
        # The one under way is written by now.
        await end(database, settle(4, 40, "gpt"), settle(1, 300, "claude"))
        found = await sums_of(database)
        assert (found[GPT, ""][0], found[CLAUDE, ""][0]) == (44, 350)


async def test_a_correction_costs_where_the_call_was_served(database_url: str) -> None:
    """Recovery knows which model that was, or has charged nothing."""
    async with ledger(database_url) as database:
        await hold(database, 1)
        await hold(database, 2)
        await end(database, settle(1, 0, "", "interrupted"), settle(2, 20, "gpt", "interrupted"))
        assert await sums_of(database) == figures(
            every=(20, 0, 0, 0), gpt=(20, 0, 0, 0), claude=(0, 0, 0, 0)
        )
        late = settle(1, 70, "claude"), settle(2, 90, "gpt")
        assert len((await end(database, *late)).corrected) == 2
        assert await sums_of(database) == figures(
            every=(160, 0, 0, 140), gpt=(90, 0, 0, 70), claude=(70, 0, 0, 70)
        )


async def test_rows_that_are_dropped_leave_what_each_model_cost(database_url: str) -> None:
    async with ledger(database_url) as database:
        month_ago = 1_790_000_000.0 - 40 * 86_400
        for number, served in ((1, "gpt"), (2, "claude")):
            await hold(database, number)
            await end(database, settle(number, 130, served, created_at=month_ago))
        before = await sums_of(database)
        await database.execute("SELECT call_logs_make_partitions('2026-08-01', 1)")
        ((_, rows, _),) = await database.fetch_all(
            "SELECT * FROM call_logs_drop_month('2026-11-01')"
        )
        assert rows == 2
        assert await sums_of(database) == before
        assert before[GPT, ""] == before[CLAUDE, ""] == (130, 0, 0, 30)


async def test_a_row_that_says_otherwise_is_found(database_url: str) -> None:
    async with ledger(database_url) as database:
        await hold(database, 1)
        await end(database, settle(1, 30, "claude"))
        ((found,),) = await database.fetch_all("SELECT budgets FROM call_logs")
        of_gpt = "SELECT id FROM budget_sums WHERE budget_id = %s"
        ((gpt,),) = await database.fetch_all(of_gpt, (GPT,))
        # The other model pays; both do; none does.
        for written in ([*found[:4], gpt, 100], [*found, gpt, 100], found[:4]):
            await database.execute("UPDATE call_logs SET budgets = %s", (written,))
            faults = await faults_of(database)
            assert {one["invariant"] for one in faults} == {"budget_sum_is_sum_of_calls"}
            assert {one["budget"] for one in faults} <= {GPT, CLAUDE}
        await database.execute("UPDATE call_logs SET budgets = %s", (found,))
