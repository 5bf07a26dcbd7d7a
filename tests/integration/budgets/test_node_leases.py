"""Nodes that processes lease: calls are admitted in memory, never more than fit."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.process import SQL
from actors.store.database import Database
from actors.wallet.messages import CallFacts, NodeHold
from actors.wallet.verify import verify
from actors.wallet.wallets import HoldRefused
from tests.integration.actors.process import GONE, Process, open_holds, process, silence
from tests.integration.budgets.nodes import NODE, make_node, sums_of, version_of
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.integration.wallet.test_leases import patience as patience
from tests.integration.wallet.test_leases import processes
from tests.support.aio import eventually
from tests.support.logs import logs

BALANCE, AMOUNT = 100_000_000, 100


@asynccontextmanager
async def ledger(url: str) -> AsyncIterator[Database]:
    async with Database(url) as database:
        await open_account(database, BALANCE)
        yield database
        assert (await verify(database)).faults == []


def on(amount: int, subject: str = "", budget_id: str = NODE) -> tuple[NodeHold, ...]:
    return (NodeHold(budget_id, subject, amount),)


async def lease(one: Process, amount: int = AMOUNT, subject: str = "", *, calls: int = 12) -> int:
    """Ask for so much that part of the node is leased; return what the process holds of it."""
    version = await version_of(one.database)
    for _ in range(calls):
        nodes = on(amount, subject)
        one.settle(await one.hold(amount, nodes=nodes, version=version), 0, nodes=nodes)
        await one.wallets.settled(ACCOUNT)
    return await leased(one.database)


async def leased(database: Database) -> int:
    rows = await database.fetch_all("SELECT coalesce(sum(amount_nano_usd), 0) FROM budget_leases")
    return int(rows[0][0])


def in_memory(one: Process) -> int:
    return len(one.writer.leases)


@pytest.mark.usefixtures("patience")
async def test_calls_are_admitted_out_of_leases_and_booked_exactly(database_url: str) -> None:
    async with ledger(database_url) as database, processes(database_url, 1) as (one,):
        await make_node(database, 100_000)
        await lease_again(database)
        assert await lease(one) > 0
        calls = [await one.hold(AMOUNT, nodes=on(AMOUNT), version=1) for _ in range(4)]
        assert in_memory(one) == 4
        for number, facts in enumerate(calls):
            one.settle(facts, 10 * number)
        late = await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        await one.wallets.settled(ACCOUNT)
        spent, held, of_leases, excess = (await sums_of(database))[NODE, ""]
        assert (spent, held, excess) == (60, 100, 0)
        assert of_leases == await leased(database) > 0
        one.settle(late, 130)
        await one.wallets.settled(ACCOUNT)
        assert (await sums_of(database))[NODE, ""] == (190, 0, of_leases, 30)
        rows = await database.fetch_all("SELECT count(*) FROM call_logs WHERE budgets IS NULL")
        assert rows == [(0,)]


async def lease_again(database: Database) -> None:
    await database.execute("UPDATE accounts SET unleased_until = NULL")


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_as_many_calls_in_parallel_are_admitted_as_fit(database_url: str, count: int) -> None:
    """On the account's node, and on those of its end users; each process has leases, unused."""
    async with ledger(database_url) as database, processes(database_url, count) as found:
        await make_node(database, 700_000)
        await make_node(database, 200_000, "bud_u", scope="every_end_user", period="day")
        await lease_again(database)
        version = await version_of(database)
        for one in found:
            await lease(one)
            await lease_again(database)
        assert await leased(database) > 0
        dice, users = random.Random(count), ("a", "b", "c", "d", "e")

        async def ask(number: int) -> tuple[str, CallFacts]:
            user = users[number % len(users)]
            nodes = (*on(AMOUNT * 100), *on(AMOUNT * 100, user, "bud_u"))
            one = found[dice.randrange(count)]
            return user, await one.hold(AMOUNT, nodes=nodes, version=version)

        replies = await asyncio.gather(*map(ask, range(200)), return_exceptions=True)
        assert {one.reason for one in replies if isinstance(one, HoldRefused)} == {"budget"}
        granted = [one for one in replies if not isinstance(one, BaseException)]
        assert len(granted) + sum(isinstance(one, HoldRefused) for one in replies) == 200
        # 70 fit on the account's, 20 on each user's.
        assert len(granted) == 70
        for user in users:
            assert sum(name == user for name, _ in granted) <= 20
        await asyncio.gather(*(one.wallets.settled(ACCOUNT) for one in found))
        sums = await sums_of(database)
        assert sums[NODE, ""][1] == 700_000
        assert await open_holds(database) == 70
        text = [one.metrics.render("")[0].decode() for one in found]
        assert not any("gw_budget_phantom_refusals 1" in one for one in text)


