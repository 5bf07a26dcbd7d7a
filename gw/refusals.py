"""The rows of refused calls: recorded, never charged (spec: Call log row)."""

from __future__ import annotations

from collections.abc import Callable

from actors.clock import Clock
from actors.wallet.messages import CallFacts, Outcome
from actors.wallet.wallets import Wallets
from channels.registry import Registry
from gw.api.services import RefusedCall
from metrics.prometheus import Metrics
from metrics.redact import redact


class RefusalRows:
    """Writes a row for each call that was refused before it held anything."""

    def __init__(
        self,
        *,
        wallets: Wallets,
        registry: Callable[[], Registry],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._wallets = wallets
        self._registry = registry
        self._clock = clock
        self._metrics = metrics

    def record(self, refusal: RefusedCall) -> None:
        """Have the row written; waits for nothing."""
        now = self._clock.now()
        model = redact(refusal.model or "")
        known = self._registry().resolve(model)
        facts = CallFacts(
            call_id=refusal.call_id,
            account_id=refusal.principal.account_id,
            key_id=refusal.principal.key_id,
            protocol=refusal.protocol,
            model=known.id if known is not None else model,
            submitted_at=refusal.submitted_at,
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
                error_message=redact(refusal.error_message),  # it may repeat what was sent
                detail=refusal.detail,
            ),
        )
        self._metrics.call_started(refusal.protocol)
        self._metrics.call_finished(
            protocol=refusal.protocol,
            model=known.id if known is not None else "other",
            status="rejected",
            code=refusal.error_code,
            seconds=seconds,
        )
