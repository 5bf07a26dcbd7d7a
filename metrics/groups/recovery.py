"""Recovered calls, and the flight recorder that they are recovered from."""

from __future__ import annotations

from metrics.families import Families


class RecoveryMetrics:
    """Calls settled for a lost process, and the state of this process's recorder."""

    def __init__(self, make: Families) -> None:
        self._recovered = make.counter("gw_calls_recovered_total")[()]
        self._corrected = make.counter("gw_recoveries_corrected_total")[()]
        self._recorder_up = make.gauge("gw_recorder_up")[()]
        self._unrecorded = make.counter("gw_calls_unrecorded_total")[()]
        self._damage = make.counter("gw_recorder_damage_total")[()]

    def recovered(self, count: int) -> None:
        """Count calls of a lost process settled here."""
        self._recovered.value += count

    def corrected(self) -> None:
        """Count a recovered call whose row and cost were corrected to its true settlement."""
        self._corrected.value += 1

    def recorder_up(self, is_up: bool) -> None:
        """Set whether the process has the file of its flight recorder."""
        self._recorder_up.value = int(is_up)

    def unrecorded(self) -> None:
        """Count a stream or a settlement for which the recorder had no room."""
        self._unrecorded.value += 1

    def damaged(self, parts: int) -> None:
        """Count what is damaged of the recorder of a process that died: its head, its slots."""
        self._damage.value += parts
