"""Maintains the months of the call log and of the entries: makes the next ahead, drops old ones.

The jobs that ended in a dropped month of the log are deleted after it. A month of entries is
dropped after `gw ledger verify` has written its checkpoint, and after its calls' rows in the log.

Every process does this, and the database serialises them. What a round could not do, because a
reader has the whole log open, is left to the next one; no call ever waits for it (see
`actors/store/functions`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.queries import load
from actors.store.session import Session, Statements
from actors.wallet.money import format_usd
from metrics.logs import EventLog
from metrics.prometheus import Metrics

SQL = load("actors", "partitions.sql")
ROUND_SECONDS = 3600.0
# A month is read once before it is dropped, to keep its sum.
STATEMENT_SECONDS = 1800.0
# A row is written on the day of its instant, or some days later if its call was recovered.
VALUES_KEPT = timedelta(days=8)
# Spans of accounts that are added up in a round.
SPANS_BUILT_MAX = 50_000
# Jobs deleted in one transaction, and such transactions in a round.
PURGED_JOBS_MAX = 500
PURGES_MAX = 20


class Partitions:
    """One per process. `retention_months` (of the log) and `ledger_retention_months` (of entries)
    are read each round; None keeps everything."""

    def __init__(
        self,
        *,
        database: Database,
        retention_months: Callable[[], int | None],
        ledger_retention_months: Callable[[], int | None] = lambda: None,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._retention_months = retention_months
        self._ledger_retention_months = ledger_retention_months
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.partitions")

    async def run(self) -> None:
        """Run a round every hour, forever."""
        while True:
            await self.round()
            await self._clock.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Make missing months and drop old ones."""
        made = await self.make()
        try:
            await build_spans(self._database)
            kept = self._today() - VALUES_KEPT
            await self._database.execute(SQL["forget_values"], {"day": kept})
            await self._drop()
            await self._drop_entries()
        except StoreError as error:
            self._log.warning("months_not_dropped", error=str(error))
            made = False
        self._metrics.call_log_kept(made)

    async def make(self) -> bool:
        """Make the partitions of this month and the next two; False if that has to wait.

        Meanwhile rows are written to the default partition, and are moved later.
        """
        try:
            await self._database.execute(SQL["make"], (self._today(),))
            await self._database.execute(SQL["make_entries"], (self._today(),))
        except StoreError as error:
            self._log.warning("partitions_postponed", error=str(error))
            return False
        return True

    async def _drop(self) -> None:
        months = self._retention_months()
        if months is None:
            return
        limit = first_kept(self._today(), months)
        session = await self._database.session(statement_seconds=STATEMENT_SECONDS)
        try:
            while dropped := await session.fetch_one(SQL["drop"], (limit,)):
                month, rows, cost = dropped
                self._log.info(
                    "month_dropped",
                    month=f"{month:%Y-%m}",
                    rows=rows,
                    cost_usd=format_usd(cost),
                )
            await self._purge_jobs(session, limit)
        finally:
            await session.close()

    async def _drop_entries(self) -> None:
        months = self._ledger_retention_months()
        if months is None:
            return
        limit = first_kept(self._today(), months)
        session = await self._database.session(statement_seconds=STATEMENT_SECONDS)
        try:
            while dropped := await session.fetch_one(SQL["drop_entries"], (limit,)):
                table, entries = dropped
                self._log.info("entries_dropped", table=table, entries=entries)
        finally:
            await session.close()

    async def _purge_jobs(self, session: Session, limit: date) -> None:
        purged = 0
        for _ in range(PURGES_MAX):
            row = await session.fetch_one(SQL["purge_jobs"], (limit, PURGED_JOBS_MAX))
            assert row is not None
            purged += row[0]
            if row[0] < PURGED_JOBS_MAX:
                break
        if purged:
            self._log.info("jobs_purged", jobs=purged, before=f"{limit:%Y-%m}")

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock.now(), UTC).date()


async def build_spans(database: Statements) -> int:
    """Add up for whom calls were made in the spans of accounts that are over; return how many.

    Each is a transaction, and no call waits for it. Raises StoreError.
    """
    for (account_id,) in await database.fetch_all(SQL["unbegun"]):
        await database.execute(SQL["begin"], (account_id,))
    for built in range(SPANS_BUILT_MAX):
        row = await database.fetch_one(SQL["build"])
        if row is None or not row[0]:
            return built
    return SPANS_BUILT_MAX


def first_kept(today: date, months: int) -> date:
    """Return the first day of the first month kept: the present one and `months` before it."""
    assert months >= 1
    number = today.year * 12 + today.month - 1 - months
    return date(number // 12, number % 12 + 1, 1)
