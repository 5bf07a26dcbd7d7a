"""Forgets what budgets have spent: a run some time after its last call, a period 400 days after it
has ended.

Every process does this, and the database lets one at it. A sum on which a call is held, or of which
a process leases, stays until that has ended.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.queries import load
from metrics.logs import EventLog

SQL = load("actors.wallet", "budget_keeper.sql")
ROUND_SECONDS = 10.0
PURGE_SECONDS = 3600.0
# Sums deleted in one transaction, and such transactions in a round.
FORGOTTEN_MAX = 2000
FORGETS_MAX = 20


class BudgetKeeper:
    """One per process. `run_days` is read each round."""

    def __init__(self, *, database: Database, run_days: Callable[[], float], clock: Clock) -> None:
        self._database = database
        self._run_days = run_days
        self._clock = clock
        self._log = EventLog("actors.wallet")
        self._purge_at = 0.0

    async def run(self) -> None:
        """Run a round every ten seconds, forever."""
        while True:
            try:
                await self.round()
            except StoreError as error:
                self._log.warning("budgets_not_purged", error=str(error))
            await self._clock.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Forget runs; once an hour, periods. Raises StoreError."""
        await self._all("forget_runs", (self._run_days(), FORGOTTEN_MAX))
        if self._clock.monotonic() >= self._purge_at:
            self._purge_at = self._clock.monotonic() + PURGE_SECONDS
            await self._all("purge_sums", (FORGOTTEN_MAX,))

    async def _all(self, what: str, params: tuple[float, ...]) -> None:
        for _ in range(FORGETS_MAX):
            ((gone,),) = await self._database.fetch_all(SQL[what], params)
            if gone:
                self._log.info("budget_sums_forgotten", what=what, sums=gone)
            if gone < FORGOTTEN_MAX:
                return
