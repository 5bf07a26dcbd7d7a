"""Outcomes of configurations that were read: in a single process, and in a parent."""

from __future__ import annotations

from collections.abc import Iterator

from metrics.families import Families

# Remaining validity of a certificate below which its alerts fire (ops/prometheus/alerts.yml).
CERTIFICATE_SECONDS = 14 * 86400
CERTIFICATE_SECONDS_MIN = 3 * 86400


class ConfigMetrics:
    """Reloads by outcome, and whether the present file is in force."""

    def __init__(self, make: Families) -> None:
        self._reloads = make.counter("gw_config_reloads_total")
        self._is_last = make.gauge("gw_config_last_reload_successful")[()]
        self._read_at = make.gauge("gw_config_last_success_timestamp_seconds")[()]
        self._certificate = make.gauge("gw_certificate_expiry_timestamp_seconds")[()]

    def started(self, at: float) -> None:
        """Record the start with an accepted configuration, at this Unix time."""
        self._is_last.value = 1
        self._read_at.value = at

    def accepted(self, at: float) -> None:
        """Record a new configuration in force."""
        self._reloads[("accepted",)].value += 1
        self.started(at)

    def certificate(self, expires_at: float) -> None:
        """Record until when the chain shown to clients is valid, in Unix seconds; 0 for none."""
        self._certificate.value = expires_at

    def refused(self) -> None:
        """Record a configuration refused as a whole; the one before stays in force."""
        self._reloads[("refused",)].value += 1
        self._is_last.value = 0

    def conditions(self, now: float) -> Iterator[str]:
        """Yield conditions as `Metrics.conditions`, at this Unix time; none without a file."""
        if self._read_at.value and not self._is_last.value:
            yield "config_reload_refused"
        left = self._certificate.value - now
        if self._certificate.value and left < CERTIFICATE_SECONDS:
            is_soon = left < CERTIFICATE_SECONDS_MIN
            yield "certificate_expiring_soon" if is_soon else "certificate_expiring"
