"""The heartbeat of this process: it says which calls live here and what they have delivered.

Once a second, in one short batch: the process's sign of life, the progress of calls that moved, and
whatever else is kept without a write per call (`last_used_at` of keys). Recovery in another process
trusts it (`recovery.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import ujson

from actors.clock import Clock
from actors.identity import SQL, ProcessIdentity, sign_on, sign_on_again
from actors.live import Delivered, LiveCalls
from actors.store.database import Database, StoreUnavailable
from metrics.logs import EventLog
from metrics.prometheus import Metrics

INTERVAL_SECONDS = 1.0
# Without a response for so long the beats have not gone on without a break, whatever they say
# later: a statement may hang in a frozen database and still succeed.
BREAK_SECONDS = 5.0
# A watch that comes so late has been asleep with the whole process: it says nothing of others.
LATE_SECONDS = 1.0
# So many calls are priced in about a millisecond, while every stream waits.
CALLS_AT_ONCE = 200


class Heartbeat:
    """Beats until stopped; a missed beat is tried again with the next."""

    def __init__(
        self,
        *,
        identity: ProcessIdentity,
        database: Database,
        live: LiveCalls,
        clock: Clock,
        metrics: Metrics,
        chores: tuple[Callable[[], Awaitable[None]], ...] = (),
    ) -> None:
        self.identity = identity
        self._database = database
        self._live = live
        self._clock = clock
        self._metrics = metrics
        self._chores = chores
        self._log = EventLog("actors.heartbeat")
        # Since when the database has answered every beat; None while it does not.
        self.connected_since: float | None = None
        self._last_beat = 0.0
        self._has_signed_on = False

    def __repr__(self) -> str:
        return f"<Heartbeat {self.identity.id} {len(self._live)} live calls>"

    @property
    def steady_seconds(self) -> float:
        """How long the database has answered every beat, without a break until now."""
        now = self._clock.monotonic()
        if self.connected_since is None or now - self._last_beat > BREAK_SECONDS:
            return 0.0
        return now - self.connected_since

    async def run(self) -> None:
        """Beat once a second."""
        while True:
            await self.beat()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def watch(self) -> None:
        """Tell of a database that is silent while a beat hangs in it, within a second of the break.

        What frozen servers keep open is only known by its silence.
        """
        while True:
            due = self._clock.monotonic() + INTERVAL_SECONDS
            await self._clock.sleep(INTERVAL_SECONDS)
            now = self._clock.monotonic()
            if now - due < LATE_SECONDS and now - self._last_beat > BREAK_SECONDS:
                self._missed(f"no answer for {BREAK_SECONDS:g} s")

    def _missed(self, why: str) -> None:
        if self.connected_since is not None:
            self._log.warning("heartbeat_missed", error=why)
        self.connected_since = None
        self._metrics.database_up(False)

    async def beat(self) -> None:
        """One sign of life."""
        try:
            await self._sign()
            await self._report_delivered()
            for chore in self._chores:
                await chore()
        except StoreUnavailable as error:
            self._missed(str(error))
            self._live.report_again()
            return
        self._metrics.database_up(True)
        now = self._clock.monotonic()
        if self.connected_since is None or now - self._last_beat > BREAK_SECONDS:
            self.connected_since = now
        self._last_beat = now

    async def _sign(self) -> None:
        """Say that the process lives; under another id when others have taken it for dead."""
        signed = self.identity.id
        if await self._database.execute(SQL["beat"], (signed,)):
            return
        if self._has_signed_on:
            await sign_on_again(self._database, self.identity, signed, self._metrics)
        else:
            await sign_on(self._database, self.identity)
            self._has_signed_on = True

    async def leave(self) -> None:
        """Sign off: nothing lives here any more."""
        await self._database.execute(SQL["leave"], (self.identity.all_ids,))

    async def open_holds(self) -> int:
        """How many holds of this process are open, by the database."""
        mine = (self.identity.all_ids,)
        ((count,),) = await self._database.fetch_all(SQL["count_holds_of"], mine)
        return int(count)

    async def _report_delivered(self) -> None:
        for moved in self._live.changed(at_once=CALLS_AT_ONCE):
            if moved:
                rows = [
                    {"call_id": call_id.hex, "delivered": delivered_to_json(delivered)}
                    for call_id, delivered in moved
                ]
                await self._database.execute(SQL["delivered"], (ujson.dumps(rows),))
            else:
                await asyncio.sleep(0)


def delivered_to_json(delivered: Delivered) -> dict[str, int | str]:
    """The stored form of what a call has delivered."""
    return {
        "cost": delivered.cost_nano_usd,
        "input": delivered.input_tokens,
        "output": delivered.output_tokens,
        "cached": delivered.cached_tokens,
        "cache_write": delivered.cache_write_tokens,
        "basis": delivered.basis,
    }
