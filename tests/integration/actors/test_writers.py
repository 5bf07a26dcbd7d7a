"""Several writers on one ledger: exact admission, no deadlock, and connections that are shot."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg2

from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.ledger import read_balance
from actors.wallet.messages import LedgerUnavailable
from actors.wallet.verify import verify
from actors.wallet.wallets import HoldRefused
from tests.integration.actors.process import Process, open_holds, process
from tests.integration.money import ACCOUNT, open_account
from tests.support.aio import eventually
from tests.support.logs import logs

ACCOUNTS = [(f"acct_{letter}", f"key_{letter}") for letter in "abcd"]


@asynccontextmanager
async def two_processes(url: str, balance: int) -> AsyncIterator[tuple[Database, Process, Process]]:
    """Four accounts with this balance each; in the end the ledger must verify."""
    async with Database(url) as database:
        for account_id, key_id in ACCOUNTS:
            await open_account(database, balance, account_id, key_id)
        async with process(url, "proc_one") as one, process(url, "proc_two") as two:
            yield database, one, two
        assert (await verify(database)).faults == []


async def test_processes_hammer_the_same_accounts_without_a_deadlock(database_url: str) -> None:
    """Holds, settlements, refusals, clients that leave, top-ups and heartbeats, all on four tiny
    balances.
    """

    rng = random.Random(7)
    async with two_processes(database_url, 1000) as (database, *processes):
        spent = dict.fromkeys((account_id for account_id, _ in ACCOUNTS), 0)
        added = dict.fromkeys(spent, 0)
        over = asyncio.Event()

        async def client(p: Process) -> None:
            for _ in range(25):
                account_id, key_id = rng.choice(ACCOUNTS)
                amount = rng.randint(1, 400)
                holding = asyncio.ensure_future(
                    p.hold(amount, account_id=account_id, key_id=key_id)
                )
                if rng.random() < 0.2:
                    for _ in range(rng.randint(0, 30)):
                        await asyncio.sleep(0)
                    holding.cancel()
                try:
                    facts = await holding
                except (HoldRefused, asyncio.CancelledError):
                    continue
                p.lives(facts, *range(5))
                await asyncio.sleep(rng.random() * 0.005)
                cost = rng.randint(0, amount)
                spent[account_id] += cost
                p.settle(facts, cost)
                p.refuse(*rng.choice(ACCOUNTS))

        async def beat(p: Process) -> None:
            while not over.is_set():
                await p.heartbeat.beat()
                await asyncio.sleep(0.001)

        async def top_up() -> None:
            while not over.is_set():
                account_id, _ = rng.choice(ACCOUNTS)
                added[account_id] += 50
                await ledger.top_up(database, account_id, 50)
                await asyncio.sleep(0.002)

        beside = [asyncio.ensure_future(beat(p)) for p in processes]
        beside.append(asyncio.ensure_future(top_up()))
        await asyncio.gather(*(client(p) for p in processes for _ in range(12)))
        over.set()
        await asyncio.gather(*beside)
        for p in processes:
            await eventually(lambda p=p: p.writer.is_idle)  # type: ignore[misc]
        for account_id, _ in ACCOUNTS:
            expected = 1000 + added[account_id] - spent[account_id]
            assert await read_balance(database, account_id) == (expected, 0)
            assert expected >= 0  # nothing cost more than it had held
        assert await open_holds(database) == 0


@logs("ledger_unreachable")
@logs("heartbeat_missed", "database_lost", required=False)
async def test_writer_whose_connection_is_shot_in_mid_load_loses_nothing_and_repeats_nothing(
    database_url: str,
) -> None:
    async with two_processes(database_url, 10**9) as (database, one, two):
        settled: list[int] = []
        over = asyncio.Event()

        async def client(p: Process) -> None:
            while not over.is_set():
                try:
                    facts = await p.hold(1000)
                except LedgerUnavailable:  # its batches were shot for longer than a hold waits
                    continue
                p.lives(facts, 1)
                await asyncio.sleep(0)
                settled.append(1 + len(settled) % 100)
                p.settle(facts, settled[-1])

        clients = [asyncio.ensure_future(client(p)) for p in (one, two) for _ in range(20)]
        for _ in range(12):
            done = len(settled)
            await eventually(lambda done=done: len(settled) > done + 50)  # type: ignore[misc]
            await database.execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND query LIKE '%ledger_batch%'"
            )
        over.set()
        await asyncio.gather(*clients)
        for p in (one, two):
            await eventually(lambda p=p: p.writer.is_idle)  # type: ignore[misc]
        assert await read_balance(database, ACCOUNT) == (10**9 - sum(settled), 0)
        (counts,) = await database.fetch_all(
            "SELECT count(*), count(DISTINCT request_id), sum(cost_nano_usd)::bigint FROM call_logs"
        )
        assert counts == (len(settled), len(settled), sum(settled))


@logs("ledger_unreachable", "database_lost")
async def test_hold_requested_of_a_database_that_is_away_ends_in_a_response(
    database_url: str,
) -> None:
    async with two_processes(database_url, 1000) as (database, one, _):
        one.writer._timeout_seconds = 0.2
        one.writer._database = Database("host=127.0.0.1 port=1")
        responses = await asyncio.gather(*(one.hold(100) for _ in range(5)), return_exceptions=True)
        assert {type(response) for response in responses} == {LedgerUnavailable}
        one.writer._database = one.database
        await eventually(lambda: one.writer.is_idle)
        await one.wallets.settled(ACCOUNT)
        assert await read_balance(database, ACCOUNT) == (1000, 0)


@logs("ledger_unreachable")
async def test_session_that_may_still_run_a_batch_is_ended_before_the_batch_is_sent_again(
    database_url: str,
) -> None:
    """As after a freeze: the server has the batch, and the writer has given its session up."""
    writers = "SELECT pid FROM pg_stat_activity WHERE application_name = 'gw ledger proc_one'"

    async with two_processes(database_url, 1000) as (database, one, _):
        await one.hold(100)
        ((before,),) = await database.fetch_all(writers)
        async with database.transaction() as locked:
            await locked.execute("SELECT 1 FROM accounts WHERE id = %s FOR UPDATE", (ACCOUNT,))
            late = asyncio.ensure_future(one.hold(100))

            async def is_stuck() -> bool:
                (row,) = await locked.fetch_all(
                    "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", (before,)
                )
                return bool(row[0])

            while not await is_stuck():
                await asyncio.sleep(0.01)
            session = one.writer._session
            assert session is not None
            session._connection._aiopg._fail(psycopg2.OperationalError("silent"))

            async def is_taken_over() -> bool:
                found = [pid for (pid,) in await database.fetch_all(writers)]
                return bool(found) and before not in found

            while not await is_taken_over():  # although nobody lets go of the row
                await asyncio.sleep(0.01)
        await late
        assert await read_balance(database, ACCOUNT) == (1000, 200)
        assert await open_holds(database) == 2
