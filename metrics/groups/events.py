"""Events of the outbox."""

from __future__ import annotations

from metrics.families import Families


class EventMetrics:
    """Events by type, each counted by one process."""

    def __init__(self, make: Families) -> None:
        self._written = make.counter("gw_events_total")

    def written(self, kind: str, many: int) -> None:
        """Count events that were written, by whichever process."""
        self._written[(kind,)].value += many
