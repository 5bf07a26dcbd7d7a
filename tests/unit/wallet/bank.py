"""A bank on the in-memory ledger: its writer runs, its wallets are asked; values to ask with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from actors.identity import ProcessIdentity
from actors.store.database import Database
from actors.wallet.messages import CallFacts, Hold, Outcome
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.fake_ledger import FakeLedger

ACCOUNT, KEY = "acct_a", "key_a"


@dataclass
class Bank:
    """One process on one account with money."""

    ledger: FakeLedger
    clock: FakeClock
    writer: LedgerWriter
    wallets: Wallets
    task: asyncio.Task[None]


@asynccontextmanager
async def bank(balance: int = 1000) -> AsyncIterator[Bank]:
    ledger, clock, metrics = FakeLedger(), FakeClock(), Metrics()
    ledger.open_account(ACCOUNT, KEY, balance)
    database = cast(Database, ledger)
    writer = LedgerWriter(
        database=database,
        identity=ProcessIdentity("p", "here", "boot", 1),
        clock=clock,
        metrics=metrics,
    )
    wallets = Wallets(writer=writer, database=database, clock=clock, metrics=metrics)
    task = asyncio.create_task(writer.run())
    yield Bank(ledger, clock, writer, wallets, task)
    task.cancel()
    await asyncio.wait([task])


def facts(number: int) -> CallFacts:
    return CallFacts(
        call_id=UUID(int=number),
        account_id=ACCOUNT,
        key_id=KEY,
        protocol="chat",
        model="m",
        submitted_at=1.0,
    )


def hold(number: int, amount: int = 100, cap: int | None = None) -> Hold:
    return Hold(facts=facts(number), amount_nano_usd=amount, cap_nano_usd=cap)


def outcome(cost: int, status: Any = "success") -> Outcome:
    return Outcome(status=status, cost_nano_usd=cost, created_at=2.0, latency_ms=1000)
