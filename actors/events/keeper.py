"""Looks after the outbox: numbers what nobody reads, counts, deletes what is old.

Every process does this, and the database serialises them; nobody waits for it, as whoever reads
events numbers them first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.clock import Clock
from actors.events import outbox
from actors.store.database import Database
from actors.store.errors import StoreError
from metrics.logs import EventLog
from metrics.prometheus import Metrics

ROUND_SECONDS = 2.0
PURGE_SECONDS = 60.0
# Events deleted in one transaction, and such transactions in a row.
PURGED_MAX = 5000
PURGES_MAX = 20


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long events are kept after they were numbered, and whether every call has one."""

    days: float
    are_calls_wanted: bool


class EventKeeper:
    """One per process. `keeping` is read each round."""

    def __init__(
        self,
        *,
        database: Database,
        keeping: Callable[[], Keeping],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._keeping = keeping
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.events")
        self._wants: bool | None = None  # what the database has of this process's configuration
        self._purge_at = 0.0

    async def begin(self) -> None:
        """Put into force which calls have events, before there are calls.

        A database that cannot write now has it from a later round.
        """
        try:
            await self.want_calls()
        except StoreError as error:
            self._log.warning("events_not_kept", error=str(error))

    async def run(self) -> None:
        """Run a round every two seconds, forever."""
        while True:
            try:
                await self.round()
            except StoreError as error:
                self._log.warning("events_not_kept", error=str(error))
            await self._clock.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Number and count; once a minute, delete. Raises StoreError."""
        await self.want_calls()
        await outbox.number(self._database)
        for kind, many in (await outbox.count(self._database)).items():
            self._metrics.events.written(kind, many)
        if self._clock.monotonic() >= self._purge_at:
            self._purge_at = self._clock.monotonic() + PURGE_SECONDS
            await self._purge()

    async def want_calls(self) -> None:
        """Put into force whether every call has an event, if that has changed here."""
        wants = self._keeping().are_calls_wanted
        if wants != self._wants:
            await outbox.want_calls(self._database, are_wanted=wants)
            self._wants = wants

    async def _purge(self) -> None:
        purged = 0
        for _ in range(PURGES_MAX):
            gone = await outbox.purge(self._database, self._keeping().days, PURGED_MAX)
            purged += gone
            if gone < PURGED_MAX:
                break
        if purged:
            self._log.info("events_purged", events=purged)
