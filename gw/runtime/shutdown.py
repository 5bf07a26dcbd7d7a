"""The drain of a gateway on SIGTERM.

The steps and their reasons are in `ops/decisions/processes.md`; `gw/http/drain.py` counts the
requests in flight, the listener handles connections, `gw/serve.py` closes the resources.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from actors.clock import Clock
from actors.heartbeat import Heartbeat
from actors.store.errors import StoreUnavailable
from actors.supervisor import Supervisor
from actors.wallet.writer import LedgerWriter
from gw.http.connection import DRAIN_GRACE_SECONDS
from gw.http.drain import RequestsInFlight
from gw.http.server import Server
from gw.keys.last_use import LastUse
from metrics.logs import EventLog

# The share of the drain in which an uninformed client is still served after its stream ends: its
# next stream has at least twice the time that the previous one took.
DRAIN_GRACE_SHARE = 1 / 3
# How long a stopping gateway waits for a database that takes nothing before it leaves the remaining
# settlements to recovery. It waits on while they are ever fewer, and counts turns of the loop, not
# time: where a turn takes longer, so does the database's answer.
FLUSH_SECONDS = 10.0
_TURN_SECONDS = 0.01
_TURNS = round(FLUSH_SECONDS / _TURN_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """The objects that take part in the drain."""

    in_flight: RequestsInFlight
    public: Server
    writer: LedgerWriter
    heartbeat: Heartbeat
    last_use: LastUse
    supervisor: Supervisor
    clock: Clock

    async def drain(self, seconds: float) -> bool:
        """Stop accepting, finish calls within `seconds`, and settle.

        Returns False when a hold may still be open, which is left to recovery.
        """
        log = EventLog("gw.serve")
        deadline = self.clock.monotonic() + seconds
        self.in_flight.begin_drain()
        log.info("drain_began", in_flight=len(self.in_flight))
        await self.public.stop_accepting()
        # Each open connection without a `Connection: close` may send one more request.
        await self.public.wait_for_clients(seconds * DRAIN_GRACE_SHARE)
        self.in_flight.refuse_new()
        log.info("last_calls_ended", in_flight=len(self.in_flight))
        left = max(0.0, deadline - self.clock.monotonic())
        cut = await self.in_flight.drain(seconds=left, clock=self.clock)
        if cut:
            log.warning("calls_cut", count=cut)
        is_settled = await self._flush(log)
        # A client whose response has just ended may send another request, which is refused.
        await self.public.wait_for_clients(min(DRAIN_GRACE_SECONDS, seconds / 2))
        return is_settled

    async def _flush(self, log: EventLog) -> bool:
        """Wait until every settlement is durable, or ten seconds for a database that takes none.

        Returns True when the database counts no open hold of this process.
        """
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.supervisor.stop_child("poller")  # other processes continue its jobs
            await self._written()
            async with asyncio.timeout(FLUSH_SECONDS):
                # The heartbeat first: its next beat would register the process again.
                await self.supervisor.stop_child("heartbeat")
                await self.last_use.write_all()
                await self.heartbeat.leave()
                count = await self.heartbeat.open_holds()
        except (TimeoutError, StoreUnavailable) as error:
            log.error("settlements_left_to_recovery", error=repr(error))
            return False
        if count:
            log.error("holds_left_to_recovery", count=count)
        return count == 0

    async def _written(self) -> None:
        """Wait until the ledger has taken everything. Raises TimeoutError."""
        fewest, turns = self.writer.left, 0
        while left := self.writer.left:
            if left < fewest:
                fewest, turns = left, 0
            if turns == _TURNS:
                raise TimeoutError
            turns += 1
            self.writer.mailbox.wake()
            await self.clock.sleep(_TURN_SECONDS)
