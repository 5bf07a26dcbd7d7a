"""Holds on nodes in the ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from actors.store.database import Database
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.messages import (
    Admitted,
    BudgetRefusal,
    HeldNode,
    Hold,
    LeaseChange,
    NodeChange,
    NodeHold,
    NodeLease,
)
from actors.wallet.rows import encode_settlement, encode_void
from actors.wallet.verify import verify
from gw.admin import budgets
from gw.admin.budgets import SumsQuery
from tests.integration.budgets.nodes import (
    NODE,
    events_of,
    make_node,
    node_hold,
    sums_of,
    version_of,
)
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.ledger_values import facts, outcome, settle


@asynccontextmanager
async def ledger(url: str, balance: int = 1_000_000) -> AsyncIterator[Database]:
    async with Database(url) as database:
        await open_account(database, balance)
        yield database
        assert (await verify(database)).faults == []


async def hold(database: Database, *holds: Hold) -> Applied:
    return await apply(database, PROCESS, Batch(holds=holds))


async def end(database: Database, number: int, cost: int) -> Applied:
    return await apply(database, PROCESS, Batch(settlements=[settle(number, cost)]))


async def test_a_call_holds_where_it_fits_and_is_refused_with_the_figures_where_not(
    database_url: str,
) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100)
        assert (await hold(database, node_hold(1, 60))).refused == {}
        applied = await hold(database, node_hold(2, 41), node_hold(3, 40), node_hold(4, 1))
        assert applied.refused == {0: "budget", 2: "budget"}
        assert applied.budgets[0] == BudgetRefusal(
            budget_id=NODE,
            subject="",
            needed_nano_usd=41,
            remaining_nano_usd=40,
            limit_nano_usd=100,
            spent_nano_usd=0,
            held_nano_usd=60,
            resets_at=None,
        )
        assert await sums_of(database) == {(NODE, ""): (0, 100, 0, 0)}
        assert (await hold(database, node_hold(5, 0))).refused == {}
        await end(database, 1, 20)
        await end(database, 3, 45)  # 5 more than it held
        assert await sums_of(database) == {(NODE, ""): (65, 0, 0, 5)}
        assert (await hold(database, node_hold(6, 36))).refused == {0: "budget"}
        assert (await hold(database, node_hold(7, 35))).refused == {}
        await apply(database, PROCESS, Batch(settlements=[encode_void(facts(7))]))
        await end(database, 5, 40)  # free, as it seemed
        assert await sums_of(database) == {(NODE, ""): (105, 0, 0, 45)}
        assert (await hold(database, node_hold(8, 0))).refused == {}
        assert (await hold(database, node_hold(9, 1))).budgets[0].remaining_nano_usd == 0


async def test_a_call_holds_on_all_or_on_none(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100)
        await make_node(database, 50, "bud_b", scope="every_user", period="day")
        await make_node(database, 50, "bud_c", scope="user", subject="x", period="week")
        version = await version_of(database)
        nodes = [NodeHold(NODE, "", 60), NodeHold("bud_c", "", 60), NodeHold("bud_b", "u", 60)]
        applied = await hold(database, node_hold(1, 60, nodes, version=version))
        assert applied.refused == {0: "budget"}
        assert applied.budgets[0].budget_id == "bud_b"  # as little is left of c
        assert applied.budgets[0].resets_at is not None
        assert all(held == 0 for _, held, *_ in (await sums_of(database)).values())
        nodes = [NodeHold(NODE, "", 50), NodeHold("bud_b", "u", 50)]
        poor = node_hold(2, 50, nodes, version=version, on_balance=2_000_000)
        capped = node_hold(3, 50, nodes, version=version, cap_nano_usd=49)
        applied = await hold(database, poor, capped, node_hold(4, 50, nodes, version=version))
        assert applied.refused == {0: "insufficient_funds", 1: "spend_cap"}
        assert (await sums_of(database))["bud_b", "u"] == (0, 50, 0, 0)
        other = [NodeHold(NODE, "", 50), NodeHold("bud_b", "v", 50)]
        assert (await hold(database, node_hold(5, 50, other, version=version))).refused == {}


async def test_the_same_batch_twice_books_once(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100)
        for _ in range(2):
            assert (await hold(database, node_hold(1, 60))).refused == {}
            assert await sums_of(database) == {(NODE, ""): (0, 60, 0, 0)}
        for _ in range(2):
            await end(database, 1, 10)
            assert await sums_of(database) == {(NODE, ""): (10, 0, 0, 0)}


async def test_nodes_that_have_changed_are_matched_anew(database_url: str) -> None:
    async with ledger(database_url) as database:
        assert (await hold(database, node_hold(1, 1, [], version=0))).refused == {}
        await make_node(database, 100)
        assert (await hold(database, node_hold(2, 1, [], version=0))).refused == {
            0: "stale_budgets"
        }
        assert (await hold(database, node_hold(3, 60))).refused == {}
        await database.execute("UPDATE budgets SET limit_nano_usd = 70")
        assert (await hold(database, node_hold(4, 1))).refused == {0: "stale_budgets"}
        assert (await hold(database, node_hold(5, 11, version=2))).budgets[0].limit_nano_usd == 70
        await database.execute("UPDATE budgets SET limit_nano_usd = 30")
        await end(database, 3, 40)  # held by the limit of before: no overshoot
        assert (await hold(database, node_hold(6, 1, version=3))).refused == {0: "budget"}
        await database.execute("UPDATE budgets SET deleted_at = now()")
        assert (await hold(database, node_hold(7, 1, version=3))).refused == {0: "stale_budgets"}
        assert (await hold(database, node_hold(8, 1, version=4))).refused == {0: "stale_budgets"}
        assert (await hold(database, node_hold(9, 1, [], version=4))).refused == {}


async def test_open_calls_of_a_deleted_node_settle_there(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100)
        await hold(database, node_hold(1, 60))
        await database.execute("UPDATE budgets SET deleted_at = now()")
        await end(database, 1, 70)
        assert await sums_of(database) == {(NODE, ""): (70, 0, 0, 10)}


async def test_the_period_is_that_of_the_hold_for_good(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100, period="day")
        await hold(database, node_hold(1, 60))
        # A day later, by the database: its present period is over.
        await database.execute(
            "UPDATE budget_sums SET period_from = period_from - interval '1 day', period_to ="
            " period_to - interval '1 day'"
        )
        await database.execute(
            "UPDATE budget_periods SET period_from = period_from - interval '1 day', period_to ="
            " period_to - interval '1 day'"
        )
        assert (await hold(database, node_hold(2, 100))).refused == {}
        await end(database, 1, 70)
        rows = await database.fetch_all(
            "SELECT spent_nano_usd, held_nano_usd, excess_nano_usd FROM budget_sums ORDER BY 1"
        )
        assert rows == [(0, 100, 0), (70, 0, 10)]


async def test_a_clock_that_goes_back_reopens_no_period(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100, scope="every_end_user", period="day")
        mine = [NodeHold(NODE, "a", 100)]
        await hold(database, node_hold(1, 100, mine))
        for table in ("budget_sums", "budget_periods"):  # as if today were yesterday
            await database.execute(
                f"UPDATE {table} SET period_from = period_from + interval '1 day', period_to ="
                " period_to + interval '1 day'"
            )
        for name, reason in (("a", {0: "budget"}), ("b", {})):
            one = node_hold(2, 100, [NodeHold(NODE, name, 100)])
            assert (await hold(database, one)).refused == reason
        assert await database.fetch_all("SELECT count(DISTINCT period_from) FROM budget_sums") == [
            (1,)
        ]
        shown = await budgets.sums(database, NODE, SumsQuery())  # of the period that counts
        assert [one.subject for one in shown.data] == ["a", "b"]


async def test_a_node_that_has_not_begun_holds_nothing(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 0, starts="-1 hour")
        assert (await hold(database, node_hold(1, 50))).refused == {}
        await end(database, 1, 50)
        assert await sums_of(database) == {}


async def test_a_limit_of_nothing_refuses_all_that_costs(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 0, warn_at=[80])
        assert (await hold(database, node_hold(1, 1))).refused == {0: "budget"}
        assert (await hold(database, node_hold(2, 0))).refused == {}
        await end(database, 2, 0)
        assert await events_of(database) == [("budget.exhausted", NODE, 100, "0", "0")]


async def test_nodes_that_warn_count_and_refuse_nothing(database_url: str) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100, action="warn", warn_at=[50, 100])
        applied = await hold(database, node_hold(1, 60), node_hold(2, 60))
        assert (applied.refused, applied.warned) == ({}, {})
        assert await sums_of(database) == {(NODE, ""): (0, 0, 0, 0)}
        await end(database, 1, 60)
        await end(database, 2, 60)
        assert await sums_of(database) == {(NODE, ""): (120, 0, 0, 120)}
        assert (await hold(database, node_hold(3, 1))).warned == {0: (NODE,)}
        assert await events_of(database) == [
            ("budget.warning", NODE, 50, "0.00000006", "0"),
            ("budget.warning", NODE, 100, "0.00000012", "0"),
            ("budget.exhausted", NODE, 100, "0.00000012", "0"),
        ]


async def test_each_warning_is_written_once_and_armed_again_by_a_raised_limit(
    database_url: str,
) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100, warn_at=[50, 80])
        for number, cost in ((1, 49), (2, 1), (3, 20)):
            await hold(database, node_hold(number, cost))
            await end(database, number, cost)
        written = [("budget.warning", NODE, 50, "0.00000005", "0")]
        assert await events_of(database) == written
        for number in (4, 5):
            assert (await hold(database, node_hold(number, 50))).refused == {0: "budget"}
        written.append(("budget.exhausted", NODE, 100, "0.00000007", "0"))
        assert await events_of(database) == written
        # No more of it than before: told already.
        for version, change in ((2, "limit_nano_usd = 95"), (3, "warn_at = '{50,80,99}'")):
            await database.execute(f"UPDATE budgets SET {change}")
            refused = (await hold(database, node_hold(6, 50, version=version))).refused
            assert refused == {0: "budget"}
        assert await events_of(database) == written
        await database.execute("UPDATE budgets SET limit_nano_usd = 200")
        await hold(database, node_hold(6, 30, version=4))
        await end(database, 6, 30)
        written.append(("budget.warning", NODE, 50, "0.0000001", "0"))
        assert await events_of(database) == written
        assert (await hold(database, node_hold(7, 101, version=4))).refused == {0: "budget"}
        written.append(("budget.exhausted", NODE, 100, "0.0000001", "0"))
        assert await events_of(database) == written
        # Lowered to what is spent already: told at once.
        await database.execute("UPDATE budgets SET limit_nano_usd = 120")
        written.append(("budget.warning", NODE, 80, "0.0000001", "0"))
        assert await events_of(database) == written


async def test_a_run_has_the_least_ceiling_that_anyone_names(database_url: str) -> None:
    async with ledger(database_url) as database:

        def of(run: str, amount: int, ceiling: int | None = None) -> list[NodeHold]:
            return [NodeHold("run", run, amount, ceiling)]

        free = node_hold(1, 500, of("r", 500), version=0)
        assert (await hold(database, free)).refused == {}
        named = node_hold(2, 60, of("r", 60, 100), version=0)
        assert (await hold(database, named)).refused == {}
        await end(database, 1, 500)  # before it was named: not counted
        assert await sums_of(database) == {("run", "r"): (0, 60, 0, 0)}
        higher = node_hold(3, 41, of("r", 41, 1000), version=0)
        applied = await hold(database, higher)
        assert applied.budgets[0].limit_nano_usd == 100
        assert (applied.budgets[0].budget_id, applied.budgets[0].subject) == ("run", "r")
        lower = node_hold(4, 1, of("r", 1, 50), version=0)
        assert (await hold(database, lower)).budgets[0].remaining_nano_usd == 0
        await end(database, 2, 39)
        assert [kind for kind, *_ in await events_of(database)] == ["budget.exhausted"]
        # What is spent is above a percent of a lower ceiling: told at once.
        lowest = node_hold(4, 1, of("r", 1, 40), version=0)
        assert (await hold(database, lowest)).refused == {}
        assert (await events_of(database))[1:] == [
            ("budget.warning", "run", 80, "0.000000039", "0")
        ]
        unnamed = node_hold(5, 1, of("r", 1), version=0)
        assert (await hold(database, unnamed)).refused == {0: "budget"}
        other = node_hold(6, 900, of("s", 900), version=0)
        assert (await hold(database, other)).refused == {}
        await database.execute("UPDATE accounts SET run_ceilings = 100000")
        another = node_hold(7, 1, of("t", 1, 5), version=0)
        assert (await hold(database, another)).refused == {0: "too_many_runs"}
        await database.execute("UPDATE accounts SET run_ceilings = 1")


async def test_a_correction_books_to_the_same_sums_without_passing_the_limit(
    database_url: str,
) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100)
        await hold(database, node_hold(1, 80))
        recovered = encode_settlement(facts(1), outcome(10, "interrupted"), is_recovery=True)
        await apply(database, PROCESS, Batch(settlements=[recovered]))
        assert await sums_of(database) == {(NODE, ""): (10, 0, 0, 0)}
        assert (await hold(database, node_hold(2, 90))).refused == {}  # what was given free
        await end(database, 1, 70)
        # What it held is held by another: the rest of its true cost is excess.
        assert await sums_of(database) == {(NODE, ""): (70, 90, 0, 60)}
        await end(database, 2, 0)


async def test_a_batch_reads_no_other_subjects_sum(database_url: str) -> None:
    """By a plan that was made while there was none."""
    async with ledger(database_url) as database:
        await make_node(database, 10**6, scope="every_end_user", period="day")

        async def call(number: int) -> None:
            mine = [NodeHold(NODE, f"user {number}", 10)]
            assert (await hold(database, node_hold(number, 10, mine))).refused == {}
            await end(database, number, 10)

        for number in range(1, 8):
            await call(number)
        await database.execute(
            "INSERT INTO budget_sums (account_id, budget_id, subject, period_from, period_to)"
            " SELECT account_id, budget_id, 'other ' || n, period_from, period_to"
            " FROM budget_sums, generate_series(1, 3000) n WHERE subject = 'user 1'"
        )
        read = (
            "SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint FROM pg_index"
            " WHERE indrelid = 'budget_sums'::regclass"
        )
        async with database.transaction() as session:
            mine = [NodeHold(NODE, "user 8", 10)]
            batch = Batch(holds=[node_hold(8, 10, mine)])
            await apply(session, PROCESS, batch)
            await apply(session, PROCESS, Batch(settlements=[settle(8, 10)]))
            ((found,),) = await session.fetch_all(read)
        assert 0 < found < 60


async def test_what_comes_in_one_batch_with_calls_admitted_in_memory_finds_their_room_taken(
    database_url: str,
) -> None:
    """Room that is free beside the lease is for those that are written, and not for both."""
    async with ledger(database_url) as database:
        await make_node(database, 1000)
        await database.execute("UPDATE accounts SET unleased_until = NULL")
        node = NodeLease(ACCOUNT, NODE, "", 0.0)
        changes = [LeaseChange(ACCOUNT, 1000)]
        batch = Batch(changes=changes, nodes=[NodeChange(node, 250)])
        applied = await apply(database, PROCESS, batch, 1)
        ((*_, sum_id, _, leased, _, _),) = applied.nodes
        assert leased == 250
        assert (await hold(database, node_hold(1, 650))).refused == {}

        part = HeldNode(sum_id, 100)
        admitted = Admitted(node_hold(2, 1), PROCESS, 0.0, 1, (part,))
        applied = await apply(
            database, PROCESS, Batch(admitted=[admitted], holds=[node_hold(3, 100)]), 2
        )
        assert applied.refused == {0: "leased"}
        assert await sums_of(database) == {(NODE, ""): (0, 750, 250, 0)}


@pytest.mark.parametrize(("limit", "left"), [(400, 40), (10_000, 100)])
async def test_a_batch_books_the_same_whether_its_limits_cover_it_or_its_leases(
    database_url: str, limit: int, left: int
) -> None:
    """Calls that were admitted in memory, ended and under way, beside the end of a written hold."""
    async with ledger(database_url) as database:
        await make_node(database, limit)
        await make_node(database, limit, "bud_b", period="month", warn_at=[50])
        await database.execute("UPDATE accounts SET unleased_until = NULL")
        names = (NODE, "bud_b")
        changes = [NodeChange(NodeLease(ACCOUNT, name, "", 0.0), 100) for name in names]
        version, twice = await version_of(database), partial(map, NodeHold, names, ["", ""])
        leases = Batch(changes=[LeaseChange(ACCOUNT, 1000)], nodes=changes)
        sums = [row[3] for row in (await apply(database, PROCESS, leases, 1)).nodes]
        written = node_hold(1, 300, list(twice([300, 300])), version=version)
        assert (await hold(database, written)).refused == {}

        def admitted(number: int, held: int) -> Admitted:
            parts = tuple(HeldNode(sum_id, held) for sum_id in sums)
            return Admitted(node_hold(number, held), PROCESS, 0.0, held, parts)

        ended = [
            encode_settlement(facts(number, key_id=KEY), outcome(cost), admitted(number, held))
            for number, held, cost in ((2, 10, 4), (3, 20, 50), (4, 30, 0))
        ]
        batch = Batch(settlements=[*ended, settle(1, 310)], admitted=[admitted(5, 36)])
        applied = await apply(database, PROCESS, batch, 2)
        # Of each sum: 36 of the call under way, 4 and 20 of those that ended, were needed.
        assert bool(applied.drawn) == (limit == 400)
        spent, held, excess = 4 + 50 + 310, 36, (50 - 20) + (310 - 300)
        every = dict.fromkeys(((name, "") for name in names), (spent, held, left, excess))
        assert await sums_of(database) == every
        assert applied.exceeding_nano_usd == 2 * excess
        assert len(await events_of(database)) == (limit == 400)  # half of its limit
