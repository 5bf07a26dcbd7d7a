"""Settles the calls of processes that died (reference 5.4).

A process on this kernel is dead when its pid is gone, never for its silence: a stopped process is
left to its process manager. Any other is known by its heartbeat only: it is declared dead when none
was seen for a while in which our own beats succeeded without a break. No clocks are compared, and
after an outage of the database, during which no process could beat, none is dead.

That can be wrong, so it is written before anything is settled: a process declared dead holds no
more money under its id (`process.py`). Its calls end as `interrupted` at the last delivery known,
and are corrected, row and cost, if their true settlements arrive later. These go through the ledger
like any settlement, so two processes that recover the same calls do no harm.

A process of this host leaves its flight recorder (`wallet/flight_recorder/`): a call that had ended
is settled as it ended, one under way at the output sent with its last read. For everything that the
recorder does not prove, the reports of the heartbeat count.

A job that such a process was submitting fails with its call: whether the upstream accepted it is
unknown. A hold that a job has taken over (`actors/wallet/messages.py`) belongs to no process and is
not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import ujson

from actors.clock import Clock
from actors.heartbeat import Heartbeat
from actors.process import SQL, first_id_of
from actors.store.connection import Row
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.wallet import receipt
from actors.wallet.flight_recorder.file_format import Ended, Recorded, StreamProgress
from actors.wallet.flight_recorder.wreck import Wreck, WreckTaken, left_behind, open_wreck
from actors.wallet.ledger import facts_of_hold, read_holds_summary
from actors.wallet.live_calls import LiveCalls
from actors.wallet.messages import Hold, LedgerUnavailable, Outcome
from actors.wallet.quarantine import adopt
from actors.wallet.wallets import Wallets
from metrics.logs import EventLog
from metrics.prometheus import Metrics

INTERVAL_SECONDS = 3.0
STALE_SECONDS = 10.0
# Age of a hold without a live call or a waiting settlement here, which is a leak.
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
        unsettled: Callable[[], set[int]],
        is_process_alive: Callable[[int, int], bool],
        clock: Clock,
        metrics: Metrics,
        data_dir: Path | None = None,
    ) -> None:
        """`data_dir` has the flight recorders of this host's processes; None: there are none."""
        self._heartbeat = heartbeat
        self._database = database
        self._wallets = wallets
        self._live = live
        self._unsettled = unsettled
        self._is_process_alive = is_process_alive
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.recovery")
        # For each process known by its heartbeat only: the last one, and when it was first seen, on
        # our monotonic clock.
        self._seen: dict[str, tuple[datetime, float]] = {}
        # When each lease of others that is called back was first seen, on our monotonic clock.
        self._called: dict[tuple[str, str, datetime], float] = {}
        self._data_dir = data_dir
        self._gone: set[str] = set()  # first ids of processes whose pid is gone on this host

    async def run(self) -> None:
        """Sweep forever."""
        while True:
            try:
                await self.sweep()
            except (StoreError, LedgerUnavailable) as error:
                self._log.warning("recovery_postponed", error=str(error))
            await self._clock.sleep(INTERVAL_SECONDS)

    async def sweep(self) -> int:
        """Sweep once; return how many calls were settled for other processes."""
        recovered = 0
        mine = self._heartbeat.identity
        others = await self._database.fetch_all(SQL["others"], (mine.id,))
        dead = await self._dead(others)
        for first_id, ids in (await self._by_process(dead, others)).items():
            recovered += await self._settle_process(first_id, ids)
        await self._take_leases()
        await self._look_for_leaks()
        files = 0 if self._data_dir is None else await adopt(self._database, self._data_dir)
        found = await read_holds_summary(self._database)
        self._metrics.holds(
            open_count=found.open_count,
            oldest_seconds=found.oldest_seconds,
            lease_seconds=found.lease_seconds,
        )
        self._metrics.ledger_proved(at=found.proved_at, faults=found.faults)
        self._metrics.quarantined(found.quarantined + files)
        self._metrics.budgets.overshot(found.overshoot_nano_usd)
        return recovered

    async def _dead(self, others: list[Row]) -> list[str]:
        """Return the processes to settle for, each declared dead before."""
        mine = self._heartbeat.identity
        # After the read: if that hung for long, our own heartbeat did too.
        is_judge = self._heartbeat.steady_seconds >= STALE_SECONDS
        dead, seen = [], {}
        self._gone.clear()
        for process_id, host, boot_id, pid, pid_started, beat_at, is_buried in others:
            is_near = mine.shares_pids(host, boot_id)
            if is_near and not self._is_process_alive(pid, pid_started):
                self._gone.add(first_id_of(process_id))
            if is_buried:  # by another process, which may have died before it settled
                dead.append(process_id)
            elif is_near:
                if first_id_of(process_id) in self._gone and await self._bury(process_id):
                    dead.append(process_id)
            else:
                seen[process_id] = self._since(process_id, beat_at)
                is_silent = self._clock.monotonic() - seen[process_id][1] > STALE_SECONDS
                if is_judge and is_silent and await self._bury(process_id, beat_at):
                    dead.append(process_id)
        self._seen = seen
        if is_judge:
            orphans = await self._database.fetch_all(SQL["orphans"], (STALE_SECONDS,))
            dead.extend(row[0] for row in orphans if row[0] != mine.id)
        return dead

    def _since(self, process_id: str, beat_at: datetime) -> tuple[datetime, float]:
        """Return this heartbeat of a process, and when it was first seen here."""
        known = self._seen.get(process_id)
        return known if known and known[0] == beat_at else (beat_at, self._clock.monotonic())

    async def _bury(self, process_id: str, beat_at: datetime | None = None) -> bool:
        """Declare a process dead if this is still its last heartbeat (None: in any case)."""
        mine = self._heartbeat.identity.id
        row = await self._database.fetch_one(SQL["declare_dead"], (process_id, mine, beat_at))
        if row is None or not row[0]:
            return False
        self._log.info("process_declared_dead", process=process_id, silent=beat_at is not None)
        return True

    async def _take_leases(self) -> None:
        """Take the leases that others have not returned long after they were called back.

        Whether their processes live is not asked. Since a beat that began before the call back no
        beat has confirmed those leases without reporting it, and without such a beat a process
        admits nothing from them after `CONFIRMED_SECONDS`, by its own monotonic clock.
        """
        rows = await self._database.fetch_all(SQL["called_back"], (self._heartbeat.identity.id,))
        now = self._clock.monotonic()
        self._called = {(*row,): self._called.get((*row,), now) for row in rows}
        for called, since in self._called.items():
            if now - since > STALE_SECONDS:
                ((amount,),) = await self._database.fetch_all(SQL["take_lease"], called)
                self._log.warning(
                    "lease_taken", process=called[0], account=called[1], nano_usd=amount
                )

    async def _by_process(self, dead: list[str], others: list[Row]) -> dict[str, list[str]]:
        """Group the ids to settle for by their process.

        If others have settled for a process and deleted its row, only its recorder is left.
        """
        found: dict[str, list[str]] = {}
        for process_id in dead:
            found.setdefault(first_id_of(process_id), []).append(process_id)
        if self._data_dir is not None:
            mine = self._heartbeat.identity
            known = {mine.first_id, *(first_id_of(row[0]) for row in others)}
            for first_id in await asyncio.to_thread(left_behind, self._data_dir):
                if first_id not in known:
                    found.setdefault(first_id, [])
        return found

    async def _settle_process(self, first_id: str, ids: list[str]) -> int:
        """Settle the calls of a dead process by its recorder, if this host has it."""
        wreck: Wreck | None = None
        try:
            if self._data_dir is not None:
                wreck = await asyncio.to_thread(open_wreck, self._data_dir, first_id)
        except WreckTaken:
            # Locked by another process that settles for it; or by the process itself, which runs
            # and was declared dead by mistake: what it has not settled yet is settled without the
            # recorder.
            if not ids or first_id in self._gone:
                return 0
        recorded = wreck.calls if wreck else {}
        recovered = 0
        try:
            for process_id in ids:
                recovered += await self._settle_all(process_id, recorded)
            if wreck:
                recovered += await self._settle_unwritten(recorded)
                await self._settle_late(recorded)
            if ids:  # after the settlements: what they leased becomes available again
                await self._database.execute(SQL["leave"], (ids,))
            if wreck:
                self._metrics.recovery.damaged(wreck.damage)
                wreck.remove()
            return recovered
        finally:
            if recovered:
                self._log.warning("calls_recovered", process=first_id, count=recovered)
            if wreck:
                wreck.close()

    async def _settle_unwritten(self, recorded: Mapping[UUID, Recorded]) -> int:
        """Write the calls whose hold the process had not written, and return how many.

        This follows its open holds, and it writes no new ones: a call missing in the ledger now is
        written here, or by another process that settles for the same one.
        """
        held = {call_id.hex: one for call_id, one in recorded.items() if _is_unwritten(one)}
        if not held:
            return 0
        rows = await self._database.fetch_all(SQL["unknown_of"], (list(held),))
        for (call_id,) in rows:
            what, begun = held[call_id].what, held[call_id].begun
            if isinstance(what, Ended):
                hold = Hold(facts=what.facts, amount_nano_usd=what.held or 0)
                self._wallets.settle_unwritten(
                    hold, what.identity, what.outcome, is_recovery=False, budgets=what.budgets
                )
            elif begun is not None:
                call = {"submitted_at": begun.facts.submitted_at, "detail": begun.detail}
                outcome = self._interrupted(call, _delivered_since(call, {}, held[call_id]))
                hold = Hold(facts=begun.facts, amount_nano_usd=begun.amount_nano_usd)
                self._wallets.settle_unwritten(
                    hold, begun.identity, outcome, is_recovery=True, budgets=begun.budgets
                )
        for account_id in dict.fromkeys(held[call_id].account_id for (call_id,) in rows):
            await self._wallets.settled(account_id)
        self._metrics.recovery.recovered(len(rows))
        return len(rows)

    async def _settle_late(self, recorded: Mapping[UUID, Recorded]) -> None:
        """Correct calls that others, without the recorder, have settled as interrupted."""
        ended = {
            call_id.hex: one.what
            for call_id, one in recorded.items()
            if isinstance(one.what, Ended)
        }
        if not ended:
            return
        rows = await self._database.fetch_all(SQL["recovered_of"], (list(ended),))
        for (call_id,) in rows:
            self._wallets.settle(ended[call_id].facts, ended[call_id].outcome)
        for account_id in dict.fromkeys(ended[call_id].facts.account_id for (call_id,) in rows):
            await self._wallets.settled(account_id)

    async def _settle_all(self, process_id: str, recorded: Mapping[UUID, Recorded]) -> int:
        recovered = 0
        # Others may have declared this process dead: its live calls end by themselves.
        tried = self._live.ids() | self._unsettled()
        while True:
            found = await self._database.fetch_all(SQL["holds_of"], (process_id,))
            rows = [row for row in found if UUID(row[0]).int not in tried]
            if not rows:  # the rest could not be settled; the writer has logged the error
                break
            tried.update(UUID(row[0]).int for row in rows)
            for row in rows:
                self._settle(row, recorded.get(UUID(row[0])))
            for account_id in dict.fromkeys(row[1] for row in rows):
                await self._wallets.settled(account_id)
            self._metrics.recovery.recovered(len(rows))
            recovered += len(rows)
        return recovered

    def _settle(self, row: tuple[Any, ...], recorded: Recorded | None = None) -> None:
        if recorded is not None and isinstance(recorded.what, Ended):
            self._wallets.settle(recorded.what.facts, recorded.what.outcome)
            return
        call_id, account_id, key_id, job_id, call_text, delivered_text = row
        call = ujson.loads(call_text)
        delivered = ujson.loads(delivered_text) if delivered_text else {}
        if recorded is not None:
            delivered = _delivered_since(call, delivered, recorded)
        self._wallets.recover(
            facts_of_hold(call_id, account_id, key_id, job_id, call),
            self._interrupted(call, delivered),
        )

    def _interrupted(self, call: Mapping[str, Any], delivered: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a call that ended with its process."""
        now, detail = self._clock.now(), _detail(call, delivered)
        return Outcome(
            status="interrupted",
            cost_nano_usd=delivered.get("cost", 0),
            created_at=now,
            latency_ms=max(0, round((now - call["submitted_at"]) * 1000)),
            error_code="gateway_restarted",
            error_message="The gateway stopped while this call was under way.",
            input_tokens=delivered.get("input", 0),
            output_tokens=delivered.get("output", 0),
            cached_tokens=delivered.get("cached", 0),
            detail=detail,
            served=detail.get("served", ""),
        )

    async def _look_for_leaks(self) -> None:
        """Settle our holds that have no call or settlement here: a defect, logged as an error."""
        mine = self._heartbeat.identity.id, LEAK_SECONDS
        if not await self._database.fetch_all(SQL["old_holds_of"], mine):
            return  # to ask what is known takes long beside a call
        known = self._live.ids() | self._unsettled()  # before the read: calls may end meanwhile
        for row in await self._database.fetch_all(SQL["old_holds_of"], mine):
            if UUID(row[0]).int not in known:
                self._log.error("hold_leaked", call=row[0])
                self._settle(row)


def _is_unwritten(recorded: Recorded) -> bool:
    what = recorded.what
    return what.held is not None if isinstance(what, Ended) else recorded.begun is not None


def _delivered_since(
    call: Mapping[str, Any], reported: Mapping[str, Any], recorded: Recorded
) -> Mapping[str, Any]:
    """Return the last reported delivery, or else that at the first byte, plus the output since."""
    if not isinstance(recorded.what, StreamProgress):  # nothing had been sent
        return reported
    known = reported or recorded.what.delivered
    output_tokens = recorded.output_tokens
    if known["basis"] == "stated" or output_tokens <= known["output"]:
        return known
    detail = _detail(call, known)
    tokens = {"input_tokens": known["input"], "cached_tokens": known["cached"]}
    try:
        lines = receipt.lines_of(detail, **tokens, output_tokens=output_tokens)
    except receipt.NoPrice:
        return known
    cost = receipt.total_nano_usd(lines, receipt.multiplier_of(detail))
    return {**known, "output": output_tokens, "cost": cost}


def _detail(call: Mapping[str, Any], delivered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt of a recovered call: price, hold, and the basis of its last report."""
    detail = {**(call.get("detail") or {}), **delivered.get("detail", {})}
    basis = delivered.get("basis", "nothing")
    if basis != "stated":
        detail["basis"] = basis
    if delivered.get("cache_write"):
        detail["cache_write"] = delivered["cache_write"]
    return detail
