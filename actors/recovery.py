"""Settles the calls of processes that died (contract §3: crash).

A process is dead when it ran on this very kernel and its pid is gone, or when its heartbeat has
stopped while ours went on without a break: after an outage of the database everybody's heartbeat is
old, and nobody is dead for that. Its calls end as `interrupted` at what they were last known to
have delivered. Going through the ledger like any settlement, two processes that recover the same
calls do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import ujson

from actors.clock import Clock
from actors.heartbeat import SQL, Heartbeat
from actors.live import LiveCalls
from actors.store.database import Database, StoreUnavailable
from actors.wallet.ledger import read_holds_summary
from actors.wallet.messages import CallFacts, LedgerUnavailable, Outcome
from actors.wallet.wallets import Wallets
from metrics.logs import EventLog
from metrics.prometheus import Metrics

INTERVAL_SECONDS = 3.0
STALE_SECONDS = 10.0
# A hold of this process that no live call and no waiting settlement knows: something leaked.
LEAK_SECONDS = 60.0


class Recovery:
    """Looks for calls without a process, and for holds without a call, every few seconds."""

    def __init__(
        self,
        *,
        heartbeat: Heartbeat,
        database: Database,
        wallets: Wallets,
        live: LiveCalls,
        unsettled: Callable[[], set[UUID]],
        is_pid_alive: Callable[[int], bool],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._heartbeat = heartbeat
        self._database = database
        self._wallets = wallets
        self._live = live
        self._unsettled = unsettled
        self._is_pid_alive = is_pid_alive
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.recovery")

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            try:
                await self.sweep()
            except (StoreUnavailable, LedgerUnavailable) as error:
                self._log.warning("recovery_postponed", error=str(error))
            await self._clock.sleep(INTERVAL_SECONDS)

    async def sweep(self) -> int:
        """One round; returns how many calls were settled for others."""
        recovered = 0
        for process_id in await self._dead():
            recovered += await self._settle_all(process_id)
        await self._look_for_leaks()
        count, oldest = await read_holds_summary(self._database)
        self._metrics.holds(open_count=count, oldest_seconds=oldest)
        return recovered

    async def _dead(self) -> list[str]:
        mine = self._heartbeat.identity
        dead = []
        others = await self._database.fetch_all(SQL["others"], (mine.id,))
        # After the read: had it hung for long, our own heartbeat would have too.
        is_judge = self._heartbeat.steady_seconds >= STALE_SECONDS
        for process_id, host, boot_id, pid, age_seconds in others:
            is_neighbour = boot_id != "" and (host, boot_id) == (mine.host, mine.boot_id)
            if (is_neighbour and not self._is_pid_alive(pid)) or (
                is_judge and age_seconds > STALE_SECONDS
            ):
                dead.append(process_id)
        if is_judge:
            orphans = await self._database.fetch_all(SQL["orphans"], (STALE_SECONDS,))
            dead.extend(row[0] for row in orphans if row[0] != mine.id)
        return dead

    async def _settle_all(self, process_id: str) -> int:
        recovered = 0
        tried: set[str] = set()
        while True:
            found = await self._database.fetch_all(SQL["holds_of"], (process_id,))
            rows = [row for row in found if row[0] not in tried]
            if not rows:  # what is left could not be settled; the writer has said why
                break
            tried.update(row[0] for row in rows)
            for row in rows:
                self._settle(row)
            for account_id in {row[1] for row in rows}:
                await self._wallets.settled(account_id)
            self._metrics.calls_recovered(len(rows))
            recovered += len(rows)
        if recovered:
            self._log.warning("calls_recovered", process=process_id, count=recovered)
        await self._database.execute(SQL["leave"], (process_id,))
        return recovered

    def _settle(self, row: tuple[Any, ...]) -> None:
        call_id, account_id, key_id, call_text, delivered_text, _ = row
        call = ujson.loads(call_text)
        delivered = ujson.loads(delivered_text) if delivered_text else {}
        now = self._clock.now()
        self._wallets.settle(
            CallFacts(
                call_id=UUID(call_id),
                account_id=account_id,
                key_id=key_id,
                protocol=call["protocol"],
                model=call["model"],
                submitted_at=call["submitted_at"],
            ),
            Outcome(
                status="interrupted",
                cost_nano_usd=delivered.get("cost", 0),
                created_at=now,
                latency_ms=max(0, round((now - call["submitted_at"]) * 1000)),
                error_code="gateway_restarted",
                error_message="The gateway stopped while this call was under way.",
                input_tokens=delivered.get("input", 0),
                output_tokens=delivered.get("output", 0),
                cached_tokens=delivered.get("cached", 0),
                detail=_detail(call, delivered),
            ),
        )

    async def _look_for_leaks(self) -> None:
        """A hold of ours that nothing here will ever settle is a defect: settle it, loudly."""
        known = self._live.ids() | self._unsettled()  # before the read: a call may end meanwhile
        mine = self._heartbeat.identity.id
        for row in await self._database.fetch_all(SQL["old_holds_of"], (mine, LEAK_SECONDS)):
            if UUID(row[0]) not in known:
                self._log.error("hold_leaked", call=row[0])
                self._settle(row)


def _detail(call: Mapping[str, Any], delivered: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt of a recovered call: its price and hold, and what its last report rests on."""
    detail = dict(call.get("detail") or {})
    basis = delivered.get("basis", "nothing")
    if basis != "stated":
        detail["basis"] = basis
    if delivered.get("cache_write"):
        detail["cache_write"] = delivered["cache_write"]
    return detail