@pytest.mark.usefixtures("patience")
async def test_what_one_process_leases_another_gets_when_it_needs_it(database_url: str) -> None:
    async with ledger(database_url) as database, processes(database_url, 2) as (one, other):
        await make_node(database, 100_000)
        await lease_again(database)
        assert await lease(one) > 0
        mine = await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        await other.hold(AMOUNT, nodes=on(100_000 - AMOUNT), version=1)
        with pytest.raises(HoldRefused) as refused:
            await one.hold(1, nodes=on(1), version=1)
        assert refused.value.budget is not None
        assert refused.value.budget.held_nano_usd == 100_000
        assert await leased(database) == 0
        one.settle(mine, 0)
        await one.wallets.settled(ACCOUNT)
        assert await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)


@pytest.mark.usefixtures("patience")
async def test_changed_nodes_are_in_force_when_no_lease_is_left(database_url: str) -> None:
    async with ledger(database_url) as database, processes(database_url, 1) as (one,):
        await make_node(database, 100_000)
        await lease_again(database)
        assert await lease(one) > 0
        before = await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        assert in_memory(one) == 1
        await database.execute("UPDATE budgets SET limit_nano_usd = 200")
        await eventually(lambda: is_unleased(database), what="the lease is back")
        with pytest.raises(HoldRefused) as refused:
            await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        assert refused.value.reason == "stale_budgets"
        last = await one.hold(AMOUNT, nodes=on(AMOUNT), version=2)
        with pytest.raises(HoldRefused) as refused:
            await one.hold(1, nodes=on(1), version=2)
        assert refused.value.reason == "budget"
        for facts in (before, last):
            one.settle(facts, AMOUNT)
        await one.wallets.settled(ACCOUNT)
        assert (await sums_of(database))[NODE, ""] == (200, 0, 0, 0)


async def is_unleased(database: Database) -> bool:
    rows = await database.fetch_all("SELECT count(*) FROM leases WHERE amount_nano_usd > 0")
    return rows == [(0,)] and await leased(database) == 0


@pytest.mark.usefixtures("patience")
async def test_a_first_ceiling_is_looked_for_by_every_process(database_url: str) -> None:
    async with ledger(database_url) as database, processes(database_url, 2) as (one, other):
        for _ in range(4):
            one.settle(await one.hold(AMOUNT, nodes=run(AMOUNT)), AMOUNT)
        await one.wallets.settled(ACCOUNT)
        await one.hold(AMOUNT, nodes=run(AMOUNT))
        assert in_memory(one) == 1  # nobody has named a ceiling
        await other.hold(AMOUNT, nodes=run(AMOUNT, 5 * AMOUNT))
        with pytest.raises(HoldRefused):
            await one.hold(5 * AMOUNT, nodes=run(5 * AMOUNT))
        await lease_again(database)
        for _ in range(4):
            await one.hold(AMOUNT, nodes=run(AMOUNT))
            await one.wallets.settled(ACCOUNT)
        with pytest.raises(HoldRefused) as refused:
            await one.hold(1, nodes=run(1))
        assert refused.value.budget is not None
        assert refused.value.budget.subject == "r"


def run(amount: int, ceiling: int | None = None) -> tuple[NodeHold, ...]:
    return (NodeHold("run", "r", amount, ceiling),)


@pytest.mark.usefixtures("patience")
async def test_a_cost_far_above_its_hold_is_there_for_the_next_call(database_url: str) -> None:
    async with ledger(database_url) as database, processes(database_url, 2) as (one, other):
        await make_node(database, 100_000)
        await lease_again(database)
        await lease(one)
        await lease(other)
        nodes = on(AMOUNT)
        dear = await one.hold(AMOUNT, nodes=nodes, version=1)
        one.settle(dear, 99_900, held=99_900, nodes=nodes)
        await one.wallets.covered(ACCOUNT)  # then its client has the last byte
        assert await other.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        for process in (one, other):
            with pytest.raises(HoldRefused):
                await process.hold(1, nodes=on(1), version=1)


