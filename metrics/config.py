"""What became of the configurations that were read: in a single process, and in a parent."""

from __future__ import annotations

from metrics.families import Families


class ConfigMetrics:
    """Reloads by outcome, and whether the file as it stands is the one in force."""

    def __init__(self, make: Families) -> None:
        self._reloads = make.counter("gw_config_reloads_total")
        self._is_last = make.gauge("gw_config_last_reload_successful")[()]
        self._read_at = make.gauge("gw_config_last_success_timestamp_seconds")[()]

    def started(self, at: float) -> None:
        """The process begins with a configuration it has accepted, at this Unix time."""
        self._is_last.value = 1
        self._read_at.value = at

    def accepted(self, at: float) -> None:
        """Another one is in force."""
        self._reloads[("accepted",)].value += 1
        self.started(at)

    def refused(self) -> None:
        """One was refused as a whole; the one before stays."""
        self._reloads[("refused",)].value += 1
        self._is_last.value = 0
