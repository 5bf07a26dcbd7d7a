"""The heartbeat of this process: it reports which calls are live here and what they have delivered.

Once a second, in one short batch: the sign of life, the progress of calls since the last beat,
and other data that is not written per call (`last_used_at` of keys). Recovery in another process
(`recovery.py`) relies on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import ujson

from actors import process
from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import ContentRefused, StoreUnavailable
from actors.wallet.live_calls import LiveCalls
from metrics.logs import EventLog
from metrics.prometheus import Metrics

BEAT_SECONDS = 1.0
# After this time without a response the beats count as interrupted even if they succeed later: a
# statement may hang in a frozen database and still complete.
BREAK_SECONDS = 5.0
# A watch that wakes this late was suspended with the whole process, and judges no others.
LATE_SECONDS = 1.0
# Pricing so many calls takes about a millisecond, during which every stream waits.
CALLS_AT_ONCE = 200


class Heartbeat:
    """Beats until stopped; a failed beat is repeated with the next."""

    def __init__(
        self,
        *,
        identity: process.ProcessIdentity,
        database: Database,
        live: LiveCalls,
        clock: Clock,
        metrics: Metrics,
        chores: tuple[Callable[[], Awaitable[None]], ...] = (),
        called_back: Callable[[Sequence[str]], None] = lambda _accounts: None,
    ) -> None:
        """`called_back` is told of which accounts this process has a lease that is called back."""
        self.identity = identity
        self._database = database
        self._live = live
        self._clock = clock
        self._metrics = metrics
        self._chores = chores
        self._called_back = called_back
        self._log = EventLog("actors.heartbeat")
        # Since when every beat has succeeded; None after one that failed, and why that did.
        self.connected_since: float | None = None
        self.missed_by: StoreUnavailable | None = None
        self._last_beat = 0.0
        self._has_signed_on = False

    @property
    def steady_seconds(self) -> float:
        """How long every beat has succeeded, without a break until now."""
        now = self._clock.monotonic()
        if self.connected_since is None or now - self._last_beat > BREAK_SECONDS:
            return 0.0
        return now - self.connected_since

    async def run(self) -> None:
        """Beat once a second."""
        while True:
            await self.beat()
            await self._clock.sleep(BEAT_SECONDS)

    async def watch(self) -> None:
        """Report a database that does not respond to a beat, within a second of the break.

        Connections of a frozen server stay open, so only its silence shows it.
        """
        while True:
            due = self._clock.monotonic() + BEAT_SECONDS
            await self._clock.sleep(BEAT_SECONDS)
            now = self._clock.monotonic()
            if now - due < LATE_SECONDS and now - self._last_beat > BREAK_SECONDS:
                self._missed(f"no answer for {BREAK_SECONDS:g} s")

    def _missed(self, why: str) -> None:
        if self.connected_since is not None:
            self._log.warning("heartbeat_missed", error=why)
        self.connected_since = None
        self._metrics.database_up(False)

    async def beat(self) -> None:
        """Beat once."""
        try:
            await self._sign()
            for work in (self._report_delivered, *self._chores):
                try:
                    await work()
                except ContentRefused as error:  # the fault of what it says, not of the beat
                    self._log.error("chore_refused", chore=repr(work), error=str(error))
        except StoreUnavailable as error:
            self.missed_by = error
            self._missed(str(error))
            self._live.report_again()
            return
        self.missed_by = None
        self._metrics.database_up(True)
        now = self._clock.monotonic()
        if self.connected_since is None or now - self._last_beat > BREAK_SECONDS:
            self.connected_since = now
        self._last_beat = now

    async def _sign(self) -> None:
        """Report that the process lives; re-register when others have declared it dead."""
        signed, began = self.identity.id, self._clock.monotonic()
        rows = await self._database.fetch_all(process.SQL["beat"], (signed,))
        if rows:
            # What was called back before this beat began is known from here on: only therefore does
            # the beat confirm the leases.
            if rows[0][0]:
                self._called_back(rows[0][0])
            if self.identity.id == signed:
                self.identity.confirmed_at = began
            return
        if self._has_signed_on:
            await process.reregister(self._database, self.identity, signed, self._metrics)
        else:
            await process.register(self._database, self.identity)
            self._has_signed_on = True

    async def leave(self) -> None:
        """Delete the rows of this process: it has ended."""
        await self._database.execute(process.SQL["leave"], (self.identity.all_ids,))

    async def open_holds(self) -> int:
        """Return how many holds of this process are open in the database."""
        mine = (self.identity.all_ids,)
        ((count,),) = await self._database.fetch_all(process.SQL["count_holds_of"], mine)
        return int(count)

    async def _report_delivered(self) -> None:
        for moved in self._live.changed(at_once=CALLS_AT_ONCE):
            if moved:
                rows = [
                    {"call_id": call_id.hex, "delivered": delivered.to_json()}
                    for call_id, delivered in moved
                ]
                await self._database.execute(process.SQL["delivered"], (ujson.dumps(rows),))
            else:
                await asyncio.sleep(0)
