"""Deliveries of events to webhooks."""

from __future__ import annotations

from metrics.families import Families


class WebhookMetrics:
    """Attempts by outcome, and what waits."""

    def __init__(self, make: Families) -> None:
        self._attempts = make.counter("gw_webhook_deliveries_total")
        self._pending = make.gauge("gw_webhook_pending")[()]
        self._lag = make.gauge("gw_webhook_lag_seconds")[()]
        self._dead = make.counter("gw_webhook_dead_total")[()]

    def attempted(self, outcome: str) -> None:
        """Count an attempt: the status of its response, or why there was none."""
        self._attempts[(outcome,)].value += 1

    def died(self, count: int) -> None:
        """Count deliveries that are not tried again."""
        self._dead.value += count

    def standing(self, *, pending: int, lag_seconds: float) -> None:
        """Set what is pending in the database, and how long the oldest unsent event has waited."""
        self._pending.value = pending
        self._lag.value = lag_seconds
