"""The rows of refused calls: recorded, never charged (reference 6.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from actors.clock import Clock
from actors.limits.limiter import Entered, Limiter
from actors.wallet.attribution import Attribution
from actors.wallet.messages import CallFacts, Outcome
from actors.wallet.wallets import Wallets
from gw.config.live import LiveConfig
from gw.keys.principal import Principal
from metrics.log_redaction import redact
from metrics.logs import EventLog
from metrics.prometheus import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A billed request that the gateway itself refused: one row, status `rejected`, cost 0."""

    call_id: UUID
    principal: Principal
    protocol: str
    model: str | None  # as named by the client; None if the body was not read that far
    http_status: int
    error_code: str
    error_message: str
    submitted_at: float  # Unix seconds
    detail: Mapping[str, Any] | None = None  # the members read so far, for the row
    attribution: Attribution | None = None


# Rows of refused calls of one account in a minute: a refusal costs its client nothing, a row as
# much as that of a call.
REFUSALS_RECORDED_MAX = 1000
# Requests to the keeper of limits that are under way, of one process.
REFUSALS_ASKED_MAX = 64


class RefusalRate:
    """Whether a refused call has a row: so many of an account in a minute, by all processes.

    It decides at once, since a client may read its log next. Where other processes count the
    account's, too, their keeper is told of each row, and what it refuses ends the account's rows
    until the minute is over; a few more may have been written by then.
    """

    def __init__(self, *, limiter: Limiter, clock: Clock) -> None:
        self._limiter = limiter
        self._clock = clock
        self._minute = 0
        self._counts: dict[str, int] = {}  # of the minute, by account
        self._left_out: set[str] = set()  # accounts with a call without a row in the minute
        self._asking: set[asyncio.Task[None]] = set()

    def admits(self, account_id: str) -> bool:
        """Count a refused call; return whether it has a row."""
        minute = int(self._clock.monotonic() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
            self._left_out.clear()
        count = self._counts.get(account_id, 0)
        self._counts[account_id] = count + 1
        if count >= REFUSALS_RECORDED_MAX:
            return False
        name = _refusals_of(account_id)
        entered = self._limiter.enter(name, rpm=REFUSALS_RECORDED_MAX, concurrency=None)
        if isinstance(entered, tuple):
            return self._left(name, entered)
        if len(self._asking) < REFUSALS_ASKED_MAX:
            asking = asyncio.create_task(self._ask(account_id, minute, entered))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        else:
            entered.close()  # not begun
        return True

    def _left(self, name: str, entered: Entered) -> bool:
        """End an admission, which is for a moment only; return whether it was granted."""
        status, slot = entered
        if status.refused is None:
            self._limiter.leave(name, slot)
        return status.refused is None

    def is_first_left_out(self, account_id: str) -> bool:
        """Whether a call without a row is the account's first in this minute."""
        is_first = account_id not in self._left_out
        self._left_out.add(account_id)
        return is_first

    async def _ask(
        self, account_id: str, minute: int, entering: Coroutine[Any, Any, Entered]
    ) -> None:
        is_granted = self._left(_refusals_of(account_id), await entering)
        if not is_granted and minute == self._minute:
            left = max(REFUSALS_RECORDED_MAX, self._counts.get(account_id, 0))
            self._counts[account_id] = left

    async def close(self) -> None:
        """Ask no more."""
        for asking in self._asking:
            asking.cancel()
        if self._asking:
            await asyncio.wait(self._asking)


def _refusals_of(account_id: str) -> str:
    return f"refusals:{account_id}"


class RefusalRows:
    """Writes a row for each call that was refused before it held anything.

    Beyond `REFUSALS_RECORDED_MAX` of an account in a minute they are counted (reference 1.11).
    """

    def __init__(
        self,
        *,
        wallets: Wallets,
        current: LiveConfig,
        clock: Clock,
        metrics: Metrics,
        rate: RefusalRate,
    ) -> None:
        self._wallets = wallets
        self._current = current
        self._clock = clock
        self._metrics = metrics
        self._rate = rate

    def record(self, refusal: RefusedCall) -> None:
        """Queue the row, or count the call; does not wait."""
        now = self._clock.now()
        model = redact(refusal.model or "")
        known = self._current.registry.resolve(model)
        if self._rate.admits(refusal.principal.account_id):
            self._write(refusal, known.id if known is not None else model, now)
        else:
            self._metrics.refusal_without_row(refusal.error_code)
            if self._rate.is_first_left_out(refusal.principal.account_id):
                EventLog("gw.web").warning(
                    "refusals_not_recorded",
                    account=refusal.principal.account_id,
                    recorded_a_minute=REFUSALS_RECORDED_MAX,
                )
        self._metrics.call_started(refusal.protocol)
        self._metrics.call_finished(
            protocol=refusal.protocol,
            model=known.id if known is not None else "other",
            status="rejected",
            code=refusal.error_code,
            seconds=max(0.0, now - refusal.submitted_at),
        )

    def _write(self, refusal: RefusedCall, model: str, now: float) -> None:
        facts = CallFacts(
            call_id=refusal.call_id,
            account_id=refusal.principal.account_id,
            key_id=refusal.principal.key_id,
            protocol=refusal.protocol,
            model=model,
            submitted_at=refusal.submitted_at,
            attribution=refusal.attribution or None,
        )
        seconds = max(0.0, now - refusal.submitted_at)
        self._wallets.record(
            facts,
            Outcome(
                status="rejected",
                cost_nano_usd=0,
                created_at=now,
                latency_ms=round(seconds * 1000),
                error_code=refusal.error_code,
                error_message=redact(refusal.error_message),  # it may repeat text of the client
                detail=refusal.detail,
            ),
        )