@pytest.mark.usefixtures("patience")
async def test_a_lease_ends_with_its_period(database_url: str) -> None:
    async with ledger(database_url) as database, processes(database_url, 1) as (one,):
        await make_node(database, 100_000, period="day")
        await lease_again(database)
        assert await lease(one) > 0
        (nodes,) = [
            lease.nodes for lease in one.writer.leases._leases.values() if lease.nodes.leases
        ]
        (mine,) = nodes.leases.values()
        assert 0 < mine.until - one.identity.confirmed_at <= 86_400 + 60
        old = await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        assert in_memory(one) == 1
        mine.until = 0.0  # the period is over, by our clock
        assert await one.hold(AMOUNT, nodes=on(AMOUNT), version=1)
        assert in_memory(one) <= 1  # the ledger was asked
        one.settle(old, 30)
        await one.wallets.settled(ACCOUNT)
        await one.wallets.settled(ACCOUNT)
        assert (await sums_of(database))[NODE, ""][:2] == (30, AMOUNT)


@logs("calls_recovered")
@pytest.mark.usefixtures("patience")
async def test_a_process_that_dies_leaves_no_lease_and_its_calls_are_booked(
    database_url: str, tmp_path: Path
) -> None:
    async with ledger(database_url) as database:
        await make_node(database, 100_000)
        async with process(
            database_url, "proc_dead", pid=GONE, data_dir=tmp_path, patience_seconds=60.0
        ) as dead:
            await lease_again(database)
            assert await lease(dead) > 0
            under_way = await dead.hold(AMOUNT, nodes=on(AMOUNT), version=1)
            ended = await dead.hold(AMOUNT, nodes=on(AMOUNT), version=1)
            assert in_memory(dead) == 2
            dead.settle(ended, 70)
        async with process(
            database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path, patience_seconds=60.0
        ) as judge:
            await judge.recovery.sweep()
            assert await leased(database) == 0
            assert (await sums_of(database))[NODE, ""] == (70, 0, 0, 0)
            rows = await database.fetch_all(
                "SELECT status FROM call_logs WHERE request_id = %s", (str(under_way.call_id),)
            )
            assert rows == [("interrupted",)]


@pytest.mark.usefixtures("patience")
async def test_what_a_silent_process_writes_late_passes_no_limit(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease was taken, and what it left was spent by others."""
    monkeypatch.setattr("actors.wallet.leases.WRITE_SECONDS", 3600.0)
    async with (
        ledger(database_url) as database,
        process(database_url, "proc_silent", patience_seconds=60.0) as silent,
        process(database_url, "proc_other", patience_seconds=60.0) as other,
    ):
        await make_node(database, 100_000)
        await lease_again(database)
        assert await lease(silent) > 0
        calls = [await silent.hold(AMOUNT, nodes=on(AMOUNT), version=1) for _ in range(3)]
        assert in_memory(silent) == 3
        async with database.transaction() as session:
            await session.execute("SELECT leases_call_back(%s)", (ACCOUNT,))
        rows = await database.fetch_all(SQL["called_back"], ("nobody",))
        for row in rows:
            await database.fetch_all(SQL["take_lease"], tuple(row))
        assert await leased(database) == 0
        ((spent, held, *_),) = (await sums_of(database)).values()
        await other.hold(AMOUNT, nodes=on(100_000 - spent - held), version=1)
        for facts in calls:
            silent.settle(facts, AMOUNT)
        await silent.wallets.settled(ACCOUNT)
        ((spent, held, _, excess),) = (await sums_of(database)).values()
        assert spent + held - excess == 100_000
        assert excess > 0
        await silence(database, PROCESS, 0)


async def test_nodes_of_many_end_users_are_bounded(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.wallet.node_leases.NODES_MAX", 5)
    async with ledger(database_url) as database, process(database_url, "proc_0") as one:
        await make_node(database, 100_000, scope="every_end_user")
        await lease_again(database)
        for number in range(12):
            await lease(one, subject=f"user {number}", calls=6)
        nodes = one.writer.leases._nodes
        assert len(nodes) == 5
        await one.wallets.settled(ACCOUNT)
        rows = await database.fetch_all("SELECT count(*) FROM budget_leases")
        assert rows[0][0] <= 6
        nodes.look_for_silent(1e12)
        assert len(nodes) == 0
        await one.wallets.settled(ACCOUNT)
        await one.wallets.settled(ACCOUNT)
        assert await leased(database) == 0
