"""How a gateway ends on SIGTERM: whom it still serves, what it waits for, what it leaves behind.

The steps and their reasons are `ops/decisions/2026-11-22-draining.md`; who is in flight is
`http/drain.py`, connections are the listener's business. Closing what was opened is `serve.py`'s.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from actors.clock import Clock
from actors.heartbeat import Heartbeat
from actors.store.database import StoreUnavailable
from actors.supervisor import Supervisor
from actors.wallet.writer import LedgerWriter
from gw.http.drain import RequestsInFlight
from gw.http.server import Server
from gw.http.state import LAST_CALL_SECONDS
from gw.keys.last_use import LastUse
from metrics.logs import EventLog

# For this share of the drain a client that could not know is still served when its stream ends: its
# next one has at least twice as long as the one before took of the drain.
LAST_CALLS_SHARE = 1 / 3
# How long a stopping gateway waits for a database that is away before it leaves the rest of the
# settlements to recovery.
FLUSH_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """What takes part in the end of a gateway."""

    in_flight: RequestsInFlight
    public: Server
    writer: LedgerWriter
    heartbeat: Heartbeat
    last_use: LastUse
    supervisor: Supervisor
    clock: Clock

    async def drain(self, seconds: float) -> bool:
        """Stop accepting, finish what is in flight, settle; at most `seconds` for the calls.

        False when a hold may still be open, which is left to recovery.
        """
        log = EventLog("gw.serve")
        deadline = self.clock.monotonic() + seconds
        self.in_flight.begin_drain()
        log.info("drain_began", in_flight=len(self.in_flight))
        await self.public.stop_accepting()
        # Each connection that was not told may ask once more; no client comes besides.
        await self.public.last_calls(seconds * LAST_CALLS_SHARE)
        self.in_flight.refuse_new()
        log.info("last_calls_ended", in_flight=len(self.in_flight))
        left = max(0.0, deadline - self.clock.monotonic())
        cut = await self.in_flight.drain(seconds=left, clock=self.clock)
        if cut:
            log.warning("calls_cut", count=cut)
        is_settled = await self._flush(log)
        # Whose response has just ended may be asking again: that is refused in words, too.
        await self.public.last_calls(min(LAST_CALL_SECONDS, seconds / 2))
        return is_settled

    async def _flush(self, log: EventLog) -> bool:
        """Wait until every settlement is durable; an absent database gets its ten seconds.

        True when no hold of this process is open then, which the database says and not we.
        """
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.supervisor.stop_child("poller")  # others go on with what it has leased
                while not self.writer.is_idle:
                    await self.clock.sleep(0.01)
                # First the beat, or its next one would sign on again.
                await self.supervisor.stop_child("heartbeat")
                await self.last_use.write()
                await self.heartbeat.leave()
                count = await self.heartbeat.open_holds()
        except (TimeoutError, StoreUnavailable) as error:
            log.error("settlements_left_to_recovery", error=repr(error))
            return False
        if count:
            log.error("holds_left_to_recovery", count=count)
        return count == 0
