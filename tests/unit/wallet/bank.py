"""A bank on the in-memory ledger: its writer runs, its wallets are asked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.wallet.messages import Hold
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.fake_ledger import FakeLedger
from tests.support.ledger_values import ACCOUNT, KEY


@dataclass
class Bank:
    """One process on one account with money."""

    ledger: FakeLedger
    identity: ProcessIdentity
    clock: FakeClock
    writer: LedgerWriter
    wallets: Wallets
    task: asyncio.Task[None]

    async def hold(self, hold: Hold) -> None:
        """Hold as a call does."""
        if (waiting := self.wallets.hold(hold)) is not None:
            await waiting


@asynccontextmanager
async def bank(balance: int = 1000) -> AsyncIterator[Bank]:
    ledger, clock, metrics = FakeLedger(), FakeClock(), Metrics()
    ledger.open_account(ACCOUNT, KEY, balance)
    database = cast(Database, ledger)
    identity = ProcessIdentity("p", "here", "boot", 1)
    identity.confirmed_at = clock.monotonic()  # there is no heartbeat here
    writer = LedgerWriter(
        database=database,
        identity=identity,
        clock=clock,
        metrics=metrics,
    )
    wallets = Wallets(writer=writer, database=database, clock=clock, metrics=metrics)
    task = asyncio.create_task(writer.run())
    yield Bank(ledger, identity, clock, writer, wallets, task)
    task.cancel()
    await asyncio.wait([task])
